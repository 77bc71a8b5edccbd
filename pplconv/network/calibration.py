"""`quantize_model`: turn a float32 network into an integer one, from samples of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sized
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from .._literals import Method
from ..drawing.progress_bar import check_wanted, late_bar
from ..quant.observing import Observer
from ..quant.weights import weights_beside
from .choosing import Choice, choose
from .loading import load
from .model_passes import remove_unused
from .preparing import prepare
from .session import InferenceSession
from .values import constant

__all__ = ["quantize_model"]

Array = npt.NDArray[Any]
# onnxruntime and other engines read this version; nothing newer is needed.
_IR_VERSION = 10
# Largest bias, in units of the products of scales: it leaves room for the sums.
_MOST_UNITS = 1 << 28


def quantize_model(
    model: Any,
    samples: Iterable[Any],
    *,
    method: Method = "minmax",
    percentile: float = 99.99,
    keep: Collection[str] = (),
    threads: int | None = None,
    progress: Callable[[float, str], None] | bool | None = None,
) -> onnx.ModelProto:
    """Quantize a network's convolutions and products with known weights.

    Parameters
    ----------
    model : str, path, bytes-like or onnx.ModelProto
        A network of float32, as for `pplconv.InferenceSession`.
    samples : iterable
        Typical inputs: mappings of names to arrays, or arrays if there is one input.
        They are run through the network one by one.
    method : {"minmax", "percentile", "mse"}, optional
        How ranges are chosen, as in `pplconv.quant.observe`.
    percentile : float, optional
        As in `pplconv.quant.observe`.
    keep : collection of str, optional
        Names of nodes, or of their outputs, that stay in float32.
    threads : int, optional
        Size of the team that runs the samples.
    progress : callable or bool, optional
        Called with the share done and a text before each sample. By default, work of more than two
        seconds draws a bar if ``sys.stderr`` is a terminal; False: none.

    Returns
    -------
    onnx.ModelProto
        The network of opset 24 with pairs of QuantizeLinear and DequantizeLinear around products:
        values are uint8, weights int8 with zero points 0 and a scale for each output channel, each
        bias int32. It has the inputs and outputs of the model.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described, there are no samples, or numbers in the network are not
        finite.

    Examples
    --------
    >>> import onnx, pplconv
    >>> quantized = pplconv.quant.quantize_model("model.onnx", samples)  # doctest: +SKIP
    >>> session = pplconv.InferenceSession(quantized)  # doctest: +SKIP
    """
    if isinstance(keep, str):
        raise TypeError(f"keep must be a collection of names, got {keep!r}")
    check_wanted(progress)
    Observer(method, percentile=percentile)
    prepared = prepare(load(model), copy=False).model
    prepared.ir_version = _IR_VERSION
    _check_names(prepared.graph, keep)
    choice = choose(prepared.graph, keep)
    observers = {value: Observer(method, percentile=percentile) for value in _firsts(choice)}
    with late_bar(progress) as tell:
        _observe(prepared, choice, observers, _told(samples, tell), threads)
    _Writer(prepared.graph, choice, {v: o.parameters() for v, o in observers.items()}).write()
    remove_unused(prepared)
    prepared.graph.sort()
    proto: onnx.ModelProto = ir.to_proto(prepared)
    return proto


def _check_names(graph: ir.Graph, keep: Collection[str]) -> None:
    known = {node.name for node in graph} | {v.name for node in graph for v in node.outputs}
    for name in keep:
        if name not in known:
            raise ValueError(f"keep names {name!r}, which is no node of the network")


def _firsts(choice: Choice) -> list[ir.Value]:
    return list(dict.fromkeys(choice.first(value) for value in choice.values))


def _told(samples: Iterable[Any], tell: Callable[[float, str], None] | None) -> Iterator[Any]:
    """Give the samples, and tell before each how many were there."""
    total = len(samples) if isinstance(samples, Sized) else None
    for number, sample in enumerate(samples, 1):
        if tell is not None:
            share = (number - 1) / total if total else 0.0
            tell(share, f"{number}/{total or '?'} samples")
        yield sample


def _observe(
    model: ir.Model,
    choice: Choice,
    observers: Mapping[ir.Value, Observer],
    samples: Iterable[Any],
    threads: int | None,
) -> None:
    """Run the samples, and give each observer the values that share its scale."""
    watched = model.clone()
    made = {v.name: v for node in watched.graph for v in node.outputs}
    given = {value.name for value in watched.graph.outputs}
    names = {str(value.name): choice.first(value) for value in choice.values}
    inner = [name for name in names if name in made and name not in given]
    watched.graph.outputs.extend(made[name] for name in inner)
    session = InferenceSession(ir.to_proto(watched), threads=threads)
    wanted = [name for name in names if name in made]
    count = 0
    for sample in samples:
        feed = _feed(session, sample)
        results = dict(zip(wanted, session.run(wanted, feed), strict=True))
        for name, first in names.items():
            try:
                observers[first].add(results[name] if name in results else feed[name])
            except ValueError as error:
                raise ValueError(f"samples: the value {name!r} {error}") from error
        count += 1
    if not count:
        raise ValueError("samples must be given, got none")


def _feed(session: InferenceSession, sample: Any) -> Mapping[str, Any]:
    if isinstance(sample, Mapping):
        return sample
    names = [value.name for value in session.get_inputs()]
    if len(names) != 1:
        raise TypeError(
            f"samples must be mappings of {names} to arrays, got {type(sample).__name__}"
        )
    return {names[0]: sample}


class _Writer:
    """A graph under quantization: inserts pairs of QuantizeLinear and DequantizeLinear."""

    def __init__(
        self, graph: ir.Graph, choice: Choice, parameters: Mapping[ir.Value, tuple[Any, Any]]
    ) -> None:
        self.graph, self.choice, self.parameters = graph, choice, parameters
        self.names = {v.name for node in graph for v in node.outputs}
        self.names |= {value.name for value in graph.inputs} | set(graph.initializers)
        self.constants: dict[Any, ir.Value] = {}
        self.weights: dict[Any, ir.Value] = {}

    def write(self) -> None:
        """Insert a pair after each value, and replace weights by integers."""
        for value in list(self.choice.values):
            self.pair(value)
        for node, axis in self.choice.products.items():
            self.operands(node, axis)

    def pair(self, value: ir.Value) -> None:
        """Redirect integer readers of a value to its quantized and dequantized copy."""
        readers = [
            (node, port) for node, port in value.uses() if self.choice.reads_integers(node, value)
        ]
        first = self.choice.first(value)
        parameters = self.both(first)
        quantize = ir.node("QuantizeLinear", [value, *parameters])
        dequantize = ir.node("DequantizeLinear", [quantize.outputs[0], *parameters])
        for node, ending in ((quantize, "quantized"), (dequantize, "dequantized")):
            node.name = node.outputs[0].name = self.unused(f"{value.name}_{ending}")
        dequantize.outputs[0].type, dequantize.outputs[0].shape = value.type, value.shape
        for node, port in readers:
            node.replace_input_with(port, dequantize.outputs[0])
        self.graph.extend([quantize, dequantize])

    def both(self, first: ir.Value) -> list[ir.Value]:
        """Give the scale and zero point that values share."""
        return [
            self.constant((first, what), f"{first.name}_{what}", np.asarray(number))
            for what, number in zip(("scale", "zero_point"), self.parameters[first], strict=True)
        ]

    def constant(self, key: Any, name: str, array: Array) -> ir.Value:
        """Give a constant, the same one for the same key."""
        if key not in self.constants:
            tensor = ir.tensor(array)
            value = ir.Value(
                name=self.unused(name), shape=ir.Shape(array.shape),
                type=ir.TensorType(tensor.dtype), const_value=tensor,
            )  # fmt: skip
            tensor.name = value.name
            self.graph.register_initializer(value)
            self.constants[key] = value
        return self.constants[key]

    def operands(self, node: ir.Node, axis: int) -> None:
        """Quantize the weights and the bias of a product."""
        x, w = (node.inputs[port] for port in (0, 1))
        assert x is not None and w is not None
        x_scale = float(self.parameters[self.choice.first(self.origin(x))][0])
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        array: Array | None = constant(w)
        numbers: Array | None = constant(bias)
        assert array is not None
        if numbers is not None:
            numbers = _columns(node, numbers, array.shape[axis])
            if numbers is None:
                return
        integers, scale, _ = weights_beside(array, numbers, x_scale, _MOST_UNITS, axis=axis)
        key = w, axis, scale.tobytes()
        node.replace_input_with(1, self.dequantized(key, str(w.name), integers, scale, axis))
        if numbers is None or bias is None:
            return
        units = x_scale * scale.astype(np.float64)
        rounded = np.rint(numbers / units)
        units32 = np.asarray(np.float32(x_scale) * scale)
        if node.op_type == "Gemm":
            node.attributes["beta"] = ir.AttrFloat32("beta", 1.0)
        # Another product may scale the same bias by other factors.
        own = bias, rounded.tobytes(), units32.tobytes()
        node.replace_input_with(
            2, self.dequantized(own, str(bias.name), rounded.astype(np.int32), units32, 0)
        )

    def origin(self, value: ir.Value) -> ir.Value:
        """Give the dequantized value that a product reads."""
        dequantize = value.producer()
        assert dequantize is not None and dequantize.inputs[0] is not None
        quantize = dequantize.inputs[0].producer()
        assert quantize is not None and quantize.inputs[0] is not None
        return quantize.inputs[0]

    def dequantized(
        self, key: Any, name: str, integers: Array, scale: Array, axis: int
    ) -> ir.Value:
        """Give a DequantizeLinear of integer constants; one node for each key."""
        if key not in self.weights:
            zeros = np.zeros(scale.shape, integers.dtype)
            inputs = [
                self.constant((key, "integers"), f"{name}_quantized", integers),
                self.constant((key, "scale"), f"{name}_scale", scale),
                self.constant((key, "zero"), f"{name}_zero_point", zeros),
            ]
            node = ir.node("DequantizeLinear", inputs, {"axis": axis})
            node.name = node.outputs[0].name = self.unused(f"{name}_dequantized")
            node.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
            node.outputs[0].shape = ir.Shape(integers.shape)
            self.graph.append(node)
            self.weights[key] = node.outputs[0]
        return self.weights[key]

    def unused(self, name: str) -> str:
        """Give an unused name."""
        unique, count = name, 0
        while unique in self.names:
            count += 1
            unique = f"{name}_{count}"
        self.names.add(unique)
        return unique


def _columns(node: ir.Node, bias: Array, channels: int) -> Array | None:
    """Give a bias as one number for each output channel; None if rows have different biases."""
    numbers = bias.astype(np.float64)
    if node.op_type == "Gemm":
        numbers = numbers * node.attributes.get_float("beta", 1.0)
    if numbers.size not in (1, channels) or (numbers.ndim and numbers.shape[-1] != numbers.size):
        return None
    return np.broadcast_to(numbers.reshape(-1), (channels,))

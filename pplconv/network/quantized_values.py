"""Scales and zero points of a graph's quantized values, and their checks.

A quantized value ``q`` stands for ``(q - zero) * scale``. Loops need both when a program is made,
so they have to be constants; only those of DynamicQuantizeLinear may differ between runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._records import record
from .integers import quantize
from .onnx_later import ir
from .values import INTEGERS, attribute_int, constant, describe, is_constant

__all__ = [
    "Quantization",
    "check_quantization",
    "dequantize_constants",
    "numbers_of",
    "quantization_of",
    "quantize_constants",
]

Array = npt.NDArray[Any]
MICROSOFT = "com.microsoft"

_OUTPUT = -1
# Where nodes have quantized values, each with its scale and zero point behind it, or the scale
# where it stands for the output; by domain and operator.
_TWO = ((0, 1), (3, 4), (_OUTPUT, 6))
_ONE = ((0, 1), (_OUTPUT, 3))
_SCALES: dict[tuple[str, str], tuple[tuple[int, int], ...]] = {
    ("", "QuantizeLinear"): ((_OUTPUT, 1),),
    ("", "DequantizeLinear"): ((0, 1),),
    ("", "QLinearConv"): _TWO,
    ("", "QLinearMatMul"): _TWO,
    (MICROSOFT, "QuantizeLinear"): ((_OUTPUT, 1),),
    (MICROSOFT, "DequantizeLinear"): ((0, 1),),
    (MICROSOFT, "QLinearAdd"): _TWO,
    (MICROSOFT, "QLinearConv"): _TWO,
    (MICROSOFT, "QLinearMul"): _TWO,
    (MICROSOFT, "QLinearAveragePool"): _ONE,
    (MICROSOFT, "QLinearGlobalAveragePool"): _ONE,
    (MICROSOFT, "QLinearSoftmax"): _ONE,
    (MICROSOFT, "QLinearSigmoid"): _ONE,
    (MICROSOFT, "QLinearLeakyRelu"): _ONE,
    (MICROSOFT, "QGemm"): ((0, 1), (3, 4), (_OUTPUT, 7)),
}


@record(frozen=True, eq=False)
class Quantization:
    """The scale, zero point and type of a quantized value.

    Parameters
    ----------
    scale : ndarray of float32
        One for all, of shape (), or one for each index of `axis`.
    zero : ndarray of int64
        Zero points, of the same shape.
    dtype : numpy.dtype
        Of the integers.
    axis : int or None
        None: one scale for all.
    """

    scale: Array
    zero: Array
    dtype: np.dtype[Any]
    axis: int | None

    @property
    def one_scale(self) -> float:
        """The scale of all numbers, as float32 has it."""
        return float(self.scale)

    @property
    def one_zero(self) -> int:
        """The zero point of all numbers."""
        return int(self.zero)

    @property
    def lowest(self) -> int:
        """The least integer of the type."""
        return int(np.iinfo(self.dtype).min)

    def is_same(self, other: Quantization | None) -> bool:
        """Whether another quantization gives integers the same meaning."""
        return (
            other is not None
            and self.dtype == other.dtype
            and self.axis == other.axis
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero, other.zero)
        )


def quantization_of(node: ir.Node | None) -> Quantization | None:
    """Give the quantization of a QuantizeLinear or DequantizeLinear.

    Parameters
    ----------
    node : ir.Node or None
        Any node.

    Returns
    -------
    Quantization or None
        None for other operators, what is not constant or not of float32, integers of other than 8
        or 32 bits, and scales of blocks.
    """
    if node is None or node.domain or node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
        return None
    quantizes = node.op_type == "QuantizeLinear"
    if quantizes and attribute_int(node, "precision", 0) not in (0, ir.DataType.FLOAT):
        return None
    floats, integers = node.inputs[0], node.outputs[0]
    if not quantizes:
        floats, integers = integers, floats
    if floats is None or integers is None or floats.dtype != ir.DataType.FLOAT:
        return None
    if integers.dtype not in INTEGERS or attribute_int(node, "block_size", 0):
        return None
    scale = constant(node.inputs[1])
    zero_value = node.inputs[2] if len(node.inputs) > 2 else None
    zero = constant(zero_value)
    if scale is None or scale.dtype != np.float32 or (zero is None and zero_value is not None):
        return None
    if scale.ndim > 1 or (zero is not None and zero.size != scale.size):
        return None
    axis = None
    if scale.size != 1:
        axis = _axis(node, scale.size)
        if axis is None:
            return None
    shape = () if axis is None else scale.shape
    zeros = np.zeros(shape, np.int64) if zero is None else zero.astype(np.int64).reshape(shape)
    return Quantization(scale.reshape(shape), zeros, np.dtype(integers.dtype.numpy()), axis)


def _axis(node: ir.Node, scales: int) -> int | None:
    """Axis that a node has scales for; None if it is unknown or there is none such."""
    shape = None if node.inputs[0] is None else node.inputs[0].shape
    axis = attribute_int(node, "axis", 1)
    if shape is None or not -len(shape) <= axis < len(shape):
        return None
    size = shape[axis]
    return axis % len(shape) if not isinstance(size, int) or size == scales else None


def numbers_of(value: ir.Value | None) -> Array | None:
    """Give the numbers of a constant, or of a DequantizeLinear of one, in float64.

    Parameters
    ----------
    value : ir.Value or None
        An input of a node.

    Returns
    -------
    ndarray or None
        None if it differs between runs, or is left out.
    """
    array = constant(value)
    if array is not None:
        return array.astype(np.float64)
    node = None if value is None else value.producer()
    quantization = quantization_of(node)
    if quantization is None or node is None or node.op_type != "DequantizeLinear":
        return None
    integers = constant(node.inputs[0])
    if integers is None:
        return None
    scale, zero = (_along(array, quantization.axis, integers.ndim)
                   for array in (quantization.scale, quantization.zero))  # fmt: skip
    return np.asarray((integers.astype(np.int64) - zero) * scale.astype(np.float64))


def _along(array: Array, axis: int | None, rank: int) -> Array:
    if axis is None:
        return array
    return array.reshape([-1 if d == axis else 1 for d in range(rank)])


def quantize_constants(graph: ir.Graph) -> None:
    """Compute each QuantizeLinear of constants: weights stored as float32.

    Parameters
    ----------
    graph : ir.Graph
        Changed in place.
    """
    for node in list(graph):
        found = quantization_of(node)
        if node.op_type != "QuantizeLinear" or found is None or not is_constant(node.inputs[0]):
            continue
        array = constant(node.inputs[0])
        assert array is not None
        scale, zero = (_along(a, found.axis, array.ndim) for a in (found.scale, found.zero))
        _make_constant(graph, node, quantize(array, scale, zero, found.dtype))


def dequantize_constants(graph: ir.Graph) -> bool:
    """Dequantize the quantized constants that no quantized node uses.

    Parameters
    ----------
    graph : ir.Graph
        Changed in place.

    Returns
    -------
    bool
        Whether there were any.
    """
    done = False
    for node in list(graph):
        if node.op_type != "DequantizeLinear" or node.domain or not is_constant(node.inputs[0]):
            continue
        numbers = numbers_of(node.outputs[0])
        if numbers is None or not node.outputs[0].uses():
            continue
        _make_constant(graph, node, numbers.astype(np.float32))
        done = True
    return done


def _make_constant(graph: ir.Graph, node: ir.Node, array: Array) -> None:
    """Replace a node by a constant, unless it computes an output of the network."""
    old = node.outputs[0]
    if old.is_graph_output():
        return
    tensor = ir.Tensor(array, name=old.name)
    graph.remove(node, safe=False)
    value = ir.Value(
        name=old.name,
        shape=ir.Shape(array.shape),
        type=ir.TensorType(tensor.dtype),
        const_value=tensor,
    )
    old.replace_all_uses_with(value)
    graph.register_initializer(value)


def check_quantization(graph: ir.Graph) -> None:
    """Refuse invalid scales and zero points.

    Parameters
    ----------
    graph : ir.Graph
        A folded graph.

    Raises
    ------
    ValueError
        Naming the node, if a scale is not constant, not finite or not above zero, or a zero point
        is not constant, has another type than its value, or is out of range.
    """
    for node in graph:
        inputs = [*node.inputs, *[None] * 9]
        for port, scale_port in _scales(node):
            scale, zero = inputs[scale_port : scale_port + 2]
            if scale is None:
                continue
            if not _is_dynamic(scale):
                _check_scale(node, scale, port == _OUTPUT or not is_constant(inputs[port]))
            if zero is not None and not _is_dynamic(zero):
                # An output has the type of its zero point, even if the file declares another.
                _check_zero(node, zero, None if port == _OUTPUT else inputs[port])


def _scales(node: ir.Node) -> tuple[tuple[int, int], ...]:
    key = node.domain, node.op_type
    if key == (MICROSOFT, "QLinearConcat"):
        # The output's come first, then each input with its own.
        return ((_OUTPUT, 0), *((port, port + 1) for port in range(2, len(node.inputs), 3)))
    return _SCALES.get(key, ())


def _is_dynamic(value: ir.Value) -> bool:
    node = value.producer()
    return node is not None and node.op_type == "DynamicQuantizeLinear" and not node.domain


def _check_scale(node: ir.Node, value: ir.Value, by_loops: bool) -> None:
    """Refuse invalid scales, and denormal ones, which loops would take for zero."""
    scale = constant(value)
    if scale is None:
        raise ValueError(
            f"model has a scale {value.name!r} that is not constant at {describe(node)}"
        )
    numbers = scale.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(f"model has a scale that is not finite at {describe(node)}")
    if not (numbers > 0).all():
        raise ValueError(
            f"model has the scale {numbers.min():g} at {describe(node)}: expected more than 0"
        )
    if by_loops and not (numbers >= np.finfo(np.float32).tiny).all():
        raise ValueError(
            f"model has the scale {numbers.min():g} at {describe(node)}: expected a normal number "
            "of float32"
        )


def _check_zero(node: ir.Node, value: ir.Value, integers: ir.Value | None) -> None:
    zero = constant(value)
    if zero is None:
        raise ValueError(
            f"model has a zero point {value.name!r} that is not constant at {describe(node)}"
        )
    kind = None if integers is None else integers.dtype
    if kind is not None and value.dtype != kind:
        raise ValueError(f"model has a zero point of {value.dtype} for {kind} at {describe(node)}")
    if zero.dtype == np.int32 and zero.any():
        raise ValueError(
            f"model has the zero point {int(zero.reshape(-1)[0])} for int32 at {describe(node)}: "
            "expected 0"
        )

"""Prepared layers as nodes of a graph.

A node has the weights and the geometry of its layer. Each convolution of floats keeps the bits of
the plan that the layer has for the whole input: a program of layers gives the layers' results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._records import NamedTuple, record
from ..api.conv import Conv2d
from ..api.layer import ready_of
from ..api.quantized_layer import QConv2d, description_of
from ..api.transposed_layer import ConvTranspose2d
from ..arguments import checks
from ..arguments.activation import activation_of
from ..arguments.argument_names import named
from ..memory.dtypes import name_of
from ..ops.transposed.transposed_problem import make_transposed
from ..problem import ConvProblem
from .builder import Own
from .nodes import Constants, Graph, Node
from .operators.elementwise_steps import BRAIN, SINGLE
from .storage import Array, Shape
from .values import all_finite

__all__ = [
    "Described",
    "Layer",
    "Shared",
    "described",
    "graph_of_layers",
    "narrow_images",
    "output_shape",
    "own_of",
]

Layer = Conv2d | QConv2d | ConvTranspose2d


class Shared(NamedTuple):
    """Settings that all layers of a program have.

    Parameters
    ----------
    precision : str
        As of `Conv2d`.
    sparse : bool or str
        Likewise.
    """

    precision: str
    sparse: bool | str


@record(frozen=True)
class Described:
    """A layer, and how it may run with others.

    Parameters
    ----------
    layer : Conv2d, QConv2d or ConvTranspose2d
        The layer.
    name : str
        Of the layer, for messages.
    takes, gives : numpy.dtype
        Types of its input and output.
    shared : Shared or None
        Settings that the layers of its program have; None if it runs alone.
    result : str
        Name of its output in the program.
    """

    layer: Layer
    name: str
    takes: np.dtype[Any]
    gives: np.dtype[Any]
    shared: Shared | None
    result: str = ""


def described(layer: object, name: str) -> Described:
    """Describe a layer.

    Parameters
    ----------
    layer : object
        A layer, if the caller is right.
    name : str
        Its name in messages.

    Raises
    ------
    TypeError
        If it is no layer of images.
    """
    if isinstance(layer, QConv2d):
        plain = (
            type(layer).__call__ is QConv2d.__call__
            and layer.layout == "NHWC"
            and _fits(_offset(layer))
        )
        # Sums of integers are exact, so any plan has their bits.
        shared = Shared("auto", layer.sparse) if plain and _is_found(layer) else None
        return Described(layer, name, layer.x_dtype, layer.out_dtype, shared)
    if isinstance(layer, Conv2d):
        alone = (
            type(layer).__call__ is not Conv2d.__call__
            or layer.padding_mode != "zeros"
            or layer.layout == "NCHWc"
            or not _is_found(layer)
            # Their zero padding is treated apart: see `Ready`.
            or not all_finite(layer.weight)
        )
        shared = None if alone else Shared(layer.precision or "auto", layer.sparse)
        return Described(layer, name, layer.dtype, layer.dtype, shared)
    if isinstance(layer, ConvTranspose2d):
        return Described(layer, name, layer.dtype, layer.dtype, None)
    kind = type(layer).__name__
    raise TypeError(f"{name} must be a Conv2d, QConv2d, ConvTranspose2d or Chain, got {kind}")


def _offset(layer: QConv2d) -> Array:
    """Give the bias, and what the zero point of inputs adds to sums: int32 if it fits."""
    own = description_of(layer)
    offset = own.offset - own.x_zero * own.weight.sum((1, 2, 3), dtype=np.int64)
    found: Array = offset.astype(np.int32) if _fits(offset) else offset
    return found


def _fits(offset: Array) -> bool:
    return bool((offset == offset.astype(np.int32)).all())


def _is_found(layer: Conv2d | QConv2d) -> bool:
    """Whether zeros are left out as in a network: where they are found, and it pays."""
    return layer.sparse is not True and layer.block is None


def _problem(each: Described, shape: Shape, source: str = "input") -> ConvProblem:
    """Describe a layer's convolution of an input of some shape."""
    layer = each.layer
    assert not isinstance(layer, ConvTranspose2d)
    with named(input=source, weight=f"{each.name}.weight"):
        return checks.make_problem(
            shape, layer.weight_shape, "f32", stride=layer.stride, padding=layer.padding,
            dilation=layer.dilation, groups=layer.groups, layout=layer.layout,
        )  # fmt: skip


def output_shape(each: Described, shape: Shape, source: str) -> Shape:
    """Give the shape of a layer's output.

    Parameters
    ----------
    each : Described
        The layer.
    shape : tuple of int
        Of its input, with a batch, in the layer's layout.
    source : str
        Name of the input in messages.

    Raises
    ------
    ValueError
        If the layer takes no such input.
    """
    layer = each.layer
    if not isinstance(layer, ConvTranspose2d):
        return _problem(each, shape, source).output_shape
    with named(input=source, weight=f"{each.name}.weight"):
        found: Shape = make_transposed(
            shape, layer.weight_shape, name_of(layer.dtype), stride=layer.stride,
            padding=layer.padding, output_padding=layer.output_padding, output_size=None,
            dilation=layer.dilation, groups=layer.groups, layout=layer.layout,
        ).output_shape  # fmt: skip
    return found


def own_of(each: Described, shape: Shape) -> Own | None:
    """Give the plan and the packed weights of a layer; None if any plan has its bits."""
    layer = each.layer
    if not isinstance(layer, Conv2d):
        return None
    prepared, packed = ready_of(layer, shape)
    described = activation_of(layer.activation, layer.out_channels)
    return Own(prepared, packed, layer.weight, described.epilogue)


def graph_of_layers(layers: Sequence[Described], shape: Shape) -> Graph:
    """Make the graph of layers that can run in one program.

    Parameters
    ----------
    layers : sequence of Described
        In their order.
    shape : tuple of int
        Of the input, with a batch, in the layers' layout.
    """
    constants = Constants()
    last = layers[0].layer.layout == "NHWC"
    shapes = {"input": _planes(shape, last)}
    dtypes = {"input": _computed(layers[0].takes)}
    nodes, name = [], "input"
    for each in layers:
        problem = _problem(each, shape)
        node = _node(each, problem, name, constants)
        nodes.append(node)
        name, shape = each.result, problem.output_shape
        shapes[name], dtypes[name] = _planes(shape, last), _computed(each.gives)
    for known in constants:
        shapes[known], dtypes[known] = constants[known].shape, constants[known].dtype
    return Graph(nodes, shapes, dtypes, constants, ["input"], [name])


def _computed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return SINGLE if dtype == BRAIN else dtype


def narrow_images(layers: Sequence[Described]) -> frozenset[str]:
    """Name the images of bfloat16, which `graph_of_layers` describes as float32."""
    images = [("input", layers[0].takes), *((each.result, each.gives) for each in layers)]
    return frozenset(name for name, dtype in images if dtype == BRAIN)


def _planes(shape: Shape, last: bool) -> Shape:
    """Give a shape in ONNX's order."""
    n, *rest = shape
    return (n, rest[2], rest[0], rest[1]) if last else shape


def _node(each: Described, problem: ConvProblem, source: str, constants: Constants) -> Node:
    """Make the node of a layer, with its constants."""
    (top, bottom), (left, right) = problem.padding
    attributes: dict[str, Any] = {
        "kernel_shape": [problem.kh, problem.kw], "strides": list(problem.stride),
        "dilations": list(problem.dilation), "pads": [top, left, bottom, right],
        "group": problem.groups,
    }  # fmt: skip

    def constant(what: str, array: Any) -> str:
        name = f"{each.result}.{what}"
        constants.add_array(name, array)
        return name

    layer = each.layer
    if isinstance(layer, QConv2d):
        own = description_of(layer)
        store = own.output
        inputs = [source, constant("weight", own.weight), constant("offset", _offset(layer))]
        if store.multiplier is not None:
            inputs.append(constant("multiplier", store.multiplier))
        attributes |= {
            "x_zero": own.x_zero, "y_zero": store.zero, "low": store.low, "high": store.high,
            "residual_scale": 1.0, "residual_zero": 0, "gate": 0, "slope": 1.0, "middle": 0.0,
            "shift": 0.0,
        }  # fmt: skip
        return Node("pplconv.QuantizedConv", inputs, [each.result], attributes, None)
    inputs = [source, constant("weight", layer.weight), "", *[""] * 5]
    if layer.bias is not None:
        inputs[2] = constant("bias", layer.bias)
    activation = activation_of(layer.activation, problem.oc)
    if activation.kind != "none":
        attributes["activation"] = activation.kind
    if activation.kind == "clip":
        attributes["activation_parameters"] = list(activation.bounds or ())
    elif activation.kind == "leaky_relu":
        attributes["activation_parameters"] = [activation.slope]
    elif activation.kind == "prelu":
        inputs[7] = constant("slope", activation.slope)
    return Node("pplconv.Conv", inputs, [each.result], attributes, None)

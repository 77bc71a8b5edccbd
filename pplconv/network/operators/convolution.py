"""Convolutions: planned as `Conv2d` plans them, on images whose channels are neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ... import planner
from ..._kernels import MOST_REGISTERS
from ...api import arguments
from ...api.activation import Activation, activation_of
from ...api.placing import with_places
from ...api.prepared import Activation as PlannedActivation
from ...api.prepared import Prepared
from ...memory.dtypes import DTYPES, NAMES
from ...schedules.finish import Finish
from ..builder import Builder
from ..nodes import Graph, Node, as_type
from ..scaling import ScaledTensor
from ..storage import Array, Shape, Step, Value, channels_last, constant_value, strides_of
from .elementwise import NATIVE, emit_program
from .expressions import Code, assign

# Activations that the loops of convolutions have; others follow in a pass of their own.
STORED = ("", "relu", "clip", "leaky_relu", "prelu", "hardswish", "sigmoid", "silu")


@dataclass(frozen=True)
class Epilogue:
    """What follows the sums of a convolution.

    Parameters
    ----------
    bias : ndarray or None
        One for each output channel.
    residual : Value or None
        Added before the activation.
    activation : str
        As fused nodes name it.
    parameters : list of float
        Of the activation.
    slope : ndarray or None
        Of ``"prelu"``.
    scale, offset : ndarray or None
        One for each output channel, after the activation.
    last : Value or None
        Added at the end.
    """

    bias: Array | None = None
    residual: Value | None = None
    activation: str = ""
    parameters: Sequence[float] = ()
    slope: Array | None = None
    scale: Array | None = None
    offset: Array | None = None
    last: Value | None = None

    def as_clip(self, oc: int) -> tuple[Epilogue, float]:
        """Write HardSigmoid as a clip of sums times a number: the epilogue, and the number."""
        if self.activation != "hardsigmoid" or self.residual is not None:
            return self, 1.0
        alpha, beta = self.parameters
        bias = np.zeros(oc, np.float32) if self.bias is None else self.bias
        line = np.asarray(bias * bias.dtype.type(alpha) + bias.dtype.type(beta))
        return replace(self, bias=line, activation="clip", parameters=(0.0, 1.0)), alpha

    def described(self, oc: int) -> Activation | None:
        """The activation for the loops; None if they have none such."""
        if self.activation not in STORED:
            return None
        form: Any = self.activation or None
        if self.activation in ("clip", "leaky_relu"):
            form = (self.activation, *self.parameters)
        elif self.activation == "prelu":
            form = ("prelu", self.slope)
        return activation_of(form, oc)


def epilogue_of(node: Node, builder: Builder, graph: Graph) -> Epilogue:
    """Read the epilogue of a node: a plain one has a bias at most."""
    names = [*node.inputs, *[""] * 8][:8]
    if not node.op.startswith("pplconv."):
        names[3:] = [""] * 5

    def known(name: str) -> Array | None:
        return graph.constants[name] if name else None

    def value(name: str) -> Value | None:
        return builder.values[name] if name else None

    return Epilogue(
        known(names[2]), value(names[3]), node.attributes.get("activation", ""),
        list(node.attributes.get("activation_parameters", [])), known(names[7]), known(names[4]),
        known(names[5]), value(names[6]),
    )  # fmt: skip


def emit_convolution(
    builder: Builder,
    x: Value,
    weight: Array | ScaledTensor,
    y: Value,
    epilogue: Epilogue,
    geometry: dict[str, Any],
    key: tuple[Any, ...],
    nodes: list[str],
) -> None:
    """Add the steps of one convolution.

    Parameters
    ----------
    builder : Builder
        Gets the steps.
    x, y : Value
        Input and output, of four dimensions, channels neighbours in both.
    weight : ndarray or ScaledTensor
        (oc, ic / groups, kh, kw), lying in any way; what is scaled is computed to be packed.
    epilogue : Epilogue
        What follows the sums.
    geometry : dict
        ``stride``, ``padding`` as ((top, bottom), (left, right)), ``dilation``, ``groups``.
    key : (ndarray or ScaledTensor, ...)
        What stands for the constant that the weights are of, and which part of it: where it is the
        same, so are they.
    nodes : list of str
        What it stands for.
    """
    n, ic, h, w = x.shape
    shape = tuple(int(size) for size in weight.shape)
    given = epilogue
    epilogue, alpha = epilogue.as_clip(shape[0])
    described = epilogue.described(shape[0])
    # What the loops do not have comes after them, and with it all that follows.
    activation = described if described is not None else Activation("none")
    dtype = NAMES[x.dtype]
    problem = arguments.make_problem(
        (n, h, w, ic), shape, dtype, **geometry, layout="NHWC",
        permitted=arguments.check_precision(_precision(builder), dtype),
    )  # fmt: skip
    residual = epilogue.residual
    if residual is not None and not residual.lies_as(y.strides):
        copied = builder.new(y.shape, y.dtype, channels_last(4))
        builder.copy(residual, copied, [])
        residual = copied
        if not copied.lies_as(y.strides):
            packed = builder.new(y.shape, y.dtype, channels_last(4))
            inner = replace(epilogue, residual=copied)
            emit_convolution(builder, x, weight, packed, inner, geometry, key, nodes)
            builder.copy(packed, y, nodes)
            return
    finite = builder.all_finite(key, weight)
    fields: dict[str, Any] | None = None
    # Padding is multiplied by some methods: infinite weights would show it.
    for algorithm in ("auto", "direct") if finite else ("direct",):
        plan, dense = builder.plan(problem, algorithm, activation.epilogue)
        fields = with_places(dense, x, y)
        if fields is not None:
            break
    if fields is None:
        # What lies in a way that the loops cannot walk is copied: the input, where that is enough.
        order = channels_last(4)
        tight = Value(x.shape, x.dtype, strides_of(x.shape, x.dtype.itemsize, order), x.buffer)
        if with_places(dense, tight, y) is not None:
            copied = builder.new(x.shape, x.dtype, order)
            builder.copy(x, copied, nodes)
            emit_convolution(builder, copied, weight, y, given, geometry, key, nodes)
            return
        whole = builder.new(y.shape, y.dtype, order)
        emit_convolution(builder, x, weight, whole, given, geometry, key, nodes)
        builder.copy(whole, y, nodes)
        return
    prepared = Prepared(problem, plan, fields, planner.share(builder.settings.threads))
    weights = builder.packed_once(
        (*key, problem.groups, alpha), f"{plan.packing} of {plan.numerics.weights}", prepared,
        scaled(weight, alpha, x.dtype),
    )  # fmt: skip
    bias = epilogue.bias
    if bias is not None:
        with np.errstate(over="ignore"):
            bias = np.require(bias, DTYPES[plan.numerics.bias], ("A", "C"))
    # The loops have added the residual.
    rest = replace(epilogue, residual=None)
    finish = after = None
    if described is not None and not plan.numerics.converts:
        finish, after, rest = finish_of(rest, y)
    flops = 2 * problem.k * problem.output_pixels * problem.oc * n
    builder.emit(Step(
        prepared, [read for read in (x, residual, after) if read is not None], [y],
        {
            "x": x, "y": y, "residual": residual, "weights": weights,
            "bias": bias, "activation": PlannedActivation(activation, plan.numerics.bias),
            "finish": finish, "after": after,
        },
        "Conv", nodes, f"{plan.algorithm} {plan.kernel}, {problem}", flops=flops,
    ))  # fmt: skip
    emit_rest(builder, y, rest, described is None, nodes)


def scaled(
    weight: Array | ScaledTensor, alpha: float, dtype: np.dtype[Any]
) -> Array | ScaledTensor:
    """Weights of sums that are `alpha` times as large; then they are of the given type."""
    if alpha == 1:
        return weight
    array = as_type(weight.numpy() if isinstance(weight, ScaledTensor) else weight, dtype)
    return np.asarray(array * dtype.type(alpha))


def finish_of(epilogue: Epilogue, y: Value) -> tuple[Finish | None, Value | None, Epilogue]:
    """Take out what the loops can do behind the activation, while a block is in L1.

    Parameters
    ----------
    epilogue : Epilogue
        Its residual and activation are the loops' own.
    y : Value
        The output.

    Returns
    -------
    finish : Finish or None
        For the step.
    after : Value or None
        What is added at the end.
    rest : Epilogue
        What a pass of its own has to do.
    """
    after = epilogue.last
    if after is not None and not after.lies_as(y.strides):
        after = None
    scale, offset = epilogue.scale, epilogue.offset
    if scale is None and offset is None and after is None:
        return None, None, epilogue
    channels = y.shape[1]
    finish = Finish(
        NAMES[y.dtype],
        *(None if a is None else np.broadcast_to(a.reshape(-1), channels) for a in (scale, offset)),
    )
    rest = replace(epilogue, scale=None, offset=None)
    return finish, after, replace(rest, last=None) if after is not None else rest


def _precision(builder: Builder) -> str | None:
    return None if builder.settings.precision == "auto" else builder.settings.precision


def emit_rest(
    builder: Builder, y: Value, epilogue: Epilogue, activate: bool, nodes: list[str]
) -> None:
    """Add the pass for what the loops do not have, if there is any."""
    code = Code()
    first = result = code.fresh()
    inputs: list[tuple[Value, int]] = [(y, first)]

    def channel(array: Array) -> int:
        number = code.fresh()
        inputs.append((constant_value(array.astype(y.dtype).reshape(1, -1, 1, 1)), number))
        return number

    def whole(value: Value) -> int:
        number = code.fresh()
        inputs.append((value, number))
        return number

    if activate and epilogue.residual is not None:
        result = code.do("ADD", result, whole(epilogue.residual))
    if activate and epilogue.activation:
        result = _activated(code, result, epilogue, channel)
    if epilogue.scale is not None and epilogue.offset is not None:
        scale, offset = channel(epilogue.scale), channel(epilogue.offset)
        result = code.do("MULTIPLY_ADD", result, scale, offset)
    elif epilogue.scale is not None:
        result = code.do("MULTIPLY", result, channel(epilogue.scale))
    elif epilogue.offset is not None:
        result = code.do("ADD", result, channel(epilogue.offset))
    if epilogue.last is not None:
        result = code.do("ADD", result, whole(epilogue.last))
    if result == first:
        return
    emit_code(builder, y, code, inputs, result, "epilogue", nodes)


def _activated(code: Code, x: int, epilogue: Epilogue, channel: Callable[[Array], int]) -> int:
    """Write an activation as instructions."""
    kind, parameters = epilogue.activation, epilogue.parameters
    if kind in ("relu", "clip"):
        low, high = parameters if kind == "clip" else (0.0, math.inf)
        return code.do("CLIP", x, code.scalar(low), code.scalar(high))
    if kind == "leaky_relu":
        return code.do("SLOPE", x, code.scalar(parameters[0]))
    if kind == "prelu":
        assert epilogue.slope is not None
        return code.do("SLOPE", x, channel(epilogue.slope))
    if kind == "hardsigmoid":
        alpha, beta = parameters
        line = code.do("MULTIPLY_ADD", x, code.scalar(alpha), code.scalar(beta))
        return code.do("CLIP", line, code.scalar(0.0), code.scalar(1.0))
    return code.do({"hardswish": "HARDSWISH", "sigmoid": "SIGMOID", "silu": "SILU"}[kind], x)


def emit_code(
    builder: Builder,
    y: Value,
    code: Code,
    inputs: list[tuple[Value, int]],
    result: int,
    kind: str,
    nodes: list[str],
) -> None:
    """Add the step of a program of one result, whose results have numbers of their own."""
    emit_outputs(builder, [(y, result)], code, inputs, kind, nodes)


def emit_outputs(
    builder: Builder,
    outputs: list[tuple[Value, int]],
    code: Code,
    inputs: list[tuple[Value, int]],
    kind: str,
    nodes: list[str],
) -> None:
    """Add the step of a program whose results have numbers of their own."""
    dtype = outputs[0][0].dtype
    inputs = inputs + [
        (constant_value(as_type(np.array(number), dtype)), register)
        for (number, _), register in code.scalars.items()
    ]
    given = assign(
        code.lines, [number for _, number in inputs], [number for _, number in outputs],
        MOST_REGISTERS,
    )  # fmt: skip
    assert given is not None, "programs are kept small"
    lines, place = given
    emit_program(
        builder, [(value, place[number]) for value, number in outputs],
        [(value, place[number]) for value, number in inputs], lines, kind, nodes,
    )  # fmt: skip


def explicit_pads(node: Node, spatial: int = 2) -> Shape:
    """Pads of a node whose ``auto_pad`` is resolved: begins, then ends."""
    return tuple(node.attributes.get("pads") or [0] * 2 * spatial)


def lower_conv(node: Node, builder: Builder, graph: Graph) -> None:
    """Conv, plain or fused."""
    weight = graph.constants.origin(node.inputs[1])
    x = builder.pixels(builder.values[node.inputs[0]])
    name = node.outputs[0]
    shape, dtype = graph.shapes[name], graph.dtypes[name]
    top, left, bottom, right = explicit_pads(node)
    geometry = {
        "stride": tuple(node.attributes.get("strides") or (1, 1)),
        "padding": ((top, bottom), (left, right)),
        "dilation": tuple(node.attributes.get("dilations") or (1, 1)),
        "groups": int(node.attributes.get("group", 1)),
    }
    y = builder.target(name, shape, dtype, channels_last(4), lies_in_pixels)
    epilogue = epilogue_of(node, builder, graph)
    emit_convolution(builder, x, weight, y, epilogue, geometry, (weight,), [name])
    builder.deliver(name, y)


def lies_in_pixels(value: Value) -> bool:
    """Whether the channels of images are neighbours, and images, rows and pixels in order."""
    _, c, h, w = value.shape
    _, sc, sh, sw = value.strides
    e = value.dtype.itemsize
    return (c == 1 or sc == e) and (w == 1 or sw >= c * e) and (h == 1 or sh >= w * c * e)


def serves_conv(node: Node, graph: Graph) -> bool:
    """Whether `lower_conv` can compute a node."""
    return (
        node.inputs[1] in graph.constants
        and len(graph.shapes[node.inputs[0]]) == 4
        and math.prod(graph.shapes[node.outputs[0]]) > 0
        and math.prod(graph.shapes[node.inputs[0]]) > 0
        and (len(node.inputs) < 3 or not node.inputs[2] or node.inputs[2] in graph.constants)
        and graph.dtypes[node.inputs[0]] in NATIVE
    )

"""LSTM and GRU: input products of all time steps at once, then one time step after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..builder import Builder
from ..nodes import Graph, Node
from ..storage import Array, Shape, Value, constant_value
from .convolution import emit_convolution
from .elementwise_steps import NATIVE, emit_outputs
from .epilogue import Epilogue
from .expressions import Code

GATES = {"LSTM": 4, "GRU": 3}
# Longer sequences would make programs of too many steps.
MOST_TIMES = 2048
_ONE = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}


def _names(node: Node) -> list[str]:
    return [*node.inputs, *[""] * 8][:8]


def serves_recurrent(node: Node, graph: Graph) -> bool:
    """Whether a node has constant weights of one of our types, full sequences, no peepholes."""
    x, w, r, b, lengths, h, c, peepholes = _names(node)
    shape = graph.shapes[x]
    if lengths and (lengths not in graph.constants or (graph.constants[lengths] != shape[0]).any()):
        return False
    return (
        all(name in graph.constants for name in (w, r, b) if name)
        and graph.dtypes[x] in NATIVE
        and all(graph.dtypes[name] == graph.dtypes[x] for name in (w, r, b, h, c) if name)
        and not peepholes
        and not node.attributes.get("layout", 0)
        and 0 < shape[0] <= MOST_TIMES
        and math.prod(shape) > 0
        and graph.shapes[r][2] > 0
    )


def _rows(value: Value, channels: int) -> Value:
    """Rows of an array (rows, channels) as the pixels of an image."""
    rows, step = value.shape[0], value.strides[0]
    e = value.dtype.itemsize
    if rows == 1:
        step = channels * e
    return value.viewed((1, channels, 1, rows), (rows * step, e, rows * step, step))


def _part(value: Value, begin: int, width: int) -> Value:
    """Some columns of rows."""
    e = value.dtype.itemsize
    return value.viewed((value.shape[0], width), value.strides, begin * e)


def lower_recurrent(node: Node, builder: Builder, graph: Graph) -> None:
    """LSTM and GRU.

    ONNX's gates are i, o, f, c of an LSTM and z, r, h of a GRU. One product covers the inputs of
    all time steps; each time step adds its product with the previous state in the store.
    """
    data, w_name, r_name, b_name, _, h_name, c_name, _ = _names(node)
    weights, recurrent = graph.constants.weights(w_name), graph.constants.weights(r_name)
    directions, width = recurrent.shape[0], recurrent.shape[2]
    x = builder.contiguous(builder.values[data])
    times, batch, depth = x.shape
    dtype, e = x.dtype, x.dtype.itemsize
    count = GATES[node.op]
    flat = x.viewed((times * batch, depth), (depth * e, e))
    names = [*node.outputs, "", "", ""][:3]
    shape: Shape = (times, directions, batch, width)
    y = builder.target(names[0], shape, dtype, None, lambda value: value.is_plain)
    last = [builder.new((directions, batch, width), dtype) for _ in range(2)]
    zeros = constant_value(np.zeros((batch, width), dtype))
    for d in range(directions):
        bias = graph.constants[b_name][d] if b_name else np.zeros(2 * count * width, dtype)
        own, other = bias[: count * width], bias[count * width :]
        # The second bias of a GRU's last gate may be inside its product.
        split = node.op == "GRU"
        inputs = builder.new((times * batch, count * width), dtype)
        both = own + other
        if split:
            both = np.concatenate([both[: 2 * width], own[2 * width :]])
        emit_convolution(
            builder, _rows(flat, depth), _matrix(weights[d]), _rows(inputs, count * width),
            Epilogue(both), _ONE, (weights, "inputs", d), [node.outputs[0] or names[1]],
        )  # fmt: skip
        states = [
            _state(builder, graph, name, d, batch, width) or zeros for name in (h_name, c_name)
        ]
        backwards = d == 1 or node.attributes.get("direction", "forward") == "reverse"
        for t in reversed(range(times)) if backwards else range(times):
            row = inputs.strides[0]
            gates = inputs.viewed((batch, count * width), inputs.strides, t * batch * row)
            out = y.viewed((batch, width), y.strides[2:], t * y.strides[0] + d * y.strides[1])
            if node.op == "LSTM":
                states = _lstm(builder, gates, states, out, recurrent, d, node)
            else:
                states = [_gru(builder, gates, states[0], out, recurrent, d, other, node)]
        for place, state in zip(last, states, strict=False):
            part = place.viewed((batch, width), place.strides[1:], d * place.strides[0])
            builder.copy(state, part, [node.outputs[0]])
    for name, value in zip(names, (y, *last), strict=True):
        if name:
            builder.deliver(name, value)


def _matrix(weight: Array) -> Array:
    return np.ascontiguousarray(weight).reshape(*weight.shape, 1, 1)


def _state(
    builder: Builder, graph: Graph, name: str, d: int, batch: int, width: int
) -> Value | None:
    if not name:
        return None
    value = builder.contiguous(builder.values[name])
    return value.viewed((batch, width), value.strides[1:], d * value.strides[0])


def _product(
    builder: Builder, state: Value, recurrent: Array, rows: slice, d: int, y: Value,
    epilogue: Epilogue, node: Node,
) -> None:  # fmt: skip
    """Multiply a state by some of the recurrent weights."""
    key = (recurrent, d, rows.start, rows.stop)
    width = recurrent.shape[2]
    emit_convolution(
        builder, _rows(state, width), _matrix(recurrent[d, rows]), _rows(y, y.shape[1]), epilogue,
        _ONE, key, [node.outputs[0]],
    )  # fmt: skip


def _lstm(
    builder: Builder, gates: Value, states: Sequence[Value], out: Value, recurrent: Array, d: int,
    node: Node,
) -> list[Value]:  # fmt: skip
    """One time step: c' = f * c + i * g, h' = o * tanh(c')."""
    h, c = states
    width = recurrent.shape[2]
    sums = builder.new(gates.shape, gates.dtype)
    residual = Epilogue(residual=_rows(gates, gates.shape[1]))
    _product(builder, h, recurrent, slice(0, 4 * width), d, sums, residual, node)
    code = Code()
    inputs = [(_part(sums, k * width, width), code.fresh()) for k in range(4)]
    i, o, f, g = (number for _, number in inputs)
    before = code.fresh()
    kept = code.do("MULTIPLY", code.do("SIGMOID", f), before)
    update = code.do("HYPERBOLIC_TANGENT", g)
    cell = code.do("MULTIPLY_ADD", code.do("SIGMOID", i), update, kept)
    hidden = code.do("MULTIPLY", code.do("SIGMOID", o), code.do("HYPERBOLIC_TANGENT", cell))
    after = builder.new(c.shape, c.dtype)
    emit_outputs(
        builder, [(out, hidden), (after, cell)], code, [*inputs, (c, before)], "LSTM",
        [node.outputs[0]],
    )  # fmt: skip
    return [out, after]


def _gru(
    builder: Builder, gates: Value, h: Value, out: Value, recurrent: Array, d: int, bias: Array,
    node: Node,
) -> Value:  # fmt: skip
    """One time step: h' = (1 - z) * n + z * h."""
    width = recurrent.shape[2]
    inside = bool(node.attributes.get("linear_before_reset", 0))
    last = bias[2 * width :]
    sums = builder.new((gates.shape[0], 2 * width), gates.dtype)
    residual = Epilogue(residual=_rows(_part(gates, 0, 2 * width), 2 * width))
    _product(builder, h, recurrent, slice(0, 2 * width), d, sums, residual, node)
    new = builder.new((gates.shape[0], width), gates.dtype)
    x = _part(gates, 2 * width, width)
    if inside:
        _product(builder, h, recurrent, slice(2 * width, 3 * width), d, new, Epilogue(last), node)
        kind = "r"
    else:
        scaled = builder.new(h.shape, h.dtype)
        code = Code()
        r, state = code.fresh(), code.fresh()
        result = code.do("MULTIPLY", code.do("SIGMOID", r), state)
        emit_outputs(
            builder, [(scaled, result)], code, [(_part(sums, width, width), r), (h, state)], "GRU",
            [node.outputs[0]],
        )  # fmt: skip
        epilogue = Epilogue(last, _rows(x, width))
        _product(builder, scaled, recurrent, slice(2 * width, 3 * width), d, new, epilogue, node)
        kind = ""
    code = Code()
    z, n, state = code.fresh(), code.fresh(), code.fresh()
    inputs = [(_part(sums, 0, width), z), (new, n), (h, state)]
    if kind:
        r, own = code.fresh(), code.fresh()
        inputs += [(_part(sums, width, width), r), (x, own)]
        n = code.do("MULTIPLY_ADD", code.do("SIGMOID", r), n, own)
    n = code.do("HYPERBOLIC_TANGENT", n)
    gate = code.do("SIGMOID", z)
    difference = code.do("SUBTRACT", state, n)
    hidden = code.do("MULTIPLY_ADD", gate, difference, n)
    emit_outputs(builder, [(out, hidden)], code, inputs, "GRU", [node.outputs[0]])
    return out

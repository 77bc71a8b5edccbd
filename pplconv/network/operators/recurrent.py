"""LSTM, GRU and RNN: input products of all times at once, then a repeat over the times.

A turn is one time: a product with the state, and an element-wise step that writes the new state in
the place of the old one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ... import planner
from ..._records import record
from ..builder import Builder
from ..nodes import Graph, Node
from ..storage import Array, Value, constant_value, strides_of
from .convolution import emit_convolution
from .elementwise_steps import NATIVE, TRUTH, Stream, emit_outputs, numbers_of
from .epilogue import Epilogue
from .expressions import Code
from .recurrent_gates import Gate, gates_of

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_ONE = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}


def _names(node: Node) -> list[str]:
    return [*node.inputs, *[""] * 8][:8]


def serves_recurrent(node: Node, graph: Graph) -> bool:
    """Whether a node has operands of one of our types, and something to compute."""
    x, w, r, b, _, h, c, peepholes = _names(node)
    return (
        graph.dtypes[x] in NATIVE
        and all(
            graph.dtypes[name] == graph.dtypes[x] for name in (w, r, b, h, c, peepholes) if name
        )
        and math.prod(graph.shapes[x]) > 0
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


def _times_first(value: Value, layout: int) -> Value:
    """Give an array whose first dimension is the batch, or is not, as one whose is not."""
    if not layout:
        return value
    order = (1, *range(2, len(value.shape) - 1), 0, len(value.shape) - 1)
    return value.viewed(
        tuple(value.shape[d] for d in order), tuple(value.strides[d] for d in order)
    )


@record(frozen=True)
class _Cell:
    """What the steps of one time read and write.

    Parameters
    ----------
    builder : Builder
        Gets the steps.
    node : Node
        The node.
    recurrent : ndarray or Value
        Recurrent weights of all directions.
    d : int
        Number of the direction.
    gates : tuple of callable
        Activations.
    inputs : Value
        Products of this time's inputs, for all gates.
    h, c : Value
        State, written in place.
    out : Value or None
        Receives the new state.
    mask : Value or None
        Whether each sequence has this time; without a mask, all have.
    bias : ndarray, Value or None
        What a product of a GRU adds: the second bias of its last gate, zeros before it if all gates
        are one product.
    peepholes : list of Value
        Weights of the cell in each gate; none if there are no peepholes.
    """

    builder: Builder
    node: Node
    recurrent: Array | Value
    d: int
    gates: tuple[Gate, ...]
    inputs: Value
    h: Value
    c: Value
    out: Value | None
    mask: Value | None
    bias: Array | Value | None
    peepholes: list[Value]

    @property
    def width(self) -> int:
        return int(self.recurrent.shape[2])

    @property
    def names(self) -> list[str]:
        return [next(name for name in self.node.outputs if name)]

    def gate(self, source: Value, number: int) -> Value:
        """Give the columns of one gate."""
        return _part(source, number * self.width, self.width)

    def multiply(self, state: Value, first: int, y: Value, epilogue: Epilogue) -> None:
        """Multiply a state by the recurrent weights of some gates, for all columns of `y`."""
        rows = slice(first * self.width, first * self.width + y.shape[1])
        key = (self.recurrent, self.d, rows.start, rows.stop)
        emit_convolution(
            self.builder, _rows(state, self.width), _matrix(self.recurrent, self.d, rows),
            _rows(y, y.shape[1]), epilogue, _ONE, key, self.names,
        )  # fmt: skip

    def store(
        self, code: Code, inputs: list[tuple[Value, int]], hidden: int, cell: int | None = None,
        before: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """Add the last step: write the new state, which is the old one beyond a sequence's end.

        `before` are the numbers of the old state and cell, if the program reads them.
        """
        states = [(self.h, hidden)] if cell is None else [(self.h, hidden), (self.c, cell)]
        old = list(before)
        shown = hidden
        if self.mask is not None:
            truth = code.fresh()
            inputs.append((self.mask, truth))
            for value, _ in states[len(old) :]:
                old.append(code.fresh())
                inputs.append((value, old[-1]))
            shown = code.do("WHERE", truth, hidden, code.scalar(0.0))
            states = [
                (value, code.do("WHERE", truth, new, kept))
                for (value, new), kept in zip(states, old, strict=True)
            ]
        outputs = states if self.out is None else [(self.out, shown), *states]
        emit_outputs(self.builder, outputs, code, inputs, self.node.op, self.names)


def lower_recurrent(node: Node, builder: Builder, graph: Graph) -> None:
    """LSTM, GRU and RNN.

    ONNX's gates are i, o, f, c of an LSTM and z, r, h of a GRU. One product covers the inputs of
    all times; each time adds its product with the previous state in the store.
    """
    data, w_name, r_name, b_name, lengths, h_name, c_name, p_name = _names(node)
    weights, recurrent = (_weights(name, builder, graph) for name in (w_name, r_name))
    directions, width = recurrent.shape[0], recurrent.shape[2]
    layout = int(node.attributes.get("layout", 0))
    given = _times_first(builder.values[data], layout)
    x = builder.contiguous(given)
    times, batch, depth = x.shape
    dtype, e = x.dtype, x.dtype.itemsize
    columns = _GATES[node.op] * width
    flat = x.viewed((times * batch, depth), (depth * e, e))
    names = [*node.outputs, "", "", ""][:3]
    y = None
    if names[0]:
        shape = (times, directions, batch, width)
        if layout:
            shape = (batch, times, directions, width)
        y = builder.target(names[0], shape, dtype, None, lambda value: value.is_plain)
    placed = None if y is None else _times_first(y, layout)
    last = (batch, directions, width) if layout else (directions, batch, width)
    states = [
        builder.target(name, last, dtype, None, lambda value: value.is_plain)
        for name in names[1 : 3 if node.op == "LSTM" else 2]
    ]
    mask = _mask(builder, node, graph, lengths, times, batch)
    gates = gates_of(node.op, node.attributes)
    for d in range(directions):
        both, other = _biases(node, builder, graph, b_name, d, columns)
        inputs = builder.new((times * batch, columns), dtype)
        whole = slice(0, columns)
        emit_convolution(
            builder, _rows(flat, depth), _matrix(weights, d, whole), _rows(inputs, columns),
            Epilogue(both), _ONE, (weights, "inputs", d), [next(filter(None, node.outputs))],
        )  # fmt: skip
        parts = [_direction(state, d, layout) for state in states]
        for part, name in zip(parts, (h_name, c_name), strict=False):
            before = constant_value(np.zeros((batch, width), dtype))
            if name:
                before = _direction(builder.values[name], d, layout)
            builder.copy(before, part, [next(filter(None, node.outputs))])
        back = d == 1 or node.attributes.get("direction", "forward") == "reverse"
        first, sign = (times - 1, -1) if back else (0, 1)

        def each(value: Value, stride: int, first: int = first, sign: int = sign) -> Value:
            there = value.viewed(value.shape, value.strides, first * stride)
            return replace(there, advance=sign * stride)

        step = inputs.strides[0]
        out = None
        if placed is not None:
            out = placed.viewed((batch, width), placed.strides[2:], d * placed.strides[1])
            out = each(out, placed.strides[0])
        cell = _Cell(
            builder, node, recurrent, d, gates[d],
            each(inputs.viewed((batch, columns), inputs.strides), batch * step),
            parts[0], parts[-1], out, None if mask is None else each(mask, batch), other,
            _peepholes(builder.values[p_name], d, width) if p_name else [],
        )  # fmt: skip
        settings = builder.settings
        # The product takes nearly all the time of a turn.
        team = planner.paying_team(batch * width * columns, planner.team_size(settings.threads))
        builder.settings = replace(settings, threads=team)
        with builder.repeat(times):
            {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}[node.op](cell)
        builder.settings = settings
    for name, value in zip(names, (y, *states), strict=False):
        if name and value is not None:
            builder.deliver(name, value)


def _weights(name: str, builder: Builder, graph: Graph) -> Array | Value:
    """Give the weights of all directions; computed ones without gaps."""
    if name in graph.constants:
        return graph.constants.weights(name)
    value = builder.contiguous(builder.values[name])
    return value.viewed(value.shape, strides_of(value.shape, value.dtype.itemsize))


def _matrix(weights: Array | Value, d: int, rows: slice) -> Array | Value:
    """Give some rows of one direction's weights, as those of a convolution."""
    shape = (rows.stop - rows.start, weights.shape[2], 1, 1)
    if isinstance(weights, Value):
        along, row, e = weights.strides
        return weights.viewed(shape, (row, e, e, e), d * along + rows.start * row)
    return np.ascontiguousarray(weights[d, rows]).reshape(shape)


def _biases(
    node: Node, builder: Builder, graph: Graph, name: str, d: int, columns: int
) -> tuple[Array | Value | None, Array | Value | None]:
    """Give the bias of the inputs' products, and that of `_Cell`, in one direction."""
    if not name:
        return None, None
    # The second bias of a GRU's last gate may be inside its product.
    apart = columns // 3 if node.op == "GRU" else 0
    both = columns - apart
    alone = both if node.attributes.get("linear_before_reset", 0) else 0
    if name in graph.constants:
        bias = graph.constants[name][d]
        own, other = bias[:columns], bias[columns:]
        sums = np.concatenate([own[:both] + other[:both], own[both:]])
        return sums, np.concatenate([np.zeros(alone, bias.dtype), other[both:]])
    value = builder.contiguous(builder.values[name])
    e, begin, names = value.dtype.itemsize, 2 * d * columns, [next(filter(None, node.outputs))]

    def part(of: Value, first: int, count: int) -> Value:
        return of.viewed((count,), (e,), first * e)

    inputs = builder.new((columns,), value.dtype)
    code = Code()
    numbers = code.fresh(), code.fresh()
    pairs = [part(value, begin + first, both) for first in (0, columns)]
    result = code.do("ADD", *numbers)
    emit_outputs(
        builder, [(part(inputs, 0, both), result)], code,
        list(zip(pairs, numbers, strict=True)), node.op, names,
    )  # fmt: skip
    if not apart:
        return inputs, None
    builder.copy(part(value, begin + both, apart), part(inputs, both, apart), names)
    turn = builder.new((alone + apart,), value.dtype)
    if alone:
        builder.copy(constant_value(np.zeros(1, value.dtype)), part(turn, 0, alone), names)
    builder.copy(part(value, begin + columns + both, apart), part(turn, alone, apart), names)
    return inputs, turn


def _peepholes(value: Value, d: int, width: int) -> list[Value]:
    """Give the weights of the cell in each gate of one direction."""
    along, e = value.strides
    return [value.viewed((width,), (e,), d * along + gate * width * e) for gate in range(3)]


def _direction(state: Value, d: int, layout: int) -> Value:
    """Give one direction of a state, (batch, width)."""
    along = 1 if layout else 0
    kept = [axis for axis in range(3) if axis != along]
    return state.viewed(
        tuple(state.shape[axis] for axis in kept), tuple(state.strides[axis] for axis in kept),
        d * state.strides[along],
    )  # fmt: skip


def _mask(
    builder: Builder, node: Node, graph: Graph, name: str, times: int, batch: int
) -> Value | None:
    """Tell for each time, (batch, 1), which sequences have it; None if all have all.

    Raises
    ------
    ValueError
        If a known length is negative, or larger than the array.
    """
    if not name:
        return None
    if name in graph.constants:
        lengths = graph.constants[name]
        if (lengths < 0).any() or (lengths > times).any():
            raise ValueError(
                f"{node.op} {node.outputs[0]!r}: sequence_lens has lengths that the array has "
                f"not, {lengths.tolist()} of {times}"
            )
        if (lengths == times).all():
            return None
        mask = constant_value(np.arange(times)[:, None] < lengths)
    else:
        mask = builder.new((times, batch), TRUTH)
        numbers = constant_value(np.arange(times, dtype=np.float32)[:, None])
        code = Code()
        time, length = code.fresh(), code.fresh()
        result = code.do("LESS", time, length)
        emit_outputs(
            builder, [(mask, result)], code,
            [Stream(numbers, time), Stream(builder.values[name], length, numbers_of(1.0, 0))],
            node.op, [next(filter(None, node.outputs))],
        )  # fmt: skip
    return mask.viewed((batch, 1), (1, 1))


def _rnn(cell: _Cell) -> None:
    """One time step: h' = f(x + R h)."""
    sums = cell.builder.new(cell.inputs.shape, cell.inputs.dtype)
    residual = Epilogue(residual=_rows(cell.inputs, cell.width))
    cell.multiply(cell.h, 0, sums, residual)
    code = Code()
    x = code.fresh()
    hidden = cell.gates[0](code, x)
    cell.store(code, [(sums, x)], hidden)


def _lstm(cell: _Cell) -> None:
    """One time step: c' = f * c + i * g, h' = o * tanh(c')."""
    sums = cell.builder.new(cell.inputs.shape, cell.inputs.dtype)
    cell.multiply(cell.h, 0, sums, Epilogue(residual=_rows(cell.inputs, sums.shape[1])))
    code = Code()
    inputs = [(cell.gate(sums, k), code.fresh()) for k in range(4)]
    i, o, f, g = (number for _, number in inputs)
    before = code.fresh()
    inputs.append((cell.c, before))
    peephole: list[int] = []
    for weights in cell.peepholes:
        peephole.append(code.fresh())
        inputs.append((weights, peephole[-1]))
    gate, update, output = cell.gates
    if peephole:
        i = code.do("MULTIPLY_ADD", peephole[0], before, i)
    i = gate(code, i)
    if cell.node.attributes.get("input_forget", 0):
        f = code.do("SUBTRACT", code.scalar(1.0), i)
    else:
        if peephole:
            f = code.do("MULTIPLY_ADD", peephole[2], before, f)
        f = gate(code, f)
    kept = code.do("MULTIPLY", f, before)
    after = code.do("MULTIPLY_ADD", i, update(code, g), kept)
    if peephole:
        o = code.do("MULTIPLY_ADD", peephole[1], after, o)
    hidden = code.do("MULTIPLY", gate(code, o), output(code, after))
    old: list[int] = []
    if cell.mask is not None:
        state = code.fresh()
        inputs.append((cell.h, state))
        old = [state, before]
    cell.store(code, inputs, hidden, after, old)


def _gru(cell: _Cell) -> None:
    """One time step: h' = (1 - z) * n + z * h."""
    builder, width, batch = cell.builder, cell.width, cell.inputs.shape[0]
    dtype = cell.inputs.dtype
    # As far apart as the inputs, so that the product can add them.
    sums = builder.new(cell.inputs.shape, dtype)
    code = Code()
    z, r, n, x, state = (code.fresh() for _ in range(5))
    inputs = [(cell.h, state)]
    gate, update = cell.gates
    if cell.node.attributes.get("linear_before_reset", 0):
        cell.multiply(cell.h, 0, sums, Epilogue(cell.bias))
        own = code.fresh(), code.fresh()
        inputs += [(cell.gate(sums, k), number) for k, number in enumerate((z, r, n))]
        inputs += [(cell.gate(cell.inputs, k), number) for k, number in enumerate((*own, x))]
        z, r = (code.do("ADD", a, b) for a, b in zip((z, r), own, strict=True))
        n = code.do("MULTIPLY_ADD", gate(code, r), n, x)
    else:
        both = _part(sums, 0, 2 * width)
        residual = _rows(_part(cell.inputs, 0, 2 * width), 2 * width)
        cell.multiply(cell.h, 0, both, Epilogue(residual=residual))
        scaled = builder.new((batch, width), dtype)
        inner = Code()
        reset, old = inner.fresh(), inner.fresh()
        result = inner.do("MULTIPLY", gate(inner, reset), old)
        emit_outputs(
            builder, [(scaled, result)], inner, [(cell.gate(sums, 1), reset), (cell.h, old)],
            "GRU", cell.names,
        )  # fmt: skip
        new = cell.gate(sums, 2)
        epilogue = Epilogue(cell.bias, _rows(cell.gate(cell.inputs, 2), width))
        cell.multiply(scaled, 2, new, epilogue)
        inputs += [(cell.gate(sums, 0), z), (new, n)]
    n = update(code, n)
    difference = code.do("SUBTRACT", state, n)
    hidden = code.do("MULTIPLY_ADD", gate(code, z), difference, n)
    cell.store(code, inputs, hidden, None, [state])

"""The step of an attention: its arrays, its products and its programs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import planner
from .._kernels import MOST_REGISTERS
from ..geometry import Strides, walk_dims
from ..machine import current
from ..memory.dtypes import NAMES, name_of
from ..ops import matrices
from ..ops.prepared import Prepared
from ..schedules.elementwise_loops import TILE_ELEMENTS, Elementwise
from .attention import NARROW, Attention, Program, is_view
from .builder import Builder
from .collapse import broadcast_strides
from .fusion import Chain
from .nodes import Graph, Node, as_type
from .operators.brain_products import ProductPrices, brain_kinds, fastest_kind, prices_of_product
from .operators.elementwise_steps import INTEGERS, stored_as
from .operators.expressions import assign
from .operators.movement import lower_transpose, lower_view
from .storage import Shape, Step, Value, constant_value, strides_of

__all__ = ["lower_attention", "prices_of_attention"]

# Arrays besides the operands of programs; and dimensions of heads that loops walk.
_OWN, _MOST_DIMS = 4, 4
# Numbers that the arrays of scores have in programs of a tile.
_SCORES, _QUANTIZED = 0, 1
# Of a tile of scores, in a part of L2.
_L2_PART = 4
_LEAST_ROWS = 16
# A team's tasks, and their least queries, so that packing keys and values is a small part of them.
_TASKS_PER_THREAD, _LEAST_TASK = 3, 128
_LINE, _PAGE = 64, 4096
# Cycles of a vector of scores that is rounded for products of bfloat16 (Zen 4, 2026-11-28).
_ROUNDED = 2.5


def lower_attention(attention: Attention, builder: Builder, graph: Graph) -> bool:
    """Add the step of an attention; False if its arrays lie in too many dimensions."""
    name = attention.sums.outputs[0]
    shape, dtype = graph.shapes[name], graph.dtypes[name]
    e = dtype.itemsize
    scores = graph.shapes[attention.product.outputs[0]]
    queries, keys = scores[-2:]
    for path in attention.before:
        _show_narrow(path, builder, graph)
    q, k, v = (builder.values[read] for read in _operands(attention))
    multiplied = _multiplied(attention, (q, k, v), builder, graph)
    if multiplied != dtype:
        q, k, v = (builder.in_type(x, multiplied) for x in (q, k, v))
    if q.dtype != dtype and not _in_rows(q):
        q = builder.contiguous(q)
    k, v = (x if x.dtype == multiplied or _lines(x) else builder.contiguous(x) for x in (k, v))
    width = q.shape[-1]
    y = _result(attention, builder, graph)
    # Products of bfloat16 store their sums as they are asked to; others leave that to the step.
    given = y.dtype if y.dtype == multiplied else dtype
    score_row = _apart(keys * e)
    narrowed_row = _apart(keys * multiplied.itemsize) if multiplied != dtype else 0
    rows, chunks = _tiles(queries, score_row + narrowed_row, math.prod(scores[:-2]), builder)
    first, q, k = _problem(builder, q, k, (rows, width, keys), multiplied)
    second, _, v = _problem(builder, None, v, (rows, keys, shape[-1]), multiplied)
    tile = Strides(0, 0, score_row // e, 1)
    first = _for_sums(first, queries, dtype, c=tile)
    if narrowed_row:
        tile = Strides(0, 0, narrowed_row // multiplied.itemsize, 1)
    result = Strides(0, 0, _distances(y, given)[0], 1)
    second = _for_sums(second, queries, given, a=tile, c=result)
    lines = [
        (rows, shape[-1], y.strides[-2]),
        (rows, width, max(q.strides[-2], 0)),
        *map(_lines, (k, v)),
    ]
    stored = [
        (NARROW[x.dtype.name], *found) if found is not None and x.dtype != type_ else None
        for x, found, type_ in zip((y, q, k, v), lines, (given, *[multiplied] * 3), strict=True)
    ]
    programs = _Programs(attention, builder, graph, (rows, keys, score_row))
    in_front, behind = (
        [programs.compiled(program) for program in part] for part in attention.programs
    )
    # All arrays by the dimensions of heads, which a reshape may have split or joined.
    around = [scores, graph.shapes[attention.softmax.inputs[0]], *attention.shapes.values()]
    fine = _refined([whole[:-2] for whole in (*around, shape)])
    if fine is None:
        return False
    wholes = [
        (y, shape), (q, (*scores[:-2], queries, width)), (k, (*scores[:-2], width, keys)),
        (v, (*shape[:-2], keys, shape[-1])), *programs.operands,
    ]  # fmt: skip
    walks, inner = [], []
    for value, whole in wholes:
        strides = broadcast_strides(value, whole)
        walks.append(_split(strides[:-2], whole[:-2], fine))
        inner.append(strides[-2])
    dims, walked = walk_dims(fine, walks)
    if len(dims) > _MOST_DIMS:
        return False
    products = [_prepared(problem) for problem in (first, second)]
    fields = {
        "dtype": NAMES[dtype], "dims": tuple(dims), "strides": [tuple(s) for s in walked],
        "rows": [*inner[:2], 0, 0, *inner[_OWN:]], "queries": queries, "tile": rows,
        "chunks": chunks, "score_row": score_row, "operands": name_of(multiplied),
        "narrowed_row": narrowed_row, "stored": tuple(stored),
    }  # fmt: skip
    arrays = [value for value, _ in wholes]
    isa = planner.brain_isa() if multiplied.name == "bfloat16" else builder.isa_of(*arrays)
    work = products[0].attention_work(products[1], in_front, behind, fields, isa)
    names = [
        node.outputs[0]
        for item in attention.items
        for node in (item.nodes if isinstance(item, Chain) else [item])
    ]
    heads = math.prod(scores[:-2])
    builder.emit(Step(
        work, arrays[1:], [y], {"arrays": arrays}, "Attention", names,
        f"{heads}x{queries}x{keys}x{width}, {rows} at once, "
        + ", ".join(prepared.plan.kernel for prepared in products),
        flops=2 * heads * queries * keys * (width + shape[-1]),
    ))  # fmt: skip
    builder.deliver(name, y)
    for node in attention.behind:
        if is_view(node):
            _lower_view(node, builder, graph)
        else:
            builder.deliver(node.outputs[0], builder.values[node.inputs[0]])
    return True


def prices_of_attention(attention: Attention, graph: Graph) -> ProductPrices | None:
    """Estimate the cycles of an attention's products; None if they stay float32."""
    q, _, v = (graph.shapes[name] for name in _operands(attention))
    scores = graph.shapes[attention.product.outputs[0]]
    m, n = scores[-2:]
    pair = prices_of_product(m, n, q[-1]), prices_of_product(m, v[-1], n)
    if pair[0] is None or pair[1] is None:
        return None
    heads = math.prod(scores[:-2])
    rounded = planner.narrowing_cycles(heads * m * n, _ROUNDED)
    return ProductPrices(
        heads * (pair[0].single + pair[1].single),
        heads * (pair[0].narrow + pair[1].narrow) + rounded,
    )


def _operands(attention: Attention) -> tuple[str, str, str]:
    q, k = attention.product.inputs
    return q, k, attention.sums.inputs[1]


def _multiplied(
    attention: Attention, operands: Sequence[Value], builder: Builder, graph: Graph
) -> np.dtype[Any]:
    """Give the type in which the products multiply: that of the scores' name, if all can have it.

    Its choice is that of `narrow_storage`.
    """
    name = attention.product.outputs[0]
    dtype = graph.dtypes[name]
    narrow = builder.stored(name, dtype)
    fit = all(value.dtype in (dtype, narrow) for value in operands)
    return narrow if fit and brain_kinds() else dtype


def _for_sums(problem: Any, queries: int, given: np.dtype[Any], **strides: Strides) -> Any:
    """Place a tile's product; products of bfloat16 get their kind, and the type of their sums."""
    problem = replace(problem, **strides)
    if problem.dtype != "bf16":
        return problem
    kind = fastest_kind(queries, problem.n, problem.k)
    return replace(problem, permitted=(kind,), destination=name_of(given))


def _lower_view(node: Node, builder: Builder, graph: Graph) -> None:
    (lower_transpose if node.op == "Transpose" else lower_view)(node, builder, graph)


def _show_narrow(path: Sequence[Node], builder: Builder, graph: Graph) -> None:
    """Bind the names of an operand to the input of its conversion."""
    conversion, *views = path
    builder.values[conversion.outputs[0]] = builder.values[conversion.inputs[0]]
    for view in views:
        _lower_view(view, builder, graph)


def _in_rows(value: Value) -> bool:
    """Whether the elements of a row are neighbours."""
    (m, n), (down, across) = value.shape[-2:], value.strides[-2:]
    return (across == value.dtype.itemsize or n == 1) and (down > 0 or m == 1)


def _lines(value: Value) -> tuple[int, int, int] | None:
    """Contiguous lines of each matrix, their length and the bytes between them: rows or columns."""
    (m, n), (down, across) = value.shape[-2:], value.strides[-2:]
    if _in_rows(value):
        return m, n, max(down, 0)
    if (down == value.dtype.itemsize or m == 1) and (across > 0 or n == 1):
        return n, m, max(across, 0)
    return None


def _distances(value: Value, dtype: np.dtype[Any]) -> Shape:
    """Elements from a row to the next, and from a column, as products find them."""
    if value.dtype == dtype:
        return tuple(s // dtype.itemsize for s in value.strides[-2:])
    # Lines that are converted have no gaps.
    return (value.shape[-1], 1) if _in_rows(value) else (1, value.shape[-2])


def _result(attention: Attention, builder: Builder, graph: Graph) -> Value:
    """Give the value that the step writes, in the type in which it is stored."""
    name = attention.sums.outputs[0]
    shape, dtype = graph.shapes[name], builder.stored(name, graph.dtypes[name])
    order = _order(name, graph)

    def fits(value: Value) -> bool:
        return value.strides[-1] == dtype.itemsize and value.strides[-2] > 0

    if not attention.behind:
        return builder.target(name, shape, dtype, order, fits)
    *views, conversion = attention.behind
    dtype = graph.dtypes[conversion.outputs[0]]
    # The result goes to the place of what is converted, as seen from before the views.
    place = builder.wanted.get(conversion.outputs[0])
    for view in reversed(views):
        place = place and _seen_before(view, place, graph.shapes[view.inputs[0]])
    return place if place is not None and fits(place) else builder.new(shape, dtype, order)


def _seen_before(view: Node, value: Value, shape: Shape) -> Value | None:
    """Give the value whose view is `value`; None if there is none."""
    if view.op == "Transpose":
        order = view.attributes.get("perm") or list(reversed(range(len(shape))))
        return value.viewed(shape, tuple(value.strides[order.index(d)] for d in range(len(shape))))
    if value.is_plain:
        return value.viewed(shape, strides_of(shape, value.dtype.itemsize))
    return None


def _order(name: str, graph: Graph) -> Shape:
    """Order of the result in memory: a Transpose of heads behind it becomes a view."""
    rank = len(graph.shapes[name])
    users = graph.users.get(name, [])
    if len(users) == 1 and users[0].op == "Transpose":
        order = users[0].attributes.get("perm", range(rank)[::-1])
        if order[-1] == rank - 1:
            return tuple(order)
    return tuple(range(rank))


def _apart(size: int) -> int:
    """Bytes from a row of scores to the next: whole lines, but no whole pages."""
    lines = _whole_lines(size)
    return lines if lines % _PAGE else lines + _LINE


def _whole_lines(size: int) -> int:
    return -(-size // _LINE) * _LINE


def _tiles(queries: int, score_row: int, heads: int, builder: Builder) -> tuple[int, int]:
    """Choose the queries of a tile, and the tasks of a head."""
    most = max(current().l2_share // _L2_PART // score_row, _LEAST_ROWS)
    tiles = -(-queries // most)
    threads = planner.team_size(builder.settings.threads)
    chunks = 1
    if threads > 1 and heads < _TASKS_PER_THREAD * threads:
        chunks = min(-(-_TASKS_PER_THREAD * threads // heads), queries // _LEAST_TASK)
        if chunks > 1:
            tiles = max(tiles, 2 * chunks)
    rows = -(-queries // tiles)
    # The last two tiles may share queries, which are then one task's.
    tiles = -(-queries // rows)
    if chunks < 2 or tiles > rows:
        return rows, 1
    return rows, max(1, min(chunks, tiles // 2))


def _problem(
    builder: Builder,
    a: Value | None,
    b: Value,
    sizes: tuple[int, int, int],
    dtype: np.dtype[Any],
) -> tuple[Any, Any, Value]:
    """Make the problem of a tile, and copy operands that no loop walks.

    ``a`` is None for scores.
    """
    (m, k, n), kind = sizes, name_of(dtype)
    while True:
        rows = (k, 1) if a is None else _distances(a, dtype)
        columns = _distances(b, dtype)
        # Which kind it is does not matter to the shapes.
        found = matrices.product_of(
            (m, k), rows, (k, n), columns, kind, (kind,), may_swap=False, may_read=False
        )
        if not isinstance(found, str):
            return found.options[0].problem, a, b
        if found == "a":
            assert a is not None
            a = builder.contiguous(a)
        else:
            b = builder.contiguous(b)


def _prepared(problem: Any) -> Prepared:
    _, plan, fields = planner.make_cheapest_plan([problem], threads=1)
    return Prepared(problem, plan, fields, 1)


class _Programs:
    """The programs of a tile: each reads and writes scores in place.

    Parameters
    ----------
    attention : Attention
    builder : Builder
    graph : Graph
    tile : (int, int, int)
        Rows and columns of scores, and bytes from a row to the next.
    """

    def __init__(
        self, attention: Attention, builder: Builder, graph: Graph, tile: tuple[int, int, int]
    ) -> None:
        self.attention, self.builder, self.graph = attention, builder, graph
        self.rows, self.keys, self.score_row = tile
        self.operands: list[tuple[Value, Shape]] = []
        self._known: dict[str, tuple[int, ...]] = {}

    def compiled(self, program: Program) -> Elementwise:
        """Compile a program, and take its operands."""
        written = program.written
        code = written.code
        numbers = [number for _, number, _ in written.inputs] + list(code.scalars.values())
        given = assign(code.lines, numbers, [written.result], MOST_REGISTERS)
        assert given is not None, "programs are kept small"
        lines, place = given
        inputs: list[tuple[Any, ...]] = []
        for name, number, pair in written.inputs:
            if name == program.read:
                inputs.append(self._scores(name, pair, place[number]))
            else:
                array, stride, step, *stored = self._operand(name, written.dtype)
                inputs.append((array, (stride,), step, place[number], *stored))
        for (constant, _), register in code.scalars.items():
            value = constant_value(as_type(np.array([[constant]]), written.dtype))
            inputs.append((self._array(value), (0,), 0, place[register]))
        output = self._scores(program.result, written.stored, place[written.result])
        converts = written.stored is not None or any(pair for *_, pair in written.inputs)
        return Elementwise({
            "dtype": NAMES[written.dtype], "dims": (self.rows,), "columns": self.keys,
            "inputs": inputs, "outputs": [output], "code": lines, "row_segment": self.rows,
            "column_segment": min(self.keys, TILE_ELEMENTS) if converts else self.keys,
        }, self.builder.isa)  # fmt: skip

    def _scores(self, name: str, pair: Value | None, register: int) -> tuple[Any, ...]:
        """Describe the stream of a tile's scores, in numbers or quantized."""
        if pair is None:
            return _SCORES, (self.score_row,), 1, register
        kind = INTEGERS[self.graph.dtypes[name]]
        numbers = self._array(pair.viewed((1, 1), (pair.size, pair.size)))
        return _QUANTIZED, (_whole_lines(self.keys),), 1, register, kind, numbers

    def _operand(self, name: str, dtype: np.dtype[Any]) -> tuple[Any, ...]:
        """Number of an operand's array, bytes to its next row, its step, and its type."""
        value, whole = self.builder.values[name], self.attention.shapes[name]
        last = value.shape[-1] if value.shape else 1
        if last > 1 and value.strides[-1] != value.dtype.itemsize:
            value = self.builder.contiguous(value)
        if name not in self._known:
            self._known[name] = self._array(value, whole), broadcast_strides(value, whole)[-2]
        return *self._known[name], int(last > 1), *stored_as(value.dtype, dtype)

    def _array(self, value: Value, whole: Shape | None = None) -> int:
        whole = whole or self.graph.shapes[self.attention.product.outputs[0]]
        self.operands.append((value, whole))
        return _OWN + len(self.operands) - 1


def _refined(shapes: Sequence[Shape]) -> Shape | None:
    """Split dimensions of shapes of equal size so that each shape joins some of them.

    None if they do not divide one another.
    """
    ends: set[int] = {1}
    for shape in shapes:
        size = 1
        for n in reversed(shape):
            size *= n
            ends.add(size)
    ordered = sorted(ends)
    if any(b % a for a, b in itertools.pairwise(ordered)):
        return None
    return tuple(b // a for a, b in itertools.pairwise(ordered))[::-1]


def _split(strides: Shape, shape: Shape, fine: Shape) -> list[int]:
    """Strides of a shape's dimensions along finer ones."""
    found: list[int] = []
    rest = list(fine)
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        inside = 1
        while inside < n:
            size = rest.pop()
            found.append(stride * inside)
            inside *= size
    return found[::-1]

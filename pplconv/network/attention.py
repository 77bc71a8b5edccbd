"""Attention as one step: two products of computed matrices, and the softmax between them.

The scores of a few queries at a time stay in L2, so that they take no room in the arena and no
bandwidth of memory. Exporters spell attention in many ways; here it is a MatMul, element-wise nodes
and reshapes of the batch in any number (scales, masks, caps), a Softmax of the last axis, and a
MatMul. The step computes the same numbers as the nodes one by one.

Queries, keys and values that are float16 or bfloat16, and become float32 for this attention alone,
are converted by the step, and so is its result: conversions and views around the products are part
of the attention.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import planner
from .._kernels import MOST_REGISTERS
from ..geometry import Strides, walk_dims
from ..machine import current
from ..memory.dtypes import NAMES
from ..ops import matrices
from ..ops.prepared import Prepared
from ..schedules.elementwise_loops import MOST_STREAMS, Elementwise
from .builder import Builder
from .collapse import broadcast_strides
from .fusion import Chain, Written, written
from .nodes import Graph, Node, as_type
from .operators.elementwise_steps import stored_as
from .operators.expressions import assign
from .operators.table import row_of
from .operators.table_row import View
from .operators.movement import lower_transpose, lower_view
from .storage import Shape, Step, Value, constant_value, strides_of

__all__ = ["Attention", "lower_attention", "with_attention"]

# Types whose products take their operands as they are on every machine.
_TYPES = (np.dtype(np.float32), np.dtype(np.float64))
# Types that are stored for float32, by the names of their conversions.
_NARROW = {"float16": "f16", "bfloat16": "bf16"}
# Nodes that convert, and views that may stand between them and a product.
_CONVERSIONS = ("pplconv.Reformat", "Cast")
# Packed keys and values pay off from so many queries on, or from one for so many keys.
_ENOUGH_QUERIES, _KEYS_PER_QUERY = 32, 4
# Arrays besides the operands of the program; and dimensions of heads that loops walk.
_OWN, _MOST_DIMS = 4, 4
# Of a tile of scores, in a part of L2.
_L2_PART = 4
_LEAST_ROWS = 16
# A team's tasks, and their least queries, so that packing keys and values is a small part of them.
_TASKS_PER_THREAD, _LEAST_TASK = 3, 128
_LINE, _PAGE = 64, 4096


@dataclass(eq=False)
class Attention:
    """The nodes of one attention.

    Parameters
    ----------
    product : Node
        MatMul of queries and keys.
    parts : list of Chain or Node
        Element-wise chains and reshapes between product and softmax.
    softmax, sums : Node
        Softmax, and MatMul by the values.
    program : Written or None
        The chains as one program of the scores; None if there are none.
    shapes : dict
        By operand of the program: the shape that it is broadcast to.
    before : list of list of Node
        For operands that are narrower in memory: the conversion, and views behind it.
    behind : list of Node
        Views, and the conversion of the result, if it is narrower in memory.
    """

    product: Node
    parts: list[Chain | Node]
    softmax: Node
    sums: Node
    program: Written | None
    shapes: dict[str, Shape]
    before: list[list[Node]]
    behind: list[Node]

    @property
    def items(self) -> list[Node | Chain]:
        """What it consists of, in order."""
        products = [self.product, *self.parts, self.softmax, self.sums]
        return [*itertools.chain(*self.before), *products, *self.behind]


Item = Node | Chain | Attention


def with_attention(items: Sequence[Node | Chain], graph: Graph) -> list[Item]:
    """Join the nodes of attentions; each stands in the place of its last product.

    Parameters
    ----------
    items : sequence of Node or Chain
        The graph's nodes, in order.
    graph : Graph
        With all shapes.
    """
    maker: dict[str, Node | Chain] = {}
    for item in items:
        names = [item.result] if isinstance(item, Chain) else item.outputs
        maker.update((name, item) for name in names)
    found: dict[int, Attention] = {}
    joined: set[int] = set()
    for item in items:
        attention = _attention(item, maker, graph) if isinstance(item, Node) else None
        if attention is not None:
            found[id(item)] = attention
            joined |= {id(part) for part in attention.items}
    return [
        found.get(id(item), item) for item in items if id(item) in found or id(item) not in joined
    ]


def _attention(sums: Node, maker: dict[str, Node | Chain], graph: Graph) -> Attention | None:
    """Find the attention that ends with a product."""
    if sums.op != "MatMul":
        return None
    softmax = maker.get(sums.inputs[0])
    if not isinstance(softmax, Node) or softmax.op != "Softmax":
        return None
    probabilities = graph.shapes[softmax.outputs[0]]
    rank = len(probabilities)
    if (
        int(softmax.attributes.get("axis", -1)) % rank != rank - 1
        or not _goes_only_to(softmax.outputs[0], [sums], graph)
        or graph.shapes[sums.outputs[0]][:-2] != probabilities[:-2]
        or rank < 2
        or len(graph.shapes[sums.inputs[1]]) < 2
    ):
        return None
    path = _path(softmax.inputs[0], [softmax], maker, graph)
    if path is None:
        return None
    product, *parts = path
    assert isinstance(product, Node)
    operands = [*product.inputs, sums.inputs[1]]
    names = [*operands, *product.outputs, sums.outputs[0]]
    dtype = graph.dtypes[sums.outputs[0]]
    scores = graph.shapes[product.outputs[0]]
    if (
        dtype not in _TYPES
        or any(graph.dtypes[name] != dtype for name in names)
        or any(len(graph.shapes[name]) < 2 or 0 in graph.shapes[name] for name in names)
        or scores[-2] < min(_ENOUGH_QUERIES, scores[-1] / _KEYS_PER_QUERY)
    ):
        return None
    between = _program(product.outputs[0], parts, graph)
    if between is None:
        return None
    program, shapes = between
    if program is not None and (
        program.dtype != dtype
        or program.stored is not None
        or any(pair is not None for *_, pair in program.inputs)
        or not program.fits
        or _OWN + len(program.inputs) + len(program.code.scalars) > MOST_STREAMS
        or len(program.inputs) != len(shapes) + 1
    ):
        return None
    before = [
        path
        for name, reader in zip(operands, (product, product, sums), strict=True)
        if (path := _converted(name, reader, maker, graph))
    ]
    behind = _stored(sums, graph)
    return Attention(product, parts, softmax, sums, program, shapes, before, behind)


def _is_view(node: Node) -> bool:
    return node.op == "Transpose" or row_of(node.op).view is View.RESHAPED


def _is_narrow(name: str, graph: Graph) -> bool:
    return graph.dtypes[name].name in _NARROW


def _converted(
    name: str, reader: Node, maker: dict[str, Node | Chain], graph: Graph
) -> list[Node]:
    """Find the conversion of an operand, and the views behind it; empty if others read them."""
    path: list[Node] = []
    while isinstance(node := maker.get(name), Node) and _goes_only_to(name, [reader], graph):
        path.insert(0, node)
        if node.op in _CONVERSIONS:
            is_widened = _is_narrow(node.inputs[0], graph) and graph.dtypes[name] == np.float32
            return path if is_widened else []
        if not _is_view(node):
            break
        name, reader = node.inputs[0], node
    return []


def _stored(sums: Node, graph: Graph) -> list[Node]:
    """Find the conversion of the result, and the views before it; empty if others read them."""
    path: list[Node] = []
    name = sums.outputs[0]
    while name not in graph.outputs and len(users := graph.users.get(name, [])) == 1:
        node = users[0]
        path.append(node)
        if node.op in _CONVERSIONS:
            is_narrowed = _is_narrow(node.outputs[0], graph) and graph.dtypes[name] == np.float32
            return path if is_narrowed else []
        if not _is_view(node) or node.inputs[0] != name:
            break
        name = node.outputs[0]
    return []


def _goes_only_to(name: str, nodes: Sequence[Node], graph: Graph) -> bool:
    """Whether a value is read by these nodes alone."""
    return name not in graph.outputs and all(
        any(user is node for node in nodes) for user in graph.users.get(name, [])
    )


def _path(
    name: str, readers: Sequence[Node], maker: dict[str, Node | Chain], graph: Graph
) -> list[Node | Chain] | None:
    """Find the product that a value comes from, and what lies between."""
    item = maker.get(name)
    if item is None or not _goes_only_to(name, readers, graph):
        return None
    if isinstance(item, Chain):
        shape = graph.shapes[name]
        for source in item.inputs():
            if graph.shapes[source] == shape:
                path = _path(source, item.nodes, maker, graph)
                if path is not None:
                    return [*path, item]
        return None
    if item.op == "MatMul":
        return [item]
    if row_of(item.op).view is not View.RESHAPED:
        return None
    # Only the dimensions before those of a head's scores change.
    shapes = graph.shapes[item.inputs[0]], graph.shapes[name]
    if min(map(len, shapes)) < 2 or shapes[0][-2:] != shapes[1][-2:]:
        return None
    path = _path(item.inputs[0], [item], maker, graph)
    return None if path is None else [*path, item]


def _program(
    scores: str, parts: Sequence[Chain | Node], graph: Graph
) -> tuple[Written | None, dict[str, Shape]] | None:
    """Write the chains as one program, and give the shapes that operands are broadcast to.

    Reshapes change no number. None if an operand is broadcast to two shapes.
    """
    nodes: list[Node] = []
    shapes: dict[str, Shape] = {}
    known = {scores: scores}
    for part in parts:
        if isinstance(part, Node):
            known[part.outputs[0]] = known[part.inputs[0]]
            continue
        whole = graph.shapes[part.result]
        if any(shapes.get(name, whole) != whole for name in part.inputs()):
            return None
        for name in part.inputs():
            known_number = name in graph.constants and graph.constants[name].size == 1
            if name not in known and not known_number:
                shapes[name] = whole
        nodes += [
            replace(node, inputs=[known.get(name, name) for name in node.inputs])
            for node in part.nodes
        ]
        known[part.result] = part.result
    return (written(Chain(nodes), graph), shapes) if nodes else (None, {})


def lower_attention(attention: Attention, builder: Builder, graph: Graph) -> bool:
    """Add the step of an attention; False if its arrays lie in too many dimensions."""
    name = attention.sums.outputs[0]
    shape, dtype = graph.shapes[name], graph.dtypes[name]
    e = dtype.itemsize
    scores = graph.shapes[attention.product.outputs[0]]
    queries, keys = scores[-2:]
    for path in attention.before:
        _show_narrow(path, builder, graph)
    q, k = (builder.values[read] for read in attention.product.inputs)
    v = builder.values[attention.sums.inputs[1]]
    if q.dtype != dtype and _lines(q) != (queries, q.shape[-1], q.strides[-2]):
        q = builder.contiguous(q)
    k, v = (x if x.dtype == dtype or _lines(x) else builder.contiguous(x) for x in (k, v))
    width = q.shape[-1]
    y = _result(attention, builder, graph)
    score_row = _apart(keys * e)
    rows, chunks = _tiles(queries, score_row, math.prod(scores[:-2]), builder)
    first, q, k = _problem(builder, q, k, (rows, width, keys), dtype)
    second, _, v = _problem(builder, None, v, (rows, keys, shape[-1]), dtype)
    tile = Strides(0, 0, score_row // e, 1)
    first = replace(first, c=tile)
    second = replace(second, a=tile, c=Strides(0, 0, _distances(y, dtype)[0], 1))
    stored = [
        None if x.dtype == dtype else (_NARROW[x.dtype.name], *lines)
        for x, lines in (
            (y, (rows, shape[-1], y.strides[-2])), (q, (rows, width, max(q.strides[-2], 0))),
            (k, _lines(k)), (v, _lines(v)),
        )
    ]  # fmt: skip
    operands, entries, registers, code = _operands(attention, builder, graph, dtype)
    # All arrays by the dimensions of heads, which a reshape may have split or joined.
    around = [scores, graph.shapes[attention.softmax.inputs[0]], *attention.shapes.values()]
    fine = _refined([whole[:-2] for whole in around])
    if fine is None:
        return False
    wholes = [
        (y, shape), (q, (*scores[:-2], queries, width)), (k, (*scores[:-2], width, keys)),
        (v, (*shape[:-2], keys, shape[-1])), *operands,
    ]  # fmt: skip
    walks, inner = [], []
    for value, whole in wholes:
        strides = broadcast_strides(value, whole)
        walks.append(_split(strides[:-2], whole[:-2], fine))
        inner.append(strides[-2])
    dims, found = walk_dims(fine, walks)
    if len(dims) > _MOST_DIMS:
        return False
    products = [_prepared(problem) for problem in (first, second)]
    middle = None
    if entries:
        place = (0, (score_row,), 1)
        streams = [
            (*place, registers[0]) if array == 0 else (array, (inner[array],), *rest)
            for array, *rest in entries
        ]
        middle = Elementwise({
            "dtype": NAMES[dtype], "dims": (rows,), "columns": keys, "inputs": streams,
            "outputs": [(*place, registers[1])], "code": code, "row_segment": rows,
            "column_segment": keys,
        }, builder.isa)  # fmt: skip
    fields = {
        "dtype": NAMES[dtype], "dims": tuple(dims), "strides": [tuple(s) for s in found],
        "rows": [*inner[:2], 0, 0, *inner[_OWN:]], "queries": queries, "tile": rows,
        "chunks": chunks, "score_row": score_row, "stored": tuple(stored),
    }  # fmt: skip
    work = products[0].attention_work(products[1], middle, fields, builder.isa)
    arrays = [value for value, _ in wholes]
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
        if _is_view(node):
            _lower_view(node, builder, graph)
        else:
            builder.deliver(node.outputs[0], builder.values[node.inputs[0]])
    return True


def _lower_view(node: Node, builder: Builder, graph: Graph) -> None:
    (lower_transpose if node.op == "Transpose" else lower_view)(node, builder, graph)


def _show_narrow(path: Sequence[Node], builder: Builder, graph: Graph) -> None:
    """Bind the names of an operand to what its conversion reads."""
    conversion, *views = path
    builder.values[conversion.outputs[0]] = builder.values[conversion.inputs[0]]
    for view in views:
        _lower_view(view, builder, graph)


def _lines(value: Value) -> tuple[int, int, int] | None:
    """Contiguous lines of each matrix, their length and the bytes between them: rows or columns."""
    e, (m, n), (down, across) = value.dtype.itemsize, value.shape[-2:], value.strides[-2:]
    if (across == e or n == 1) and (down > 0 or m == 1):
        return m, n, max(down, 0)
    if (down == e or m == 1) and (across > 0 or n == 1):
        return n, m, max(across, 0)
    return None


def _distances(value: Value, dtype: np.dtype[Any]) -> Shape:
    """Elements from a row to the next, and from a column, as products find them."""
    if value.dtype == dtype:
        return tuple(s // dtype.itemsize for s in value.strides[-2:])
    # Lines that are converted have no gaps.
    m, n = value.shape[-2:]
    lines = _lines(value)
    return (n, 1) if lines is None or lines[:2] == (m, n) else (1, m)


def _result(attention: Attention, builder: Builder, graph: Graph) -> Value:
    """Give the value that the step writes, in the type in which it is stored."""
    name = attention.sums.outputs[0]
    shape, dtype = graph.shapes[name], graph.dtypes[name]
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
    lines = -(-size // _LINE) * _LINE
    return lines if lines % _PAGE else lines + _LINE


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
    (m, k, n), kind = sizes, NAMES[dtype]
    while True:
        rows = (k, 1) if a is None else _distances(a, dtype)
        columns = _distances(b, dtype)
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


def _operands(
    attention: Attention, builder: Builder, graph: Graph, dtype: np.dtype[Any]
) -> tuple[list[tuple[Value, Shape]], list[tuple[Any, ...]], tuple[int, int], list[Any]]:
    """Give the program's operands with their shapes, and its streams, registers and code."""
    program = attention.program
    if program is None:
        return [], [], (0, 0), []
    numbers = [number for _, number, _ in program.inputs] + list(program.code.scalars.values())
    given = assign(program.code.lines, numbers, [program.result], MOST_REGISTERS)
    assert given is not None, "programs are kept small"
    code, place = given
    operands: list[tuple[Value, Shape]] = []
    entries: list[tuple[Any, ...]] = []
    read = 0
    for name, number, _ in program.inputs:
        if name not in attention.shapes:
            read = place[number]
            entries.append((0,))
            continue
        value, whole = builder.values[name], attention.shapes[name]
        last = value.shape[-1] if value.shape else 1
        if last > 1 and value.strides[-1] != value.dtype.itemsize:
            value = builder.contiguous(value)
        entry = (_OWN + len(operands), int(last > 1), place[number])
        entries.append((*entry, *stored_as(value.dtype, dtype)))
        operands.append((value, whole))
    for (constant, _), register in program.code.scalars.items():
        value = constant_value(as_type(np.array([[constant]]), dtype))
        entries.append((_OWN + len(operands), 0, place[register]))
        operands.append((value, graph.shapes[attention.product.outputs[0]]))
    return operands, entries, (read, place[program.result]), code


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

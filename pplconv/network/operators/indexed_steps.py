"""Operators that find elements by indices of a run, or whose results are such indices.

A Gather or a Scatter is one step of `schedules.index_loops`: it copies items, each as large as the
indices leave contiguous. A scatter changes a copy of its first operand. Indices out of range are
met during the run, which is refused then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._kernels import REDUCTIONS
from ..._records import NamedTuple
from ...geometry import walk_dims
from ...ops.strided_copies import TASK_BYTES
from ...schedules.index_loops import AROUND, MOST_INDICES, Indexed
from ...schedules.row_loops import Rows
from ..builder import Builder
from ..nodes import Graph, Node
from ..storage import Shape, Step, Value, constant_value
from .elementwise_steps import COMPUTED, TRUTH, Stream, emit_outputs
from .expressions import Code
from .movement import integers

__all__ = [
    "lower_arg", "lower_gather", "lower_gather_elements", "lower_gather_nd", "lower_one_hot",
    "lower_scatter_elements", "lower_scatter_nd", "lower_tile", "serves_arg", "serves_gather",
    "serves_gather_elements", "serves_gather_nd", "serves_one_hot", "serves_scatter_elements",
    "serves_scatter_nd", "serves_tile",
]  # fmt: skip

_INDICES = (np.dtype(np.int64), np.dtype(np.int32))
# Types of ArgMax and ArgMin; half precision has no kernels.
_SEARCHED = {dtype: name for dtype, name in COMPUTED.items() if name != "f16"}


class _Side(NamedTuple):
    """An array that items are read from, or written to.

    Parameters
    ----------
    value : Value
        The array.
    strides : tuple of int
        Bytes from one row of items to the next, along each dimension that counts rows.
    step : int
        Bytes from one item of a row to the next.
    indexed : tuple of int
        Bytes that each index of an item counts; zeros where indices do not say the place.
    """

    value: Value
    strides: Sequence[int]
    step: int
    indexed: tuple[int, ...]


def _axis(node: Node, rank: int) -> int:
    return int(node.attributes.get("axis", 0)) % rank


def _are_indices(node: Node, graph: Graph) -> bool:
    """Whether operands and results have elements, and indices a type of the loops."""
    shapes = [graph.shapes[name] for name in (*node.inputs, node.outputs[0]) if name]
    return graph.dtypes[node.inputs[1]] in _INDICES and all(map(math.prod, shapes))


def _result(name: str, builder: Builder, graph: Graph) -> Value:
    """Give the place of a result, without gaps."""
    return builder.target(
        name, graph.shapes[name], graph.dtypes[name], fits=lambda value: value.is_plain
    )


def _emit(
    builder: Builder,
    dst: _Side,
    src: _Side,
    index: _Side,
    *,
    dims: Sequence[int],
    count: int,
    limits: Shape,
    size: int,
    node: Node,
) -> None:
    """Add the step; the indices of an item are contiguous."""
    scatters = any(dst.indexed)
    whole = [*dims, count]
    walks = [[*side.strides, side.step] for side in (dst, src, index)]
    if not scatters:
        whole, walks = walk_dims(tuple(whole), walks)
    elif len(whole) > 1:
        # Of several items for one place the last one stays: rows go in their order.
        many = [d for d, n in enumerate(whole) if n > 1] or [0]
        whole, walks = [whole[d] for d in many], [[walk[d] for d in many] for walk in walks]
    (*to, dst_step), (*from_, src_step), (*at, index_step) = walks
    fields: dict[str, Any] = {
        "dtype": COMPUTED[index.value.dtype], "size": size, "dims": whole[:-1], "dst": to,
        "src": from_, "index": at, "count": whole[-1], "dst_step": dst_step,
        "src_step": src_step, "index_step": index_step, "limits": limits,
        "dst_strides": dst.indexed, "src_strides": src.indexed,
        "together": scatters or math.prod(whole) * size <= TASK_BYTES,
        "segment": max(1, min(whole[-1], TASK_BYTES // size)),
    }  # fmt: skip
    values = [dst.value, src.value, index.value]
    reads = [src.value, index.value, *([dst.value] if scatters else [])]
    builder.emit(Step(
        Indexed(fields, builder.isa), reads, [dst.value], {"arrays": [*values, ("refusals",)]},
        node.op, [node.outputs[0]], f"{'x'.join(map(str, (*dims, count)))}, {size} bytes each",
    ))  # fmt: skip


def _fits(dims: Sequence[int]) -> bool:
    return len(dims) <= AROUND


def serves_gather(node: Node, graph: Graph) -> bool:
    """Whether the loops take a Gather: of indices of the usual types."""
    rank = len(graph.shapes[node.inputs[0]])
    return _are_indices(node, graph) and _fits(range(rank - 1))


def lower_gather(node: Node, builder: Builder, graph: Graph) -> None:
    """Gather: an item is what follows the axis, as far as it is contiguous."""
    name = node.outputs[0]
    value = builder.values[node.inputs[0]]
    index = builder.contiguous(builder.values[node.inputs[1]])
    axis, e = _axis(node, len(value.shape)), value.dtype.itemsize
    inner = len(value.shape)
    size = e
    while inner > axis + 1 and (value.strides[inner - 1] == size or value.shape[inner - 1] == 1):
        inner -= 1
        size *= value.shape[inner]
    around = [d for d in range(inner) if d != axis]
    y = _result(name, builder, graph)
    # Of the result, the dimensions of the indices take the place of the axis.
    later = len(index.shape) - 1
    placed = [y.strides[d if d < axis else d + later] for d in around]
    step = math.prod(value.shape[axis + 1 :]) * e
    _emit(
        builder,
        _Side(y, placed, step, (0,)),
        _Side(value, [value.strides[d] for d in around], 0, (value.strides[axis],)),
        _Side(index, [0] * len(around), index.dtype.itemsize, ()),
        dims=[value.shape[d] for d in around], count=index.size, limits=(value.shape[axis],),
        size=size, node=node,
    )  # fmt: skip
    builder.deliver(name, y)


def serves_gather_elements(node: Node, graph: Graph) -> bool:
    """Whether the loops take a GatherElements whose indices lie within the other dimensions."""
    shape, indices = (graph.shapes[name] for name in node.inputs)
    return _are_indices(node, graph) and _lies_in(indices, shape, node) and _fits(shape[1:])


def _lies_in(indices: Shape, shape: Shape, node: Node) -> bool:
    """Whether indices have no more elements than an array along all dimensions but the axis."""
    if len(indices) != len(shape) or not shape:
        return False
    axis = _axis(node, len(shape))
    return all(n <= m for d, (n, m) in enumerate(zip(indices, shape, strict=True)) if d != axis)


def _by_element(strides: Sequence[int], axis: int | None) -> tuple[list[int], int, tuple[int]]:
    """Strides of rows of elements, the step, and the bytes that an index along an axis counts."""
    own = [0 if d == axis else stride for d, stride in enumerate(strides)]
    return own[:-1], own[-1], (0 if axis is None else strides[axis],)


def lower_gather_elements(node: Node, builder: Builder, graph: Graph) -> None:
    """GatherElements: an item is an element."""
    name = node.outputs[0]
    value, index = (builder.values[read] for read in node.inputs)
    y = _result(name, builder, graph)
    axis = _axis(node, len(value.shape))
    rows, step, _ = _by_element(index.strides, None)
    _emit(
        builder,
        _Side(y, *_by_element(y.strides, None)),
        _Side(value, *_by_element(value.strides, axis)),
        _Side(index, rows, step, ()),
        dims=index.shape[:-1], count=index.shape[-1], limits=(value.shape[axis],),
        size=value.dtype.itemsize, node=node,
    )  # fmt: skip
    builder.deliver(name, y)


def serves_scatter_elements(node: Node, graph: Graph) -> bool:
    """Whether the loops take a ScatterElements: one that replaces elements."""
    shape, indices, updates = (graph.shapes[name] for name in node.inputs)
    return (
        _are_indices(node, graph)
        and node.attributes.get("reduction", "none") == "none"
        and updates == indices
        and _lies_in(indices, shape, node)
        and _fits(shape[1:])
    )


def lower_scatter_elements(node: Node, builder: Builder, graph: Graph) -> None:
    """ScatterElements: a copy, and an element for each index."""
    name = node.outputs[0]
    value, index, updates = (builder.values[read] for read in node.inputs)
    y = _result(name, builder, graph)
    builder.copy(value, y, [name])
    axis = _axis(node, len(value.shape))
    rows, step, _ = _by_element(index.strides, None)
    _emit(
        builder,
        _Side(y, *_by_element(y.strides, axis)),
        _Side(updates, *_by_element(updates.strides, None)),
        _Side(index, rows, step, ()),
        dims=index.shape[:-1], count=index.shape[-1], limits=(value.shape[axis],),
        size=value.dtype.itemsize, node=node,
    )  # fmt: skip
    builder.deliver(name, y)


def _depth(node: Node, graph: Graph) -> int:
    """Number of indices of an item; 0 if the loops do not take them."""
    shape, indices = graph.shapes[node.inputs[0]], graph.shapes[node.inputs[1]]
    if not indices or not 1 <= indices[-1] <= min(len(shape), MOST_INDICES):
        return 0
    return indices[-1] if not node.attributes.get("batch_dims", 0) else 0


def serves_gather_nd(node: Node, graph: Graph) -> bool:
    """Whether the loops take a GatherND: one without dimensions of a batch."""
    return _are_indices(node, graph) and _depth(node, graph) > 0


def lower_gather_nd(node: Node, builder: Builder, graph: Graph) -> None:
    """GatherND: an item is what follows the indices' dimensions."""
    name, depth = node.outputs[0], _depth(node, graph)
    value, index = (builder.contiguous(builder.values[read]) for read in node.inputs)
    y = _result(name, builder, graph)
    size = math.prod(value.shape[depth:]) * value.dtype.itemsize
    _emit(
        builder,
        _Side(y, [], size, (0,) * depth),
        _Side(value, [], 0, value.strides[:depth]),
        _Side(index, [], depth * index.dtype.itemsize, ()),
        dims=[], count=index.size // depth, limits=value.shape[:depth], size=size, node=node,
    )  # fmt: skip
    builder.deliver(name, y)


def serves_scatter_nd(node: Node, graph: Graph) -> bool:
    """Whether the loops take a ScatterND: one that replaces elements."""
    depth = _depth(node, graph)
    shape, indices, updates = (graph.shapes[name] for name in node.inputs)
    return (
        _are_indices(node, graph)
        and depth > 0
        and node.attributes.get("reduction", "none") == "none"
        and updates == indices[:-1] + shape[depth:]
    )


def lower_scatter_nd(node: Node, builder: Builder, graph: Graph) -> None:
    """ScatterND: a copy, and an item for each tuple of indices."""
    name, depth = node.outputs[0], _depth(node, graph)
    value = builder.values[node.inputs[0]]
    index, updates = (builder.contiguous(builder.values[read]) for read in node.inputs[1:])
    y = _result(name, builder, graph)
    builder.copy(value, y, [name])
    size = math.prod(value.shape[depth:]) * value.dtype.itemsize
    _emit(
        builder,
        _Side(y, [], 0, y.strides[:depth]),
        _Side(updates, [], size, (0,) * depth),
        _Side(index, [], depth * index.dtype.itemsize, ()),
        dims=[], count=index.size // depth, limits=value.shape[:depth], size=size, node=node,
    )  # fmt: skip
    builder.deliver(name, y)


def serves_tile(node: Node, graph: Graph) -> bool:
    """Whether the repeats of a Tile are known."""
    return node.inputs[1] in graph.constants and bool(math.prod(graph.shapes[node.outputs[0]]))


def lower_tile(node: Node, builder: Builder, graph: Graph) -> None:
    """Tile: one copy, which repeats along dimensions of its own."""
    name = node.outputs[0]
    value, repeats = builder.values[node.inputs[0]], integers(node.inputs[1], graph)
    assert repeats is not None
    y = builder.target(name, graph.shapes[name], value.dtype)
    whole = [n for pair in zip(repeats, value.shape, strict=True) for n in pair]
    read = [s for stride in value.strides for s in (0, stride)]
    written = [
        s for n, stride in zip(value.shape, y.strides, strict=True) for s in (n * stride, stride)
    ]
    builder.copy(value.viewed(tuple(whole), tuple(read)), y.viewed(tuple(whole), tuple(written)),
                 [name])  # fmt: skip
    builder.deliver(name, y)


def serves_one_hot(node: Node, graph: Graph) -> bool:
    """Whether the loops take a OneHot of integers, whose depth is known."""
    return (
        graph.dtypes[node.inputs[0]] in _INDICES
        and node.inputs[1] in graph.constants
        and graph.dtypes[node.outputs[0]] in COMPUTED
        and graph.shapes[node.inputs[2]] == (2,)
        and bool(math.prod(graph.shapes[node.outputs[0]]))
    )


def lower_one_hot(node: Node, builder: Builder, graph: Graph) -> None:
    """OneHot: where an index, counted from either end, is the place; else the first value."""
    name = node.outputs[0]
    index, values = builder.values[node.inputs[0]], builder.values[node.inputs[2]]
    shape = graph.shapes[name]
    axis = int(node.attributes.get("axis", -1)) % len(shape)
    count = shape[axis]
    spread = index.viewed(
        (*index.shape[:axis], 1, *index.shape[axis:]),
        (*index.strides[:axis], 0, *index.strides[axis:]),
    )
    places = np.arange(count, dtype=index.dtype).reshape(-1, *[1] * (len(shape) - 1 - axis))
    code = Code(index.dtype)
    given, place = code.fresh(), code.fresh()
    end = code.do("SUBTRACT", place, code.scalar(count))
    equal = code.do("OR", code.do("EQUAL", given, place), code.do("EQUAL", given, end))
    hit = builder.new(shape, TRUTH)
    emit_outputs(
        builder, [(hit, equal)], code, [(spread, given), (constant_value(places), place)],
        node.op, [name], index.dtype,
    )  # fmt: skip
    y = builder.target(name, shape, values.dtype)
    code = Code(values.dtype)
    truth, off, on = code.fresh(), code.fresh(), code.fresh()
    chosen = code.do("WHERE", truth, on, off)
    first, second = (values.viewed((), (), at * values.strides[0]) for at in range(2))
    streams = [Stream(hit, truth), Stream(first, off), Stream(second, on)]
    emit_outputs(builder, [(y, chosen)], code, streams, node.op, [name], values.dtype)
    builder.deliver(name, y)


def serves_arg(node: Node, graph: Graph) -> bool:
    """Whether the loops take an ArgMax or an ArgMin."""
    shape = graph.shapes[node.inputs[0]]
    return graph.dtypes[node.inputs[0]] in _SEARCHED and bool(shape and math.prod(shape))


def lower_arg(node: Node, builder: Builder, graph: Graph) -> None:
    """ArgMax and ArgMin: along contiguous rows."""
    name = node.outputs[0]
    value = builder.values[node.inputs[0]]
    axis = _axis(node, len(value.shape))
    kept = [d for d in range(len(value.shape)) if d != axis]
    value = builder.contiguous(value, (*kept, axis))
    columns, e = value.shape[axis], value.dtype.itemsize
    rows = value.size // columns
    y = _result(name, builder, graph)
    fields = {
        "op": "arg_columns", "dtype": _SEARCHED[value.dtype], "dims": [], "src": [], "dst": [],
        "rows": rows, "columns": columns, "src_rs": columns * e, "dst_rs": y.dtype.itemsize,
        "kind": REDUCTIONS[node.op.removeprefix("Arg").upper()],
        "last": bool(node.attributes.get("select_last_index", 0)),
        "segment": max(1, TASK_BYTES // (columns * e)), "scale": False, "offset": False,
    }  # fmt: skip
    builder.emit(Step(
        Rows(fields, builder.isa), [value], [y], {"arrays": [y, value]}, node.op, [name],
        f"{rows}x{columns}",
    ))  # fmt: skip
    builder.deliver(name, y)

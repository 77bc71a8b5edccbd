"""Reductions, softmax and layer normalization."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._kernels import REDUCTIONS
from ...geometry import walk_dims
from ...ops.strided_copies import TASK_BYTES
from ...schedules.row_loops import Rows
from ..builder import Builder
from ..nodes import Graph, Node, as_type
from ..storage import Shape, Step, Value, constant_value, strides_of
from .elementwise_steps import (
    BRAIN,
    COMPUTED,
    LOADED,
    SINGLE,
    computed,
    emit_code,
)
from .expressions import Code
from .movement import integers
from .table_row import Lower

MOST_AROUND = 4
# Kept dimensions, their strides; number of reduced elements, and their distance.
Walk = tuple[list[int], list[int], int, int]
# Reductions of integers: sums would have to saturate.
_OF_INTEGERS = ("ReduceMax", "ReduceMin")
_KINDS = {**COMPUTED, **LOADED}
# Columns of a task that adds up rows: whole cache lines.
LEAST_COLUMNS = 16


def axes_of(node: Node, graph: Graph) -> list[int] | None:
    """Dimensions that a reduction runs over; None if unknown."""
    rank = len(graph.shapes[node.inputs[0]])
    if node.op.startswith("Global"):
        return list(range(2, rank))
    axes = node.attributes.get("axes")
    if len(node.inputs) > 1 and node.inputs[1]:
        if node.inputs[1] not in graph.constants:
            return None
        axes = integers(node.inputs[1], graph)
    if not axes:
        return [] if node.attributes.get("noop_with_empty_axes", 0) else list(range(rank))
    # Each axis once, as in onnxruntime.
    return sorted({axis % rank for axis in axes})


def serves_reduction(node: Node, graph: Graph) -> bool:
    """Whether a reduction has known axes, and is not empty."""
    dtype = graph.dtypes[node.outputs[0]]
    return (
        bool(axes_of(node, graph))
        and (dtype in LOADED or (dtype in COMPUTED and node.op in _OF_INTEGERS))
        and graph.dtypes[node.inputs[0]] == dtype
        and math.prod(graph.shapes[node.inputs[0]]) > 0
    )


def reduction(kind: str, finish: str | None = None) -> Lower:
    """Make the lowering function of a reduction.

    Parameters
    ----------
    kind : str
        Operation on the elements: a key of `_kernels.REDUCTIONS`.
    finish : str, optional
        Operation on the result: ``"DIVIDE"`` by the number of elements, or ``"SQUARE_ROOT"``.
    """

    def lower(node: Node, builder: Builder, graph: Graph) -> None:
        name = node.outputs[0]
        dtype, value = graph.dtypes[name], builder.values[node.inputs[0]]
        axes = axes_of(node, graph)
        assert axes is not None
        kept = [d for d in range(len(value.shape)) if d not in axes]
        walk = _walk(value, kept, axes)
        if walk is None:
            value = builder.contiguous(value, (*kept, *axes))
            walk = _walk(value, kept, axes)
        assert walk is not None
        # The result has the kept dimensions in the input's memory order.
        order = [d for d in value.order if d in kept]
        whole = tuple(1 if d in axes else n for d, n in enumerate(value.shape))
        strides = strides_of(whole, dtype.itemsize, [*axes, *order])
        result = builder.new(whole, dtype, [*axes, *order])
        # What is computed further is not rounded before.
        wide = finish is not None and dtype == BRAIN
        found = builder.new(whole, SINGLE, [*axes, *order]) if wide else result
        emit_reduction(builder, kind, value, found, walk, node.op, [name])
        if finish is not None:
            code = Code()
            number = code.fresh()
            count = math.prod(value.shape[d] for d in axes)
            operands = [code.scalar(count)] if finish == "DIVIDE" else []
            scaled = code.do(finish, number, *operands)
            emit_code(builder, result, code, [(found, number)], scaled, node.op, [name])
        shape = graph.shapes[name]
        if shape != whole:
            result = result.viewed(shape, tuple(strides[d] for d in kept))
        builder.deliver(name, result)

    return lower


def _walk(value: Value, kept: list[int], axes: list[int]) -> Walk | None:
    """Describe kept and reduced dimensions; None if the loops cannot walk them."""
    dims, (strides,) = walk_dims(
        tuple(value.shape[d] for d in kept), (tuple(value.strides[d] for d in kept),)
    )
    many, (steps,) = walk_dims(
        tuple(value.shape[d] for d in axes), (tuple(value.strides[d] for d in axes),)
    )
    if len(many) > 1 or len(dims) > MOST_AROUND:
        return None
    e = value.dtype.itemsize
    count, step = many[0], steps[0]
    if count == 1:
        step = e if strides[-1] != e else dims[-1] * e
    if math.prod(dims) == 1 and step != e:
        # One sum of strided elements: rows of one column.
        strides = [*strides[:-1], e]
    if e not in (strides[-1], step):
        return None
    return dims, strides, count, step


def emit_reduction(
    builder: Builder,
    kind: str,
    value: Value,
    result: Value,
    walk: Walk,
    operator: str,
    nodes: list[str],
) -> None:
    """Add a step that reduces a value, walked over in this way, to a result without gaps.

    The result of bfloat16 may be float32.
    """
    dims, source, count, step = walk
    e = value.dtype.itemsize
    out = list(strides_of(dims, result.dtype.itemsize))
    threads = builder.settings.threads or 0
    fields: dict[str, Any] = {
        "dtype": _KINDS[value.dtype], "kind": REDUCTIONS[kind],
        "scale": False, "offset": False, "src_rs": 0, "dst_rs": 0,
        "wide": result.dtype != value.dtype,
    }  # fmt: skip
    if source[-1] == e and (step != e or count == 1):
        columns = dims[-1]
        segment = columns
        if math.prod(dims[:-1]) < 2 and threads != 1:
            segment = max(LEAST_COLUMNS, columns // 4 // LEAST_COLUMNS * LEAST_COLUMNS)
        fields |= {
            "op": "reduce_rows", "dims": dims[:-1], "src": source[:-1], "dst": out[:-1],
            "rows": count, "columns": columns, "src_rs": step, "segment": segment,
        }  # fmt: skip
    else:
        fields |= {
            "op": "reduce_columns", "dims": dims[:-1], "src": source[:-1], "dst": out[:-1],
            "rows": dims[-1], "columns": count, "src_rs": source[-1], "dst_rs": out[-1],
            "segment": max(1, TASK_BYTES // (count * e)),
        }  # fmt: skip
    builder.emit(Step(
        Rows(fields, builder.isa_of(value)), [value], [result], {"arrays": [result, value]},
        operator, nodes, f"{fields['op']} {count} of {'x'.join(map(str, dims))}",
    ))  # fmt: skip


def serves_rows(node: Node, graph: Graph) -> bool:
    """Whether a softmax or normalization has elements of our types, and one result."""
    return (
        graph.dtypes[node.outputs[0]] in LOADED
        and graph.dtypes[node.inputs[0]] == graph.dtypes[node.outputs[0]]
        and math.prod(graph.shapes[node.outputs[0]]) > 0
        and not any(
            name in graph.outputs or graph.users.get(name) for name in node.outputs[1:] if name
        )
        and all(graph.dtypes[name] in LOADED for name in node.inputs if name)
    )


def serves_layer_norm(node: Node, graph: Graph) -> bool:
    """The same, and scales and offsets are those of the normalized dimensions."""
    if not serves_rows(node, graph):
        return False
    shape = graph.shapes[node.inputs[0]]
    whole = shape[int(node.attributes.get("axis", -1)) % len(shape) :]
    for name in node.inputs[1:]:
        factor = graph.shapes[name] if name else whole
        missing = (1,) * (len(whole) - len(factor))
        if len(factor) > len(whole) or (
            factor != whole
            and (
                name not in graph.constants
                or any(n not in (1, m) for n, m in zip(missing + factor, whole, strict=True))
            )
        ):
            return False
    return True


def lower_softmax(node: Node, builder: Builder, graph: Graph) -> None:
    """Softmax and LogSoftmax of one dimension."""
    name = node.outputs[0]
    value = builder.values[node.inputs[0]]
    axis = int(node.attributes.get("axis", -1)) % len(value.shape)
    order = (*(d for d in range(len(value.shape)) if d != axis), axis)
    value = builder.contiguous(value, order)
    dtype = builder.stored(name, graph.dtypes[name])
    strides = strides_of(value.shape, dtype.itemsize, order)
    y = builder.target(name, value.shape, dtype, order, lambda v: v.lies_as(strides))
    _emit_rows(builder, node, value, y, value.shape[axis], {
        "op": "softmax", "kind": int(node.op == "LogSoftmax"), "scale": False,
        "offset": False,
    }, [])  # fmt: skip
    builder.deliver(name, y)


def lower_layer_norm(node: Node, builder: Builder, graph: Graph) -> None:
    """LayerNormalization over the last dimensions."""
    name = node.outputs[0]
    value = builder.contiguous(builder.values[node.inputs[0]])
    axis = int(node.attributes.get("axis", -1)) % len(value.shape)
    columns = math.prod(value.shape[axis:])
    names = [*node.inputs, ""][:3]
    if names[1] in graph.constants and (graph.constants[names[1]] == 1).all():
        names[1] = ""
    factors = [
        _factor(builder, given, value.shape[axis:], computed(value.dtype), name)
        for given in names[1:]
    ]
    factors.append(constant_value(np.array([node.attributes.get("epsilon", 1e-5)], np.float64)))
    dtype = builder.stored(name, graph.dtypes[name])
    y = builder.target(name, value.shape, dtype, fits=lambda v: v.is_plain)
    _emit_rows(builder, node, value, y, columns, {
        "op": "layer_norm", "kind": 0,
        "scale": bool(names[1]), "offset": bool(names[2]),
    }, factors)  # fmt: skip
    builder.deliver(name, y)


def _factor(builder: Builder, given: str, shape: Shape, dtype: np.dtype[Any], name: str) -> Value:
    """Give the scales or the offsets of a normalization, in the type that loops compute in."""
    if not given:
        return constant_value(np.zeros(1, dtype))
    factor = builder.values[given]
    known = factor.constant
    if known is not None and (known.shape != shape or known.dtype != dtype):
        return constant_value(np.broadcast_to(as_type(known, dtype), shape))
    factor = builder.contiguous(factor)
    if factor.dtype == dtype:
        return factor
    wide = builder.new(shape, dtype)
    builder.convert(factor, wide, [name])
    return wide


def _emit_rows(
    builder: Builder,
    node: Node,
    value: Value,
    y: Value,
    columns: int,
    fields: dict[str, Any],
    more: list[Value],
) -> None:
    """Add a step over contiguous rows."""
    e = value.dtype.itemsize
    rows = value.size // columns
    fields = fields | {
        "dtype": LOADED[value.dtype], "dims": [], "src": [], "dst": [], "rows": rows,
        "columns": columns, "src_rs": columns * e, "dst_rs": columns * y.dtype.itemsize,
        "wide": y.dtype != value.dtype,
        "segment": max(1, min(TASK_BYTES // (columns * e), -(-rows // 4))),
    }  # fmt: skip
    builder.emit(Step(
        Rows(fields, builder.isa_of(value)), [value, *more], [y], {"arrays": [y, value, *more]},
        node.op, [node.outputs[0]], f"{rows}x{columns}",
    ))  # fmt: skip

"""Products of two computed matrices: a step packs the second in each run."""

from __future__ import annotations

import math

import numpy as np

from ... import planner
from ...arguments.activation import Activation
from ...memory.dtypes import name_of
from ...ops import matrices
from ...ops.prepared import Activation as PlannedActivation
from ...ops.prepared import Prepared
from ..builder import Builder
from ..nodes import Graph, Node
from ..storage import Shape, Step, Value
from .brain_products import ProductPrices, brain_kinds, fastest_kind, prices_of_product
from .elementwise_steps import NATIVE

# Batches that one problem cannot cover become separate problems of two steps each.
MOST_PRODUCTS = 64


def serves_product(node: Node, graph: Graph) -> bool:
    """Whether a MatMul has elements of our types, and is not empty."""
    a, b = (graph.shapes[name] for name in node.inputs[:2])
    dtype = graph.dtypes[node.outputs[0]]
    return (
        (dtype in NATIVE or (dtype.name == "bfloat16" and bool(brain_kinds())))
        and graph.dtypes[node.inputs[0]] == graph.dtypes[node.inputs[1]]
        and min(len(a), len(b)) > 0
        and a[-1] > 0
        and math.prod(graph.shapes[node.outputs[0]]) > 0
    )


def lower_product(node: Node, builder: Builder, graph: Graph) -> None:
    """MatMul, as NumPy's `matmul` computes it."""
    name = node.outputs[0]
    shape, dtype = graph.shapes[name], graph.dtypes[name]
    a, b = (builder.in_type(builder.values[read], dtype) for read in node.inputs[:2])
    y = builder.target(name, shape, dtype, None, lambda value: value.is_plain)
    _emit(builder, a, b, y, name)
    builder.deliver(name, y)


def _emit(builder: Builder, a: Value, b: Value, y: Value, name: str) -> None:
    e = y.dtype.itemsize
    kind = name_of(y.dtype)
    permitted = kind
    if kind == "bf16":
        permitted = fastest_kind(*_sizes(a.shape, b.shape))
    found = _product(a, b, kind, permitted)
    while isinstance(found, str):
        # An operand with strides that no loop walks is copied.
        if found == "a":
            a = builder.contiguous(a)
        elif found == "b":
            b = builder.contiguous(b)
        else:
            rank = len(b.shape)
            b = builder.contiguous(b, (*range(rank - 2), rank - 1, rank - 2))
        found = _product(a, b, kind, permitted)
    threads = builder.settings.threads
    problems = [option.problem for option in found.options]
    index, plan, fields = planner.make_cheapest_plan(problems, threads=threads)
    option = found.options[index]
    prepared = Prepared(option.problem, plan, fields, planner.share(threads))
    packed = builder.new((prepared.packed_bytes,), np.dtype(np.uint8))
    activation = PlannedActivation(Activation("none"), plan.numerics.bias)
    for at_a, at_b, at_y in option.offsets:
        x = a.viewed(a.shape, a.strides, at_a * e)
        w = b.viewed(b.shape, b.strides, at_b * e)
        if option.swapped:
            x, w = w, x
        out = y.viewed(y.shape, y.strides, at_y * e)
        builder.emit(Step(
            prepared.pack_work(), [w], [packed], {"arrays": [packed, w]}, "Pack", [name],
            str(option.problem),
        ))  # fmt: skip
        places = {
            "x": x, "y": out, "residual": None, "weights": packed, "bias": None,
            "activation": activation,
        }  # fmt: skip
        p = option.problem
        builder.emit(Step(
            prepared, [x, packed], [out], places, "MatMul", [name], f"{plan.kernel}, {p}",
            flops=2 * p.m * p.n * p.k * p.images * p.groups,
        ))  # fmt: skip


def prices_of_types(node: Node, graph: Graph) -> ProductPrices | None:
    """Estimate the cycles of all products of a MatMul of float32; None if they stay float32."""
    a, b = (graph.shapes[name] for name in node.inputs[:2])
    m, n, k = _sizes(a, b)
    if graph.dtypes[node.outputs[0]] != np.float32 or not serves_product(node, graph):
        return None
    found = prices_of_product(m, n, k)
    times = math.prod(graph.shapes[node.outputs[0]]) / (m * n)
    return found and ProductPrices(times * found.single, times * found.narrow)


def _sizes(a: Shape, b: Shape) -> tuple[int, int, int]:
    """Rows and columns of one product, and the terms of its sums."""
    return a[-2] if len(a) > 1 else 1, b[-1] if len(b) > 1 else 1, a[-1]


def _product(a: Value, b: Value, kind: str, permitted: str) -> matrices.Product | str:
    e = a.dtype.itemsize
    strides = [tuple(s // e for s in value.strides) for value in (a, b)]
    narrow = kind == "bf16"
    found = matrices.product_of(
        a.shape, strides[0], b.shape, strides[1], kind, (permitted,), may_swap=not narrow,
        may_read=False,
    )  # fmt: skip
    if isinstance(found, str):
        return found
    # Products of bfloat16 read pairs of neighbours in rows.
    in_columns = narrow and not found.options[0].problem.a_in_rows
    if in_columns or len(found.options[0].offsets) > MOST_PRODUCTS:
        return "a" if in_columns or not a.is_plain else found
    return found

"""Products of two computed matrices: a step packs the second in each run."""

from __future__ import annotations

import math

import numpy as np

from ... import planner
from ...arguments.activation import Activation
from ...memory.dtypes import NAMES
from ...ops import matrices
from ...ops.prepared import Activation as PlannedActivation
from ...ops.prepared import Prepared
from ..builder import Builder
from ..nodes import Graph, Node
from ..storage import Step, Value
from .elementwise_steps import NATIVE

# Batches that one problem cannot cover become separate problems of two steps each.
MOST_PRODUCTS = 64


def serves_product(node: Node, graph: Graph) -> bool:
    """Whether a MatMul has elements of our types, and is not empty."""
    a, b = (graph.shapes[name] for name in node.inputs[:2])
    return (
        graph.dtypes[node.outputs[0]] in NATIVE
        and graph.dtypes[node.inputs[0]] == graph.dtypes[node.inputs[1]]
        and min(len(a), len(b)) > 0
        and a[-1] > 0
        and math.prod(graph.shapes[node.outputs[0]]) > 0
    )


def lower_product(node: Node, builder: Builder, graph: Graph) -> None:
    """MatMul, as NumPy's `matmul` computes it."""
    name = node.outputs[0]
    shape, dtype = graph.shapes[name], graph.dtypes[name]
    a, b = (builder.values[read] for read in node.inputs[:2])
    y = builder.target(name, shape, dtype, None, lambda value: value.is_plain)
    _emit(builder, a, b, y, name)
    builder.deliver(name, y)


def _emit(builder: Builder, a: Value, b: Value, y: Value, name: str) -> None:
    e = y.dtype.itemsize
    kind = NAMES[y.dtype]
    found = _product(a, b, kind)
    while isinstance(found, str):
        # An operand with strides that no loop walks is copied.
        if found == "a":
            a = builder.contiguous(a)
        elif found == "b":
            b = builder.contiguous(b)
        else:
            rank = len(b.shape)
            b = builder.contiguous(b, (*range(rank - 2), rank - 1, rank - 2))
        found = _product(a, b, kind)
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


def _product(a: Value, b: Value, kind: str) -> matrices.Product | str:
    e = a.dtype.itemsize
    strides = [tuple(s // e for s in value.strides) for value in (a, b)]
    found = matrices.product_of(
        a.shape, strides[0], b.shape, strides[1], kind, (kind,), may_swap=True, may_read=False
    )
    if not isinstance(found, str) and len(found.options[0].offsets) > MOST_PRODUCTS:
        return "a" if not a.is_plain else found
    return found

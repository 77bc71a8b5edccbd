"""Results written straight to their destination: an output, or a part of a Concat."""

from __future__ import annotations

from ..builder import Builder
from ..nodes import Graph
from ..storage import strides_of
from .movement import parts
from .table import row_of
from .table_row import View

__all__ = ["plan_concats", "plan_views"]


def plan_views(graph: Graph, builder: Builder) -> None:
    """Write results that are only reshaped straight into the output."""
    made = {name for node in graph.nodes for name in node.outputs}
    for node in reversed(graph.nodes):
        if row_of(node.op).view is not View.RESHAPED:
            continue
        wanted, source = builder.wanted.get(node.outputs[0]), node.inputs[0]
        if wanted is None or source not in made or source in builder.wanted:
            continue
        if wanted.is_plain and wanted.dtype == builder.stored(source, graph.dtypes[source]):
            shape = graph.shapes[source]
            strides = strides_of(shape, wanted.dtype.itemsize)
            builder.wanted[source] = wanted.viewed(shape, strides)


def plan_concats(graph: Graph, builder: Builder) -> None:
    """Write results straight to their part of a Concat.

    An input can be written there if it is computed, is a part of one Concat, and is no view.
    """
    made = {name: node for node in graph.nodes for name in node.outputs}
    for node in reversed(graph.nodes):
        if node.op != "Concat":
            continue
        name = node.outputs[0]
        shape, dtype = graph.shapes[name], builder.stored(name, graph.dtypes[name])
        if name not in builder.wanted:
            builder.wanted[name] = builder.new(shape, dtype, builder.order(name, len(shape)))
        for part, place in parts(node, graph, builder.wanted[name]):
            maker = made.get(part)
            if maker is None or part in builder.wanted or row_of(maker.op).view is not View.NO:
                continue
            if builder.stored(part, graph.dtypes[part]) != place.dtype:
                continue
            builder.wanted[part] = place

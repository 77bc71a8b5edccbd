"""The golden file of the values that six networks store as bfloat16, at prices set here.

``python -m tests.network.golden_narrow_values`` writes it anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np

from pplconv.memory.array_like import bfloat16_dtype
from pplconv.network import narrow_storage
from pplconv.network.attention import Attention, with_attention
from pplconv.network.fusion import chains
from pplconv.network.loading import load
from pplconv.network.narrow_storage import TypePrices, in_narrow_type, seen_as
from pplconv.network.nodes import Graph, Node, graph_of
from pplconv.network.operators.brain_products import ProductPrices
from pplconv.network.operators.either_type import takes_either_type
from pplconv.network.preparing import prepare, specialize
from tests.network.small_models import arithmetic, attention, classifier, detector, grouped, old

GOLDEN = Path(__file__).with_name("narrow_values.txt")
NETWORKS = (arithmetic, attention, classifier, detector, grouped, old)


def prices_of(graph: Graph, node: Node | Attention) -> TypePrices | ProductPrices | None:
    """Price the products of a core whose products of bfloat16 are twice as fast.

    Conversions take a cycle for eight numbers.
    """
    if isinstance(node, Attention):
        return twice_as_fast(graph, node.product, node.sums)
    if not takes_either_type(node, graph):
        return twice_as_fast(graph, node) if node.op == "MatMul" else None
    before, after = (math.prod(graph.shapes[name]) for name in (node.inputs[0], node.outputs[0]))
    products = after * math.prod(graph.shapes[node.inputs[1]][1:]) / 32
    single = products + before / 8
    return TypePrices(single, single - before / 8, single + after / 8)


def twice_as_fast(graph: Graph, *nodes: Node) -> ProductPrices:
    """Price products of computed matrices, 32 numbers a cycle."""
    single = sum(
        math.prod(graph.shapes[node.outputs[0]]) * graph.shapes[node.inputs[0]][-1] / 32
        for node in nodes
    )
    return ProductPrices(single, single / 2)


def lines() -> Iterator[str]:
    """Yield a line for each value that is stored as bfloat16, on demand and where cheaper."""
    single, brain = np.dtype(np.float32), bfloat16_dtype()
    planner = mock.Mock()
    planner.converting_cycles = lambda count: 100 + count / 4
    planner.narrowing_cycles = lambda count, converted: count * (converted / 16 - 1 / 8)
    for make in NETWORKS:
        small = make()
        shapes = {name: array.shape for name, array in small.feed.items()}
        graph = graph_of(specialize(prepare(load(small.model)).model, shapes).model)
        narrow = seen_as(graph, [single], brain)
        items = with_attention(chains(graph)[0], graph)
        for demanded in (True, False):
            with mock.patch.multiple(narrow_storage, planner=planner, FEW=0):
                found = in_narrow_type(
                    graph, narrow, items, partial(prices_of, graph), demanded=demanded
                )
            word = "low_bf16" if demanded else "low"
            for node in graph.nodes:
                for name in node.outputs:
                    if name in found:
                        yield f"{make.__name__} {word}: {node.op} {name}"


if __name__ == "__main__":
    GOLDEN.write_text("".join(f"{line}\n" for line in lines()), encoding="utf-8")

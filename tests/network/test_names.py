"""Names that values and nodes get where two have the same: those of `onnx_ir`'s own pass."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
import pytest
from onnx_ir.passes.common import NameFixPass

from pplconv.network.names import have_unique_names, mend_names

pytestmark = pytest.mark.unemulated("reads and rewrites graphs, which no machine changes")

# Few, so that many values share one; "v" and "node" are what values and nodes without one are
# called, and "a_1" is what a second "a" is called.
NAMES = ("a", "b", "a_1", "v", "v_2", "node", "", None)


def drawn_graph(rng: np.random.Generator, depth: int) -> ir.Graph:
    """Draw a graph whose values and nodes share names."""

    def name() -> str | None:
        return NAMES[rng.integers(len(NAMES))]

    names = iter("cdefgh")
    inputs = [ir.Value(name=each) for each in ("x", "a")[: rng.integers(3)]]
    constants = [
        ir.Value(name=next(names), const_value=ir.tensor(np.float32([1.0])))
        for _ in range(1 + rng.integers(2))
    ]
    values, nodes = [*inputs, *constants], []
    for _ in range(6):
        operands = [values[i] for i in rng.integers(len(values), size=rng.integers(1, 3))]
        attributes = []
        if depth and not rng.integers(3):
            inner = [drawn_graph(rng, depth - 1) for _ in range(2)]
            attributes = [
                ir.AttrGraph("then_branch", inner[0]),
                ir.AttrGraph("else_branch", inner[1]),
            ]
        node = ir.Node(
            "", "If" if attributes else "Relu", operands, attributes,
            num_outputs=int(rng.integers(1, 3)), name=name(),
        )  # fmt: skip
        for value in node.outputs:
            value.name = name()
        values += node.outputs
        nodes.append(node)
    return ir.Graph(inputs, values[-2:], nodes=nodes, initializers=constants)


def all_names(graph: ir.Graph) -> Iterator[object]:
    """Give every name in a graph, in order."""
    for value in (*graph.inputs, *graph.outputs):
        yield value.name
    for key, value in graph.initializers.items():
        yield key, value.name
    for node in graph:
        yield node.name
        for value in (*node.inputs, *node.outputs):
            yield None if value is None else value.name
        for attribute in node.attributes.values():
            yield from all_names(attribute.as_graph())


@pytest.mark.parametrize("seed", range(40))
def test_names_are_those_of_the_pass_of_others(seed):
    found, expected = (
        ir.Model(drawn_graph(np.random.default_rng(seed), 2), ir_version=10) for _ in range(2)
    )
    assert not have_unique_names(found.graph)
    mend_names(found)
    NameFixPass()(expected)
    assert [*all_names(found.graph)] == [*all_names(expected.graph)]

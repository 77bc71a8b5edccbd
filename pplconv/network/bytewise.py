"""Chains that map one byte to one byte, as tables of 256 results.

A chain of element-wise nodes between a DequantizeLinear and a QuantizeLinear is a function of one
byte, if it reads one array. The chain's own loops compute its table from all 256 bytes, so the bits
are equal. If a product of integers stores the chain's input, and nothing else reads that input, the
product looks its results up in the table before it stores them. Chains that together map one byte
to one byte, with bytes between them, become one: x times the quantized sigmoid of x.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from .._records import record
from ..ops.program import Program
from . import arena
from .builder import Builder
from .fused_nodes import DOMAIN
from .fusion import Chain, Written, written
from .integer_nodes import STORING
from .integers import RANGES
from .nodes import Graph, Node
from .operators.elementwise_steps import Stream, emit_outputs
from .plan_settings import Settings
from .storage import Array, Buffer, Value, constant_value, place_of

__all__ = ["joined", "table_of", "with_tables"]

_BYTES = 256
_PRODUCTS = tuple(f"{DOMAIN}.{name}" for name in STORING)


@record(eq=False)
class _Joined(Chain):
    """Chains that together are a function of one byte: the last one gives the result."""

    parts: list[Chain]

    @property
    def kind(self) -> str:
        """Kinds of the parts."""
        return "+".join(part.kind for part in self.parts)


def table_of(chain: Chain, graph: Graph, isa: str) -> tuple[str, Array] | None:
    """Give a chain's result for each byte, indexed by the byte as uint8.

    Parameters
    ----------
    chain : Chain
    graph : Graph
        Graph of the chain.
    isa : str
        Instruction set of the kernels that compute the table.

    Returns
    -------
    (str, ndarray of 256 bytes) or None
        The table, behind the name of the array of bytes. None if the chain is not a function of
        one.
    """
    name = _source(chain, graph)
    if name is None:
        return None
    known = {name: np.arange(_BYTES, dtype=np.uint8)}
    for part in _parts(chain):
        known[part.result] = _computed(written(part, graph), known, graph, part.result, isa)
    return name, known[chain.result]


def _parts(chain: Chain) -> list[Chain]:
    return chain.parts if isinstance(chain, _Joined) else [chain]


def _source(chain: Chain, graph: Graph) -> str | None:
    """Name of the one array of bytes that a chain maps element by element, or None."""
    made = {part.result for part in _parts(chain)}
    names = {name for part in _parts(chain) for name in _bytes_read(part, graph) or ("", " ")}
    names -= made
    return names.pop() if len(names) == 1 else None


def _bytes_read(chain: Chain, graph: Graph) -> set[str] | None:
    """Names of the arrays that a chain reads, if they are bytes of the shape of its bytes."""
    program = written(chain, graph)
    names = {name for name, *_ in program.inputs}
    if program.stored is None or not all(pair for *_, pair in program.inputs):
        return None
    stored = all(graph.dtypes[name] in RANGES for name in (*names, chain.result))
    shapes = {graph.shapes[name] for name in (*names, chain.result)}
    return names if stored and len(shapes) == 1 else None


def joined(items: Sequence[Node | Chain], graph: Graph) -> list[Node | Chain]:
    """Join chains of bytes that together are functions of one byte.

    Parameters
    ----------
    items : sequence of Node or Chain
        In an order in which they can run.
    graph : Graph
        Their graph.

    Returns
    -------
    list of Node or Chain
        In such an order.
    """
    found: list[Node | Chain | None] = list(items)
    place: dict[str, int] = {}
    for index, item in enumerate(items):
        if not isinstance(item, Chain):
            continue
        names = _bytes_read(item, graph)
        if not names:
            continue
        # Sorted: the order of parts is that of the items.
        inner = [place[name] for name in names if name in place and _only_in(name, item, graph)]
        parts = [part for at in sorted(inner) for part in _parts(_chain(found[at]))]
        nodes = [node for part in (*parts, item) for node in part.nodes]
        whole: Chain = _Joined(nodes, [*parts, item]) if parts else item
        if _source(whole, graph) is None:
            continue
        for at in inner:
            found[at] = None
        found[index] = whole
        place[item.result] = index
    return [item for item in found if item is not None]


def _chain(item: Node | Chain | None) -> Chain:
    assert isinstance(item, Chain)
    return item


def _computed(
    program: Written, known: Mapping[str, Array], graph: Graph, result: str, isa: str
) -> Array:
    """Run a program on arrays of bytes of its own."""
    dtype = graph.dtypes[result]
    builder = Builder(Settings(threads=1), isa)
    y = Value((_BYTES,), dtype, (1,), Buffer(_BYTES, external=0))
    inputs = [
        Stream(constant_value(known[name].view(graph.dtypes[name])), number, pair)
        for name, number, pair in program.inputs
    ]
    stored = Stream(y, program.result, program.stored)
    emit_outputs(builder, [stored], program.code, inputs, "table", [])
    steps = [
        (step.work, {k: place_of(v) for k, v in step.places.items()}) for step in builder.steps
    ]
    run = Program(steps, arena.arrange(arena.lives(builder.steps)), [_BYTES], 1, 1)
    table = np.empty(_BYTES, np.uint8)
    frame = run.frame()
    try:
        run.run(frame, [table], 0, len(steps))
    finally:
        run.give_back(frame)
    return table


def with_tables(items: Sequence[Node | Chain], graph: Graph, isa: str) -> list[Node | Chain]:
    """Merge chains of bytes into the products whose results they read.

    Parameters
    ----------
    items : sequence of Node or Chain
        In an order in which they can run.
    graph : Graph
        Their graph.
    isa : str
        Instruction set of the kernels that compute tables.

    Returns
    -------
    list of Node or Chain
        In such an order.
    """
    found = joined(items, graph)
    stored = {
        item.outputs[0]: index
        for index, item in enumerate(found)
        if isinstance(item, Node) and item.op in _PRODUCTS
    }
    dropped = set()
    for index, item in enumerate(found):
        name = _source(item, graph) if isinstance(item, Chain) else None
        if name not in stored or not isinstance(item, Chain) or not _may_join(name, item, graph):
            continue
        product, table = found[stored[name]], table_of(item, graph, isa)
        assert isinstance(product, Node) and table is not None
        own = {**product.attributes, "table": table[1], "function": item.kind}
        found[stored[name]] = replace(product, outputs=[item.result], attributes=own)
        dropped.add(index)
    return [item for index, item in enumerate(found) if index not in dropped]


def _may_join(name: str, chain: Chain, graph: Graph) -> bool:
    """Whether only this chain reads a value, and its result has the same type."""
    return _only_in(name, chain, graph) and graph.dtypes[name] == graph.dtypes[chain.result]


def _only_in(name: str, chain: Chain, graph: Graph) -> bool:
    """Whether only this chain reads a value."""
    readers = graph.users.get(name, [])
    return name not in graph.outputs and all(
        any(reader is node for node in chain.nodes) for reader in readers
    )

"""Chains that map one byte to one byte, as tables of 256 results.

A chain of element-wise nodes between a DequantizeLinear and a QuantizeLinear is a function of one
byte, if it reads one array. The chain's own loops compute its table from all 256 bytes, so the bits
are equal. If a product of integers stores the chain's input, and nothing else reads that input, the
product looks its results up in the table before it stores them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..ops.program import Program
from . import arena
from .builder import Builder, Settings
from .fusion import Chain, Written, written
from .integers import RANGES
from .nodes import Graph, Node
from .operators.elementwise_steps import Stream, emit_outputs
from .storage import Array, Buffer, Value, constant_value, place_of

__all__ = ["table_of", "with_tables"]

_BYTES = 256
_PRODUCTS = ("pplconv.QuantizedConv", "pplconv.QuantizedLinear")


def table_of(chain: Chain, graph: Graph, isa: str) -> Array | None:
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
    ndarray of 256 bytes or None
        None if it is not a function of one array of bytes.
    """
    program = written(chain, graph)
    name = _source(chain, program, graph)
    if name is None:
        return None
    x = np.arange(_BYTES, dtype=np.uint8).view(graph.dtypes[name])
    return _computed(program, x, graph.dtypes[chain.result], isa)


def _source(chain: Chain, program: Written, graph: Graph) -> str | None:
    """Name of the one array of bytes that a chain maps element by element, or None."""
    names = {name for name, *_ in program.inputs}
    if program.stored is None or len(names) != 1 or not all(p for *_, p in program.inputs):
        return None
    (name,) = names
    stored = graph.dtypes[name] in RANGES and graph.dtypes[chain.result] in RANGES
    return name if stored and graph.shapes[name] == graph.shapes[chain.result] else None


def _computed(program: Written, x: Array, dtype: np.dtype[np.generic], isa: str) -> Array:
    """Run a program on an array of its own."""
    builder = Builder(Settings(threads=1), isa)
    y = Value((_BYTES,), dtype, (1,), Buffer(_BYTES, external=0))
    inputs = [Stream(constant_value(x), number, pair) for _, number, pair in program.inputs]
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
    found = list(items)
    stored = {
        item.outputs[0]: index
        for index, item in enumerate(found)
        if isinstance(item, Node) and item.op in _PRODUCTS
    }
    dropped = set()
    for index, item in enumerate(found):
        name = _source(item, written(item, graph), graph) if isinstance(item, Chain) else None
        if name not in stored or not isinstance(item, Chain) or not _may_join(name, item, graph):
            continue
        product, table = found[stored[name]], table_of(item, graph, isa)
        assert isinstance(product, Node) and table is not None
        own = {**product.attributes, "table": table, "function": item.kind}
        found[stored[name]] = replace(product, outputs=[item.result], attributes=own)
        dropped.add(index)
    return [item for index, item in enumerate(found) if index not in dropped]


def _may_join(name: str, chain: Chain, graph: Graph) -> bool:
    """Whether only this chain reads a value, and its result has the same type."""
    readers = graph.users.get(name, [])
    return (
        name not in graph.outputs
        and all(any(reader is node for node in chain.nodes) for reader in readers)
        and graph.dtypes[name] == graph.dtypes[chain.result]
    )

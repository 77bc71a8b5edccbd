"""The type of stored values: float32, or bfloat16, in which all steps still compute as float32.

One decision for the whole graph, as for `layouts`. A convolution by known weights, transposed or
not, and a product by a known matrix may read and write either type: the planner prices each.
Element-wise chains convert as they load and store. Products of computed matrices multiply float32
or bfloat16, and both their operands are then of that type; the products of an attention are one
such choice, told by the name of its scores, whose sums are float32 all the same, and its result is
another. All other steps that have loops for bfloat16 read and write one type, and a value is
converted where its maker and a reader differ. The cheapest choice is a minimum cut.

What such a step reads as bfloat16 was rounded once, as it was stored; sums are of float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from .. import planner
from .._records import NamedTuple, record
from ..memory.array_like import bfloat16_dtype
from .attention import Attention, Item
from .fusion import Chain, computed_in
from .min_cut import source_side
from .nodes import Constants, Graph, Node
from .operators.brain_products import ProductPrices, brain_kinds
from .operators.table import row_of
from .operators.table_row import Format, Moves, View

__all__ = ["TypePrices", "brain_type", "in_narrow_type", "seen_as", "served_as"]

SINGLE = np.dtype(np.float32)
# Terminals of the cut: the two types.
_SINGLE, _NARROW = 0, 1
# The price of float32 where bfloat16 is asked for wherever it can be had.
_DEMANDED = 1e15
# Values of fewer numbers stay float32 on demand, too: statistics, whose differences may be small,
# and gates. Half of their memory is little.
FEW = 4096
# Cycles of a vector more, if it is bfloat16 (Zen 4, 2026-11-28): programs convert in registers;
# windows and rows in scratch, on their way in and out; what only moves elements converts nothing.
_LOADED, _STORED = 0.5, 2.5
_IN_SCRATCH = 4.0


class TypePrices(NamedTuple):
    """Cycles of a step by the types of its input and its result, on one thread.

    Parameters
    ----------
    single : float
        Both are float32.
    from_narrow, to_narrow : float
        Only the input, or only the result, is bfloat16.
    """

    single: float
    from_narrow: float
    to_narrow: float


Prices = TypePrices | ProductPrices | None


def brain_type(precision: str) -> np.dtype[Any] | None:
    """Give bfloat16 as NumPy's type, if a network's values may have it on this CPU.

    Parameters
    ----------
    precision : str
        That of a session.

    Returns
    -------
    dtype or None
        None unless products of bfloat16 are permitted, and the CPU has instructions for them.
    """
    if precision not in ("bf16", "low", "low_bf16"):
        return None
    return bfloat16_dtype() if brain_kinds() else None


def seen_as(graph: Graph, dtypes: Sequence[np.dtype[Any]], dtype: np.dtype[Any]) -> Graph:
    """Give the same graph with one type in place of several.

    Operands that are not stored in their node's type (`Row.arrays`), such as the scales of Resize,
    keep theirs.
    """
    apart = {
        name for node in graph.nodes if row_of(node.op).arrays is not None
        for name in node.inputs[row_of(node.op).arrays :]
    }  # fmt: skip
    types = {
        name: dtype if own in dtypes and name not in apart else own
        for name, own in graph.dtypes.items()
    }
    constants = Constants()
    for name in graph.constants:
        constants.add_as(name, graph.constants, name, types[name])
    return replace(graph, dtypes=types, constants=constants, users={})


def served_as(item: Node, graph: Graph) -> bool:
    """Whether loops compute a node in the types that a graph gives to its values."""
    return row_of(item.op).is_served(item, graph)


def in_narrow_type(
    graph: Graph,
    narrow: Graph,
    items: Sequence[Item],
    prices: Callable[[Node | Attention], Prices],
    *,
    demanded: bool,
) -> frozenset[str]:
    """Choose the values that are stored as bfloat16.

    Parameters
    ----------
    graph : Graph
        With all shapes, and ONNX's types.
    narrow : Graph
        The same, with bfloat16 in place of float32.
    items : sequence of Node, Chain or Attention
        Its nodes, element-wise ones and those of attentions joined.
    prices : callable
        Prices of a node whose input and result may differ in type, and of products of computed
        matrices; None for all other nodes, and where products stay float32.
    demanded : bool
        Whether each value that can be bfloat16 is, at whatever price.

    Returns
    -------
    frozenset of str
    """
    return _Cut(graph, narrow, prices, demanded).chosen(items)


@record
class _Cut:
    """The flow network: a node for each value whose type is open."""

    graph: Graph
    narrow: Graph
    prices: Callable[[Node | Attention], Prices]
    demanded: bool
    count: int = 2
    edges: list[tuple[int, int, float]] = field(default_factory=list)
    maker: dict[str, int] = field(default_factory=dict)
    readers: dict[str, set[int]] = field(default_factory=dict)

    def chosen(self, items: Sequence[Item]) -> frozenset[str]:
        """Add all items, and cut."""
        self._keep(self.graph.inputs)
        for item in items:
            self._add(item)
        self._read(self.graph.outputs, _SINGLE)
        for name in self.maker:
            self._price_change(name)
        apart = source_side(self.count, _SINGLE, _NARROW, self.edges)
        return frozenset(name for name, node in self.maker.items() if node not in apart)

    def _add(self, item: Item) -> None:
        """Add the types that an item reads and writes."""
        if isinstance(item, Chain):
            self._add_chain(item)
            return
        if isinstance(item, Attention):
            self._add_attention(item)
            return
        reads = [name for name in item.inputs if name and name not in self.graph.constants]
        outputs = [name for name in item.outputs if name]
        row = row_of(item.op)
        found = self.prices(item)
        if isinstance(found, ProductPrices):
            own = self._open(outputs, _STORED)
            self._choose(own, found.narrow - found.single)
            self._read_as(reads, own, 0.0)
        elif found is not None:
            own = self._open(outputs, 0.0)
            self._price(reads[0], found.from_narrow - found.single)
            self._choose(own, found.to_narrow - found.single)
            self._read(reads[1:], own)
        elif row.view is not View.NO and reads and reads[0] in self.maker:
            self.maker.update(dict.fromkeys(outputs, self.maker[reads[0]]))
        elif self._widens(item, outputs) and self._is_narrow_too(item, outputs):
            self._keep(outputs)
            for name in reads:
                self._price_pass(name, _IN_SCRATCH)
        elif self._is_narrow_too(item, outputs):
            converted = 0.0 if row.moves is not Moves.NOTHING else _IN_SCRATCH
            own = self._open(outputs, converted)
            self._read_as(reads, own, converted)
        else:
            self._read(reads, _SINGLE)
            self._keep(outputs)

    def _add_chain(self, chain: Chain) -> None:
        """Add a chain: one that computes float32 reads and writes either type."""
        if computed_in(chain, self.graph) != SINGLE:
            self._read(chain.inputs(), _SINGLE)
            self._keep([chain.result])
            return
        self._open([chain.result], _STORED)
        for name in chain.inputs():
            self._price_pass(name, _LOADED)

    def _add_attention(self, attention: Attention) -> None:
        """Add an attention: its products, its result, and what is read a score at a time."""
        product, sums = attention.product, attention.sums
        operands, result = [*product.inputs, sums.inputs[1]], sums.outputs[0]
        others = [name for name in attention.shapes if name not in self.graph.constants]
        if self.graph.dtypes[result] != SINGLE:
            self._read([*operands, *others], _SINGLE)
            return
        for name in others:
            self._price_pass(name, _LOADED)
        found = self.prices(attention)
        if not isinstance(found, ProductPrices):
            self._open([result], _IN_SCRATCH)
            for name in operands:
                self._price_pass(name, _IN_SCRATCH)
            return
        own = self._new(product.outputs)
        self._choose(own, found.narrow - found.single)
        self._read_as([name for name in operands if name not in self.graph.constants], own, 0.0)
        self._open([result], _STORED)

    def _widens(self, node: Node, outputs: list[str]) -> bool:
        """Whether a node gives float32, and its loops read bfloat16 all the same."""
        row = row_of(node.op)
        returned = not set(outputs).isdisjoint(self.graph.outputs)
        return row.format is Format.SUMS or (row.widens and returned)

    def _is_narrow_too(self, node: Node, outputs: list[str]) -> bool:
        """Whether loops compute a node in bfloat16 as well as in float32."""
        if node.op.startswith("pplconv."):
            return False  # of integers, or a conversion
        types = {self.graph.dtypes[name] for name in (*node.inputs, *outputs) if name}
        floats = {dtype for dtype in types if dtype.kind == "f"}
        stored = all(self.graph.dtypes[name] == SINGLE for name in outputs)
        return stored and floats == {SINGLE} and served_as(node, self.narrow)

    def _keep(self, names: Sequence[str]) -> None:
        """Say that values are float32, as their makers give them."""
        self.maker.update((name, _SINGLE) for name in names if self.graph.dtypes[name] == SINGLE)

    def _open(self, outputs: list[str], converted: float) -> int:
        """Give the results of a step one type, which is open unless the network returns one.

        Their stores take `converted` cycles more for a vector of bfloat16.
        """
        if not set(outputs).isdisjoint(self.graph.outputs):
            self._keep(outputs)
            return _SINGLE
        own = self._new(outputs)
        for name in outputs:
            self._price_pass(name, converted)
        return own

    def _new(self, outputs: Sequence[str]) -> int:
        """Give results a type of their own; on demand it is bfloat16 unless they are few."""
        own = self.count
        self.count += 1
        self.maker.update((name, own) for name in outputs if self.graph.dtypes[name] == SINGLE)
        few = sum(math.prod(self.graph.shapes[name]) for name in outputs) < FEW
        if few:
            self._choose(own, 1.0)
        elif self.demanded and not self._is_only_summed(outputs):
            self._choose(own, -_DEMANDED)
        return own

    def _is_only_summed(self, names: Sequence[str]) -> bool:
        """Whether values are only read by sums, whose differences may be small: variances."""
        readers = [node for name in names for node in self.graph.users.get(name, ())]
        return all(row_of(node.op).format is Format.SUMS for node in readers)

    def _price_pass(self, name: str, converted: float) -> None:
        """Price one pass over a value, whose vectors take `converted` cycles more as bfloat16."""
        if name in self.maker:
            self._price_step(self.maker[name], name, converted)

    def _price_step(self, node: int, name: str, converted: float) -> None:
        """Price the same for a step whose type decides that of the value."""
        count = math.prod(self.graph.shapes[name])
        self._choose(node, planner.narrowing_cycles(count, converted))

    def _price(self, name: str, more: float) -> None:
        """Say how much more a step takes if a value is bfloat16."""
        if name in self.maker:
            self._choose(self.maker[name], more)

    def _choose(self, node: int, more: float) -> None:
        if node == _SINGLE:
            return
        if more > 0:
            self.edges.append((_SINGLE, node, more))
        elif more < 0:
            self.edges.append((node, _NARROW, -more))

    def _read_as(self, names: Sequence[str], by: int, converted: float) -> None:
        """Say that a step reads values in its own type, and price its pass over them."""
        self._read(names, by)
        for name in names:
            self._price_step(by, name, converted)

    def _read(self, names: Sequence[str], by: int) -> None:
        for name in names:
            self.readers.setdefault(name, set()).add(by)

    def _price_change(self, name: str) -> None:
        """Add the price of a conversion of a value, paid once for all its readers."""
        maker = self.maker[name]
        others = [reader for reader in self.readers.get(name, ()) if reader != maker]
        if not others:
            return
        cycles = planner.converting_cycles(math.prod(self.graph.shapes[name]))
        narrow, single = self.count, self.count + 1
        self.count += 2
        self.edges += [(maker, narrow, cycles), (single, maker, cycles)]
        for reader in others:
            self.edges += [(narrow, reader, math.inf), (reader, single, math.inf)]

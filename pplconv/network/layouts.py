"""How images lie inside a network: channels beside one another (NHWC), or in planes (NCHW).

One decision for the whole graph. Each convolution has a price in either layout, from the planner's
cost model; where a value's maker and a reader differ, the change has one. With two layouts the
cheapest choice is a minimum cut (Greig, Porteous and Seheult, "Exact maximum a posteriori
estimation for binary images", 1989), whatever branches and joins the graph has.

Prices are those of one thread, so that the choice, and with it the bits of the result, is the same
for any team. Blocks of channels (NCHWc) are no choice: their convolutions cost as much as NHWC's or
more, as pixels of whole vectors lie alike in both, and all other steps would need loops for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .fusion import Chain
from .min_cut import source_side
from .nodes import Graph, Node
from .operators import OPERATORS
from .operators.movement import RESHAPED
from .operators.rows import KINDS

__all__ = ["in_planes"]

# The model errs by some percent; a layout that wins by less is not worth a change.
CLEAR = 1.15
CONVOLUTIONS = ("Conv", "pplconv.Conv")
# Parts of images, and images in another type, which lie as the whole does.
PARTS = ("Identity", "Slice", "Split", "pplconv.Reformat")
# What reads images however they lie.
INDIFFERENT = {*KINDS, "DepthToSpace", "Expand", "Gather", "SpaceToDepth", "Transpose"}

Prices = tuple[float, float]
# Nodes of the cut that stand for the layouts themselves.
_PLANES, _PIXELS = 0, 1


@dataclass
class _Network:
    """The network of the cut: which node each value hangs on, and who reads it."""

    count: int = 2
    edges: list[tuple[int, int, float]] = field(default_factory=list)
    maker: dict[str, int] = field(default_factory=dict)
    readers: dict[str, set[int]] = field(default_factory=dict)

    def node(self) -> int:
        self.count += 1
        return self.count - 1

    def read(self, names: Sequence[str], by: int) -> None:
        for name in names:
            self.readers.setdefault(name, set()).add(by)

    def price_change(self, name: str, cycles: float) -> None:
        """A change of a value is paid once, whoever reads it."""
        maker = self.maker[name]
        others = [reader for reader in self.readers.get(name, ()) if reader != maker]
        if not others or cycles <= 0:
            return
        pixels, planes = self.node(), self.node()
        self.edges += [(maker, pixels, cycles), (planes, maker, cycles)]
        for reader in others:
            self.edges += [(pixels, reader, math.inf), (reader, planes, math.inf)]


def in_planes(
    graph: Graph,
    items: Sequence[Node | Chain],
    prices: Callable[[Node], Prices],
    change: Callable[[str], float],
) -> frozenset[str]:
    """Choose the values that are computed in planes.

    Parameters
    ----------
    graph : Graph
        With all shapes.
    items : sequence of Node or Chain
        Its nodes, element-wise ones joined.
    prices : callable
        Cycles of a convolution of ours beside pixels and in planes; infinite where it cannot be.
    change : callable
        Cycles of bringing a value from one layout to the other.

    Returns
    -------
    frozenset of str
        Names of images whose makers write planes. What is not named lies as its maker has it.
    """
    network = _Network()
    chosen: dict[str, int] = {}
    for name in graph.inputs:
        network.maker[name] = _PLANES
    for item in items:
        _add(item, graph, network, chosen, prices)
    network.read(graph.outputs, _PLANES)
    for name in network.maker:
        shape = graph.shapes[name]
        if len(shape) == 4 and shape[1] > 1 and shape[2] * shape[3] > 1:
            network.price_change(name, change(name))
    # Those that win nothing are not among them.
    apart = source_side(network.count, _PLANES, _PIXELS, network.edges)
    return frozenset(name for name, node in chosen.items() if node in apart)


def _add(
    item: Node | Chain,
    graph: Graph,
    network: _Network,
    chosen: dict[str, int],
    prices: Callable[[Node], Prices],
) -> None:
    """Say for a node or a chain what it reads and writes in which layout."""
    if isinstance(item, Chain):
        chosen[item.result] = network.maker[item.result] = own = network.node()
        whole = graph.shapes[item.result]
        # What is repeated is small, or changes nothing.
        network.read([name for name in item.inputs() if graph.shapes[name] == whole], own)
        return
    served = item.op in OPERATORS and OPERATORS[item.op].serves(item, graph)
    images = [name for name in item.inputs if name and name not in graph.constants]
    if served and item.op in CONVOLUTIONS:
        chosen[item.outputs[0]] = network.maker[item.outputs[0]] = own = network.node()
        network.read(images, own)
        pixels, planes = prices(item)
        planes *= CLEAR
        least = min(pixels, planes)
        network.edges += [(_PLANES, own, pixels - least), (own, _PIXELS, planes - least)]
    elif served and item.op == "Concat":
        chosen[item.outputs[0]] = network.maker[item.outputs[0]] = own = network.node()
        network.read(images, own)
    elif served and item.op in PARTS:
        for name in item.outputs:
            if name and images and images[0] in network.maker:
                network.maker[name] = network.maker[images[0]]
    elif served and item.op in RESHAPED:
        network.read(images, _PLANES)
        network.maker[item.outputs[0]] = _PLANES
    elif served and item.op in INDIFFERENT:
        pass
    elif served:
        network.read(images, _PIXELS)
        network.maker.update((name, _PIXELS) for name in item.outputs if name)
    else:
        # In Python they lie as they may; what it gives is plain.
        network.maker.update((name, _PLANES) for name in item.outputs if name)

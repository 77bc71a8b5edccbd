"""The layout of images inside a network: channels last (NHWC) or in planes (NCHW).

One decision for the whole graph. Each convolution has a price in either layout, from the planner's
cost model. A change of layout between a producer and a reader has a price, too. With two layouts
the cheapest choice is a minimum cut (Greig, Porteous and Seheult, "Exact maximum a posteriori
estimation for binary images", 1989), whatever branches and joins the graph has.

Prices are those of one thread, so that the choice, and with it the bits of the result, is the same
for any team. Blocks of channels (NCHWc) are no candidate: their convolutions cost as much as NHWC's
or more, since both keep whole vectors of a pixel together, and all other steps would need loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field

from .._records import record
from .fusion import Chain
from .min_cut import source_side
from .nodes import Graph, Node
from .operators.movement import keeps_images
from .operators.table import row_of
from .operators.table_row import Layout, View

__all__ = ["in_planes"]

# The cost model errs by some percent, so a smaller gain is not worth a change of layout.
CLEAR = 1.15

Prices = tuple[float, float]
# Terminals of the cut: the two layouts.
_PLANES, _PIXELS = 0, 1


@record
class _Network:
    """The flow network of the cut: the node of each value, and its readers.

    `turned` names values of three dimensions that lie as rows of pixels: matrices behind a
    Transpose of their last two dimensions. An image that is a Reshape of one lies in pixels.
    """

    count: int = 2
    edges: list[tuple[int, int, float]] = field(default_factory=list)
    maker: dict[str, int] = field(default_factory=dict)
    readers: dict[str, set[int]] = field(default_factory=dict)
    turned: set[str] = field(default_factory=set)

    def node(self) -> int:
        self.count += 1
        return self.count - 1

    def read(self, names: Sequence[str], by: int) -> None:
        for name in names:
            self.readers.setdefault(name, set()).add(by)

    def price_change(self, name: str, cycles: float) -> None:
        """Add the price of a change of a value, paid once for all its readers."""
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
        Cycles of a fused convolution in NHWC and in planes; infinite if it cannot run so.
    change : callable
        Cycles of a value's change from one layout to the other.

    Returns
    -------
    frozenset of str
        Names of images whose producers write planes. Other values keep their producers' layout.
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
    # Values without a gain are left out.
    apart = source_side(network.count, _PLANES, _PIXELS, network.edges)
    return frozenset(name for name, node in chosen.items() if node in apart)


def _add(
    item: Node | Chain,
    graph: Graph,
    network: _Network,
    chosen: dict[str, int],
    prices: Callable[[Node], Prices],
) -> None:
    """Add the layouts that a node or a chain reads and writes."""
    if isinstance(item, Chain):
        chosen[item.result] = network.maker[item.result] = own = network.node()
        whole = graph.shapes[item.result]
        if any(name in network.turned for name in item.inputs() if graph.shapes[name] == whole):
            network.turned.add(item.result)
        # Broadcast operands are small, or independent of layout.
        network.read([name for name in item.inputs() if graph.shapes[name] == whole], own)
        return
    row = row_of(item.op)
    # Steps in Python read any layout, and write NCHW.
    layout = row.layout if row.is_served(item, graph) else Layout.PYTHON
    if row.view is View.RESHAPED and keeps_images(item, graph):
        layout = Layout.KEPT
    if row.view is View.STRIDED and _turns_rows(item) and item.inputs[0] not in network.turned:
        network.turned.update(item.outputs)
    if row.view is View.RESHAPED and _moves_rows(item, graph, network):
        layout = Layout.PIXELS
    images = [name for name in item.inputs if name and name not in graph.constants]
    outputs = [name for name in item.outputs if name]
    if layout in (Layout.PRICED, Layout.FREE):
        chosen[outputs[0]] = network.maker[outputs[0]] = own = network.node()
        network.read(images, own)
        if layout is Layout.PRICED:
            pixels, planes = prices(item)
            planes *= CLEAR
            least = min(pixels, planes)
            network.edges += [(_PLANES, own, pixels - least), (own, _PIXELS, planes - least)]
    elif layout is Layout.KEPT:
        if images and images[0] in network.maker:
            network.maker.update(dict.fromkeys(outputs, network.maker[images[0]]))
    elif layout in (Layout.PLANES, Layout.PIXELS):
        side = _PLANES if layout is Layout.PLANES else _PIXELS
        network.read(images, side)
        network.maker.update(dict.fromkeys(outputs, side))
    elif layout is Layout.PYTHON:
        network.maker.update(dict.fromkeys(outputs, _PLANES))


def _moves_rows(node: Node, graph: Graph, network: _Network) -> bool:
    """Whether a reshape reads or writes images whose pixels are the rows of a matrix."""
    before, after = node.inputs[0], node.outputs[0]
    shapes = graph.shapes[before], graph.shapes[after]
    if sorted(map(len, shapes)) != [3, 4] or shapes[0][:2] != shapes[1][:2]:
        return False
    if len(shapes[0]) == 3:
        return before in network.turned
    readers = graph.users.get(after, ())
    return bool(readers) and after not in graph.outputs and all(map(_turns_rows, readers))


def _turns_rows(node: Node) -> bool:
    """Whether a node exchanges the last two of three dimensions."""
    return node.op == "Transpose" and list(node.attributes.get("perm", ())) == [0, 2, 1]

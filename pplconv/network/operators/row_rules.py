"""Rules by which a node can be cut into bands of rows of its result.

A rule takes a node, its graph and the axis that is cut, 2 or 3. It says which rows of its operands
the node reads for some rows of its result; None if it needs whole images.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..._lazy import functions_later
from ..._records import record
from ..nodes import Graph, Node
from ..resizing import Taps
from . import window_steps
from .convolution import explicit_pads
from .row_reach import SAME, Band, Reach, RowRule, Rows, Scattered, Windows

if TYPE_CHECKING:
    from ...ops.transposed import tap_runs
    from . import integer_windows, transposed_parts
else:
    integer_windows = functions_later(__package__, "integer_windows")
    tap_runs = functions_later(__package__, "..ops.transposed.tap_runs")
    transposed_parts = functions_later(__package__, "transposed_parts")

__all__ = ["joined", "resized", "same", "transposed", "windows"]


@record(frozen=True, eq=False)
class Sampled:
    """Rows of a result are weighted sums of some rows.

    Parameters
    ----------
    taps : Taps
        Rows that are read for each row of the result, and their factors.
    height : int
        Rows of the operand.
    """

    taps: Taps
    height: int

    @property
    def rate(self) -> Fraction:
        """The ratio of the heights."""
        return Fraction(self.height, len(self.taps.at))

    def first(self, row: int) -> int:
        """Give the first row that is read from a row on."""
        return int(self.taps.at[row:].min())

    def end(self, rows: int) -> int:
        """Give the end of the rows that are read."""
        return int(self.taps.at[:rows].max()) + 1

    def repeats(self, begin: int, step: int, turns: int) -> bool:
        """Whether factors and distances are those of the first band."""
        moved = step * self.rate
        if moved.denominator > 1:
            return False
        rows = slice(begin, begin + turns * step)
        at, weights, outside = (
            array[rows].reshape(turns, step, -1)
            for array in (self.taps.at, self.taps.weights, self.taps.outside)
        )
        away = np.arange(turns).reshape(-1, 1, 1) * int(moved)
        return bool(
            (at - away == at[:1]).all() and (weights == weights[:1]).all() and not outside.any()
        )


def _uncut(node: Node, _: Band) -> Node:
    return node


def same(*images: int) -> RowRule:
    """Each row from the same rows of these operands."""

    def rule(node: Node, graph: Graph, _: int) -> Rows | None:
        names = [node.inputs[at] for at in images if at < len(node.inputs) and node.inputs[at]]
        if any(name in graph.constants for name in names):
            return None
        return Rows(dict.fromkeys(names, SAME), _uncut)

    return rule


def joined(node: Node, graph: Graph, _: int) -> Rows | None:
    """Concat of channels."""
    if node.attributes["axis"] % 4 != 1 or any(name in graph.constants for name in node.inputs):
        return None
    return Rows(dict.fromkeys(node.inputs, SAME), _uncut, joins=True)


def windows(*added: int) -> RowRule:
    """Windows of the first operand; `added` are further operands of the result's rows."""

    def rule(node: Node, graph: Graph, axis: int) -> Rows | None:
        own = node.attributes
        kernel = own.get("kernel_shape") or graph.shapes[node.inputs[1]][2:]
        at, x = axis - 2, node.inputs[0]
        stride, dilation = ((own.get(name) or (1, 1))[at] for name in ("strides", "dilations"))
        extent = (int(kernel[at]) - 1) * int(dilation) + 1
        reach = Windows(int(stride), int(explicit_pads(node)[at]), extent)
        if x in graph.constants or (len(node.inputs) > 1 and node.inputs[1] not in graph.constants):
            return None
        reads = _with_added({x: reach}, added, node, graph)
        cut, planned = partial(_cut_windows, at=at), len(node.inputs) > 1
        # A dilated convolution may be computed in parts of every d-th row: tiles of each part begin
        # where they do layer by layer.
        return None if reads is None else Rows(reads, cut, planned, apart=int(dilation))

    return rule


def _with_added(
    reads: dict[str, Reach], added: tuple[int, ...], node: Node, graph: Graph
) -> dict[str, Reach] | None:
    """Add operands of which the result's rows are read; None if one of them is read otherwise."""
    for name in (node.inputs[at] for at in added if at < len(node.inputs)):
        if name and (reads.setdefault(name, SAME) != SAME or name in graph.constants):
            return None
    return reads


def _cut_windows(node: Node, band: Band, at: int) -> Node:
    pads = [int(size) for size in explicit_pads(node)]
    # A window may end beyond the padding, which then does not count there.
    pads[at], pads[at + 2] = band.before, min(band.after, pads[at + 2])
    return replace(node, attributes={**node.attributes, "pads": pads})


def transposed(*added: int) -> RowRule:
    """A transposed convolution; `added` are further operands of the result's rows."""

    def rule(node: Node, graph: Graph, axis: int) -> Rows | None:
        (x, weight), both, at = node.inputs[:2], transposed_parts.axes(node, graph), axis - 2
        if x in graph.constants or weight not in graph.constants or tap_runs.has_many_phases(*both):
            return None
        own = both[at]
        extent = (own.kernel - 1) * own.dilation + 1
        reach = Scattered(own.stride, own.padding, extent, own.inputs)
        reads = _with_added({x: reach}, added, node, graph)

        def cut(node: Node, band: Band) -> Node:
            # The first row that is given adds to rows above the band, too.
            pads = [*explicit_pads(node)]
            pads[at] = own.padding + band.begin - band.first * own.stride
            return replace(node, attributes={**node.attributes, "pads": pads})

        return None if reads is None else Rows(reads, cut, True, apart=own.stride)

    return rule


def resized(node: Node, graph: Graph, axis: int) -> Rows | None:
    """Resize by known scales, one way of height and width at once; rows alone."""
    if axis != 2:
        return None
    if not (window_steps.serves_resize(node, graph) or integer_windows.serves_resize(node, graph)):
        return None
    both = window_steps.resize_taps(node, graph)
    assert both is not None
    height = graph.shapes[node.inputs[0]][2]

    def cut(node: Node, band: Band) -> Node:
        rows = band.begin, band.end, band.first, height
        return replace(node, attributes={**node.attributes, window_steps.ROWS: rows})

    return Rows({node.inputs[0]: Sampled(both[0], height)}, cut)

"""A transposed convolution of large strides: products by runs of taps, copied into place.

`phases` divides a dimension into as many convolutions as its stride, most of which have no tap
where the stride is larger than the kernel. Here the taps are divided. Those below s / gcd(s, d) are
*first* taps: each begins another phase, whose other taps follow at that distance. Neighbouring
first taps whose phases have equally many taps form a *run*: one convolution with a group of output
channels for each first tap. There are at most two runs for any stride. The outputs of a first tap
lie a stride apart; those of the next tap are shifted by the dilation. Outputs that no tap reaches
are left out.

This module handles numbers only, without layouts or memory; networks use it, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._records import record
from .phases import Axis, Span, merged

__all__ = [
    "TapRun",
    "covers",
    "first_taps",
    "has_many_phases",
    "run_kernel",
    "run_parts",
    "tap_runs",
]

Array = npt.NDArray[Any]
# More convolutions than this are not computed one by one.
MANY_PHASES = 64


@record(frozen=True)
class TapRun:
    """First taps whose phases have equally many taps.

    Parameters
    ----------
    axis : Axis
        The dimension.
    first, count : int
        First taps.
    depth : int
        Taps of each phase.
    spans : tuple of Span
        Outputs, by positions of the convolution (``first`` and ``count``) and first taps of the run
        (``place`` and ``places``).
    """

    axis: Axis
    first: int
    count: int
    depth: int
    spans: tuple[Span, ...]

    @property
    def dilation(self) -> int:
        """Inputs from one tap of a phase to the next."""
        return self.axis.dilation // math.gcd(self.axis.stride, self.axis.dilation)

    @property
    def padding(self) -> tuple[int, int]:
        """Zeros around the inputs, so that every output with an input in its window is computed."""
        reach = (self.depth - 1) * self.dilation
        return reach, reach

    @property
    def computed(self) -> int:
        """Positions of the convolution."""
        return self.axis.inputs + self.padding[0]

    @property
    def taps(self) -> Array:
        """Numbers of the taps: by place in their phase, and by first tap."""
        apart = first_taps(self.axis)[1]
        return self.first + np.arange(self.count) + apart * np.arange(self.depth)[:, None]


def has_many_phases(down: Axis, across: Axis) -> bool:
    """Whether there are too many phases to compute them one by one."""
    return down.stride * across.stride > MANY_PHASES


def first_taps(axis: Axis) -> tuple[int, int]:
    """Number of first taps, and the distance between taps of a phase."""
    apart = axis.stride // math.gcd(axis.stride, axis.dilation)
    return min(apart, axis.kernel), apart


def tap_runs(axis: Axis, most: int | None = None) -> list[TapRun]:
    """Divide the taps of a dimension.

    Parameters
    ----------
    axis : Axis
        With at least one output.
    most : int, optional
        First taps of a run; by default any number.

    Returns
    -------
    list of TapRun
        Runs that reach outputs.
    """
    firsts, apart = first_taps(axis)
    depth, longer = divmod(axis.kernel, apart)
    found = []
    for begin, end, taps in ((0, min(longer, firsts), depth + 1), (longer, firsts, depth)):
        for first in range(begin, end, most or max(end - begin, 1)):
            count = min(most or end, end - first)
            spans = tuple(_spans(axis, first, count, taps))
            if spans:
                found.append(TapRun(axis, first, count, taps, spans))
    return found


def _spans(axis: Axis, first: int, count: int, depth: int) -> Iterator[Span]:
    """Join neighbouring first taps whose outputs are at the same positions."""
    s, d = axis.stride, axis.dilation
    reach = (depth - 1) * (d // math.gcd(s, d))
    begin, known = 0, (0, -1)
    for place in range(count + 1):
        # Position i gives the output i s + at.
        at = (first + place) * d - axis.padding
        low = max(-(at // s), 0)
        high = min((axis.outputs - 1 - at) // s, axis.inputs + reach - 1)
        if place < count and (low, high) == known:
            continue
        low_known, high_known = known
        if place > begin and low_known <= high_known:
            output = low_known * s + (first + begin) * d - axis.padding
            yield Span(low_known, high_known - low_known + 1, begin, place - begin, output)
        begin, known = place, (low, high)


def covers(axis: Axis, runs: list[TapRun]) -> bool:
    """Whether runs have all outputs of a dimension."""
    return sum(s.count * s.places for run in runs for s in run.spans) == axis.outputs


def run_kernel(weight: Array, groups: int, down: TapRun, across: TapRun) -> Array:
    """Give the weights of two runs, from top to bottom and from left to right.

    Parameters
    ----------
    weight : ndarray
        Shape (ic, oc / groups, kh, kw).
    groups : int
        Groups of channels.
    down, across : TapRun
        Taps of each dimension.

    Returns
    -------
    ndarray
        Output channels by group, first tap from top to bottom and from left to right, and channel
        of the group; then (ic / groups, down.depth, across.depth).
    """
    return merged(run_parts(weight, groups, down, across))


def run_parts(weight: Array, groups: int, down: TapRun, across: TapRun) -> Array:
    """Give a view of the weights of two runs, whose output channels are four dimensions."""
    ic, own = weight.shape[:2]
    group, out, row, column = weight.strides
    # Taps by place in their phase, and by first tap: both lie a fixed distance apart.
    firsts = weight[:, :, down.first :, across.first :]
    cut = np.lib.stride_tricks.as_strided(
        firsts,
        (groups, ic // groups, own, *down.taps.shape, *across.taps.shape),
        (
            ic // groups * group, group, out, first_taps(down.axis)[1] * row, row,
            first_taps(across.axis)[1] * column, column,
        ),
        writeable=False,
    )  # fmt: skip
    return cut.transpose(0, 4, 6, 2, 1, 3, 5)[..., ::-1, ::-1]

"""A transposed convolution as ordinary ones: which outputs, which taps, which inputs.

An input i adds tap k to output o = i s - p + k d, where s is the stride, p the padding at the
beginning, and d the dilation. So output o sums over the taps for which s divides o + p - k d.
Outputs with the same remainder of o + p have the same taps; as o goes up by s, the inputs that
they see go up by one. These outputs are a *phase*: an ordinary convolution of stride 1 with some
of the taps, turned round. A dimension has as many phases as its stride.

Where s divides the number of taps and d is 1, all remainders see the same inputs. The phases of
such a dimension are then one convolution with s times the output channels: they are *joined*.

This module knows numbers alone, nothing of layouts or memory; networks use it as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from ..._records import record

__all__ = [
    "Axis",
    "Phase",
    "Span",
    "block_phases",
    "joined",
    "joined_kernel",
    "joined_parts",
    "merged",
    "output_length",
    "phase_kernel",
    "phase_parts",
    "phases",
    "phases_with_taps",
    "spans",
    "turned",
    "turned_parts",
]

Array = npt.NDArray[Any]


@record(frozen=True)
class Axis:
    """One dimension of a transposed convolution.

    Parameters
    ----------
    outputs, inputs, kernel : int
        Numbers of outputs, inputs and taps.
    stride, dilation : int
        Outputs from one input to the next, and from one tap to the next.
    padding : int
        Outputs that are cut off at the beginning.
    """

    outputs: int
    inputs: int
    kernel: int
    stride: int
    dilation: int
    padding: int


@record(frozen=True)
class Phase:
    """Outputs of one remainder, or blocks of outputs of all of them, as a convolution of stride 1.

    Parameters
    ----------
    axis : Axis
        The dimension.
    first, count : int
        The first output (or block of outputs, which may begin before the first output), and how
        many there are. The stride lies between them.
    taps : range
        Their taps, none in an empty phase; for blocks those of the first output.
    start : int
        The first input that the first output sees; negative in the padding.
    dilation : int
        Inputs from one tap to the next.
    """

    axis: Axis
    first: int
    count: int
    taps: range
    start: int
    dilation: int

    @property
    def end(self) -> int:
        """The input behind the last that the last output sees."""
        return self.start + self.count + (len(self.taps) - 1) * self.dilation

    @property
    def is_empty(self) -> bool:
        """Whether no output sees any input: all sums are zero."""
        return not self.taps or self.start >= self.axis.inputs or self.end <= 0

    @property
    def seen(self) -> slice:
        """The inputs that it sees."""
        return slice(max(self.start, 0), min(self.end, self.axis.inputs))

    @property
    def padding(self) -> tuple[int, int]:
        """Zeros around the inputs that it sees."""
        return max(-self.start, 0), max(self.end - self.axis.inputs, 0)

    @property
    def computed(self) -> int:
        """Outputs if the convolution takes all inputs, with `padding`; some may be too many."""
        reach = (len(self.taps) - 1) * self.dilation
        return self.axis.inputs + sum(self.padding) - reach

    @property
    def skipped(self) -> int:
        """How many of these come before the first."""
        return max(self.start, 0)


def output_length(
    inputs: int, kernel: int, stride: int, dilation: int, padding: tuple[int, int], more: int
) -> int:
    """Outputs of one dimension; `more` is the ``output_padding``."""
    return (inputs - 1) * stride + (kernel - 1) * dilation + 1 - sum(padding) + more


def phases(axis: Axis) -> list[Phase]:
    """Divide the outputs of a dimension by their remainder.

    Parameters
    ----------
    axis : Axis
        With at least one output.

    Returns
    -------
    list of Phase
        Those that have outputs, in the order of the first one.
    """
    count = axis.outputs + axis.stride - 1
    return [
        _phase(axis, first, (count - first) // axis.stride)
        for first in range(min(axis.stride, axis.outputs))
    ]


def phases_with_taps(axis: Axis) -> list[Phase]:
    """Give those of `phases` that have taps, in a time that does not depend on the stride."""
    firsts = {(tap * axis.dilation - axis.padding) % axis.stride for tap in range(axis.kernel)}
    count = axis.outputs + axis.stride - 1
    return [
        _phase(axis, first, (count - first) // axis.stride)
        for first in sorted(firsts) if first < axis.outputs
    ]  # fmt: skip


def block_phases(axis: Axis) -> list[Phase]:
    """Divide a dimension as `phases`, but into phases of one length.

    Each has an output in each block of `joined`, which may be before the first output or behind
    the last.

    Returns
    -------
    list of Phase
        As many as the stride, by their place in a block.
    """
    first, count = _blocks(axis)
    return [_phase(axis, first + place, count) for place in range(axis.stride)]


def _blocks(axis: Axis) -> tuple[int, int]:
    """The first output of the first block, and how many there are."""
    before = axis.padding // axis.stride
    last = (axis.outputs - 1 + axis.padding) // axis.stride
    return before * axis.stride - axis.padding, last - before + 1


def _phase(axis: Axis, first: int, count: int) -> Phase:
    stride, dilation = axis.stride, axis.dilation
    common = math.gcd(stride, dilation)
    step, apart = stride // common, dilation // common
    remainder = (first + axis.padding) % stride
    if remainder % common:
        return Phase(axis, first, count, range(0), 0, apart)
    # The smallest k with k d = remainder, modulo the stride.
    least = remainder // common * pow(apart, -1, step) % step
    taps = range(least, axis.kernel, step)
    if not taps:
        return Phase(axis, first, count, taps, 0, apart)
    latest = (first + axis.padding - least * dilation) // stride
    return Phase(axis, first, count, taps, latest - (len(taps) - 1) * apart, apart)


def joined(axis: Axis) -> Phase | None:
    """Take all remainders together: blocks of as many outputs as the stride is long.

    The first block may begin before the first output, and the last may end behind the last one.

    Returns
    -------
    Phase or None
        None if not all remainders see the same inputs.
    """
    stride = axis.stride
    if axis.kernel % stride or (stride > 1 and axis.dilation > 1):
        return None
    first, count = _blocks(axis)
    taps = range(0, axis.kernel, stride)
    start = (first + axis.padding) // stride - (len(taps) - 1) * axis.dilation
    return Phase(axis, first, count, taps, start, axis.dilation)


@record(frozen=True)
class Span:
    """Blocks of outputs, and places in each of them, all of which are outputs.

    Parameters
    ----------
    first, count : int
        Blocks.
    place, places : int
        The first place in each, and how many.
    output : int
        The first output.
    """

    first: int
    count: int
    place: int
    places: int
    output: int


def spans(axis: Axis, place: int | None = None) -> list[Span]:
    """List the outputs by the blocks that they are in: whole blocks, and parts at both ends.

    Parameters
    ----------
    axis : Axis
        The dimension.
    place : int, optional
        Of each block only this one.
    """
    begin, count = _blocks(axis)
    found: list[Span] = []
    # Only the first and the last block may be cut.
    for first, blocks in ((0, 1), (1, count - 2), (count - 1, 1 if count > 1 else 0)):
        if blocks < 1:
            continue
        at = begin + first * axis.stride
        low, high = max(-at, 0), min(axis.outputs - at, axis.stride)
        if place is not None:
            low, high = max(low, place), min(high, place + 1)
        if low >= high:
            continue
        last = found[-1] if found else None
        if last is not None and (last.place, last.places) == (low, high - low):
            found[-1] = replace(last, count=last.count + blocks)
        else:
            found.append(Span(first, blocks, low, high - low, at + low))
    return found


def merged(parts: Array) -> Array:
    """Give weights (..., ic / groups, kh, kw) of any parts of the output channels as (oc, ...)."""
    return parts.reshape(-1, *parts.shape[-3:])


def turned(weight: Array, groups: int) -> Array:
    """Give the weights of a transposed convolution as those of an ordinary one of stride 1.

    Parameters
    ----------
    weight : ndarray
        Shape (ic, oc / groups, kh, kw).
    groups : int
        Groups of channels.

    Returns
    -------
    ndarray
        Shape (oc, ic / groups, kh, kw), taps turned round.
    """
    return merged(turned_parts(weight, groups))


def turned_parts(weight: Array, groups: int) -> Array:
    """Give a view (groups, oc / groups, ic / groups, kh, kw) of the weights, as `turned`."""
    ic, oc, kh, kw = weight.shape
    grouped = weight.reshape(groups, ic // groups, oc, kh, kw).transpose(0, 2, 1, 3, 4)
    return grouped[..., ::-1, ::-1]


def phase_kernel(weight: Array, groups: int, down: range, across: range) -> Array:
    """Give the weights of one phase, as `turned`, from its taps in each dimension."""
    return merged(phase_parts(weight, groups, down, across))


def phase_parts(weight: Array, groups: int, down: range, across: range) -> Array:
    """Give a view of the weights of one phase, as `turned_parts`."""
    rows, columns = (slice(taps.start, taps.stop, taps.step) for taps in (down, across))
    return turned_parts(weight[:, :, rows, columns], groups)


def joined_kernel(weight: Array, groups: int, strides: Sequence[int]) -> Array:
    """Give the weights of joined phases.

    Parameters
    ----------
    weight : ndarray
        Shape (ic, oc / groups, kh, kw).
    groups : int
        Groups of channels.
    strides : sequence of int
        How many remainders are joined, vertically and horizontally.

    Returns
    -------
    ndarray
        Shape (groups * sh * sw * oc / groups, ic / groups, kh / sh, kw / sw): channels by group,
        place in the stride from top to bottom and from left to right, and channel of the group.
    """
    return merged(joined_parts(weight, groups, strides))


def joined_parts(weight: Array, groups: int, strides: Sequence[int]) -> Array:
    """Give a view of the weights of joined phases, whose output channels are four dimensions."""
    (sh, sw), (kh, kw) = strides, weight.shape[2:]
    ic, oc = weight.shape[0] // groups, weight.shape[1]
    # The remainder of a tap is its place in the stride.
    cut = weight.reshape(groups, ic, oc, kh // sh, sh, kw // sw, sw)
    return cut.transpose(0, 4, 6, 2, 1, 3, 5)[..., ::-1, ::-1]

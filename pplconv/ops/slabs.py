"""Volumes as images: which depths of a volume make one convolution of images.

A window of kd x kh x kw places is a window of kh x kw pixels with kd times as many channels: those
of kd images of the volume. Outputs whose windows have the same taps inside the volume form a
*slab*. The images that they see, side by side as channels, are a batch of images, and their
convolution is one of images: each sum is one sum, as long as that of the volume. Depths in the
padding are left out, not multiplied by zero.

A transposed convolution is the same, once its outputs are divided by their place in the stride
(`pplconv.ops.transposed.phases`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .._records import NamedTuple
from .transposed.phases import Axis, phases, phases_with_taps

__all__ = ["Slab", "chunks", "convolved_slabs", "depth_first", "kernel", "transposed_slabs"]

Array = npt.NDArray[Any]


class Slab(NamedTuple):
    """Outputs that see the same taps.

    Parameters
    ----------
    outputs : range
        Their depths.
    taps : tuple of int
        Depths of the kernel, in the order of the depths that they meet; empty if they see none.
    start : int
        The depth that the first output sees by its first tap.
    stride, step : int
        Depths from one output to the next, and from one tap to the next.
    """

    outputs: range
    taps: tuple[int, ...]
    start: int
    stride: int
    step: int

    def some(self, first: int, count: int) -> Slab:
        """Give some of its outputs."""
        start = self.start + first * self.stride
        return self._replace(outputs=self.outputs[first : first + count], start=start)

    def tap(self, number: int) -> Slab:
        """Give the same outputs with one of the taps."""
        start = self.start + number * self.step
        return self._replace(taps=self.taps[number : number + 1], start=start)

    def images(self, x: Array, groups: int, layout: str) -> Array:
        """Give the images that the outputs see, with the channels of all taps, group by group.

        Parameters
        ----------
        x : ndarray, shape (N, C, D, H, W) or (N, D, H, W, C)
            Of any strides.
        groups : int
            Groups of channels.
        layout : {"NCDHW", "NDHWC"}
            Of `x`; the images are in NCHW or NHWC.

        Returns
        -------
        ndarray
            N times as many images as outputs; a view where the memory allows it.
        """
        x = depth_first(x, layout)
        n, _, *image = x.shape
        axis = 0 if layout == "NCDHW" else 2
        count, taps, channels = len(self.outputs), len(self.taps), image[axis]
        if not taps:
            return np.zeros((n * count, *image), x.dtype)
        reach, many = (taps - 1) * self.step + 1, (count - 1) * self.stride + 1
        seen = x[:, self.start : self.start + many + reach - 1]
        windows = np.lib.stride_tricks.sliding_window_view(seen, reach, axis=1)
        windows = windows[:, :: self.stride, ..., :: self.step]
        image[axis : axis + 1] = groups, channels // groups
        windows = windows.reshape(n, count, *image, taps)
        windows = np.moveaxis(windows, -1, 3 + axis)
        image[axis : axis + 2] = [channels * taps]
        return windows.reshape(n * count, *image)


def depth_first(volumes: Array, layout: str) -> Array:
    """View volumes as (N, D, C, H, W), or as they are where channels come last."""
    return volumes.transpose(0, 2, 1, 3, 4) if layout == "NCDHW" else volumes


@lru_cache(256)
def convolved_slabs(
    depths: int, outputs: int, taps: int, stride: int, dilation: int, padding: int
) -> tuple[Slab, ...]:
    """Divide the outputs of a convolution.

    Parameters
    ----------
    depths, outputs, taps : int
        Of input, output and kernel.
    stride, dilation : int
        Depths from one output to the next, and from one tap to the next.
    padding : int
        Depths before the first.
    """
    whole = Slab(range(outputs), tuple(range(taps)), -padding, stride, dilation)
    return tuple(_inside(whole, depths))


@lru_cache(256)
def transposed_slabs(
    depths: int, outputs: int, taps: int, stride: int, dilation: int, padding: int
) -> tuple[Slab, ...]:
    """Divide the outputs of a transposed convolution.

    Parameters
    ----------
    depths, outputs, taps : int
        Of input, output and kernel.
    stride, dilation : int
        Outputs from one input to the next, and from one tap to the next.
    padding : int
        Outputs that are cut off at the beginning.
    """
    axis = Axis(outputs, depths, taps, stride, dilation, padding)
    seeing = phases_with_taps(axis)
    firsts = [phase.first for phase in seeing]
    blocks = -(-outputs // stride)
    found: list[Slab] = []
    # Outputs that see no input lie in rows between the others; there may be far fewer rows than
    # phases, whose number is the stride.
    if blocks * (len(firsts) + 1) < min(stride, outputs) - len(firsts):
        for block in range(0, outputs, stride):
            last = min(block + stride, outputs)
            edges = [block - 1, *(block + first for first in firsts if block + first < last), last]
            rows = (range(a + 1, b) for a, b in itertools.pairwise(edges) if b - a > 1)
            found += [Slab(row, (), 0, 1, 1) for row in rows]
    else:
        seeing = phases(axis)
    for phase in seeing:
        own = range(phase.first, outputs, stride)
        whole = Slab(own, tuple(reversed(phase.taps)), phase.start, 1, phase.dilation)
        found += _inside(whole, depths)
    return tuple(found)


def _inside(slab: Slab, depths: int) -> Iterator[Slab]:
    """Leave out the taps that meet no depth, and divide outputs where others remain."""
    count, taps = len(slab.outputs), len(slab.taps)
    edges = {0, count}
    for tap in range(taps):
        at = slab.start + tap * slab.step
        # Its first output, and the one behind its last.
        edges |= {min(max(-(n // slab.stride), 0), count) for n in (at, at - depths)}
    for first, end in itertools.pairwise(sorted(edges)):
        some = slab.some(first, end - first)
        low = min(max(-(some.start // slab.step), 0), taps)
        high = max(min(-((some.start - depths) // slab.step), taps), low)
        yield some._replace(taps=slab.taps[low:high], start=some.start + low * slab.step)


def chunks(slab: Slab, batch: int, most: int) -> Iterator[tuple[slice, Slab]]:
    """Divide the images of a slab into parts that are computed one after the other.

    Parameters
    ----------
    slab : Slab
        The outputs of each volume.
    batch : int
        Number of volumes; an empty batch is one part.
    most : int
        Images of a part, at least 1.

    Yields
    ------
    (slice, Slab)
        Volumes, and their outputs: whole slabs of several volumes, or a part of one. The sizes of
        parts differ by one at most, so that they have few plans.
    """
    count = len(slab.outputs)
    volumes = max(most // count, 1)
    for first in range(0, max(batch, 1), volumes):
        parts = -(-count // most) if volumes == 1 else 1
        ends = [count * part // parts for part in range(parts + 1)]
        for start, end in itertools.pairwise(ends):
            yield slice(first, min(first + volumes, batch)), slab.some(start, end - start)


def kernel(weight: Array, taps: Sequence[int], groups: int, *, transposed: bool = False) -> Array:
    """Give the weights of a slab: taps as channels, as `Slab.images` has them.

    Parameters
    ----------
    weight : ndarray
        Shape (oc, ic / groups, kd, kh, kw), or (ic, oc / groups, kd, kh, kw) if `transposed`.
    taps : sequence of int
        Depths of the kernel. Without any, weights of one tap that are zero.
    groups : int
        Groups of channels.
    transposed : bool, optional
        Whether input channels come first.

    Returns
    -------
    ndarray
        Shape (oc, ic / groups * taps, kh, kw), or (ic * taps, oc / groups, kh, kw).
    """
    if not taps:
        return np.zeros((*weight.shape[:2], *weight.shape[3:]), weight.dtype)
    first, second, _, *pixels = weight.shape
    # `weight[:, :, taps]` would be a copy; taps are evenly spaced.
    step = taps[1] - taps[0] if len(taps) > 1 else 1
    own = np.moveaxis(weight, 2, 0)[taps[0] :: step][: len(taps)]
    if transposed:
        own = own.reshape(len(taps), groups, first // groups, second, *pixels)
        return np.moveaxis(own, 0, 1).reshape(-1, second, *pixels)
    return np.moveaxis(own, 0, 1).reshape(first, -1, *pixels)

"""A filter runs over an image in bands of rows, each of which stays in a core's cache.

The rows of a band are copied, with the pixels that stand beyond the border, into a buffer of the
type that sums have; so no padded copy of the image is made, and integers are converted on the way.
A convolution without padding gives the band's sums, and `Finish` turns them into results.

An image that needs no conversion is not copied: it is convolved where it lies, padded with zeros,
and the outputs that see its border are computed again, from bands of their own.

A row of H x W x C pixels is one row of W * C numbers whose taps are C apart: all channels are
filtered at once, as one plane.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..api.edges import Gather, source_index
from .operators import Bank, Operator

__all__ = ["Finish", "Region", "run"]

Array = npt.NDArray[Any]
# Called with sums (n, rows, columns) that it may overwrite, the band that they are of, and where
# the results go.
Finish = Callable[[Array, Array, Array], None]

# What a band and its sums take together: half of a small L2.
BAND_BYTES = 1 << 19
LEAST_ROWS = 8
# An image is not convolved where it lies if more than this share of its outputs see the border.
LARGEST_SHARE = 0.25


@dataclass(frozen=True)
class Region:
    """Which outputs are wanted, and what lies around the image.

    Parameters
    ----------
    origin : (int, int)
        Row and column of the image at which the first tap of the first output lies; negative where
        it is outside.
    shape : (int, int)
        Rows and columns of the output.
    border : str
        One of `borders.BORDERS`.
    value : float
        Of the constant.
    """

    origin: tuple[int, int]
    shape: tuple[int, int]
    border: str
    value: float = 0.0


def run(
    image: Array, operator: Operator, region: Region, out: Array, finish: Finish | None, team: int
) -> None:
    """Filter an image.

    Parameters
    ----------
    image : ndarray, shape (H, W, C)
        In any strides.
    operator : Operator
        What makes sums of a band.
    region : Region
        What is computed.
    out : ndarray, shape (n, rows, columns, C)
        Written.
    finish : Finish, optional
        Turns sums into results; without it, sums are results.
    team : int
        Threads, at most.
    """
    if not out.size:
        return
    inner = _inner(image, operator, region, out, finish)
    if inner is None:
        _run_bands(image, operator, region, out, finish, team)
        return
    (top, bottom), (left, right) = inner
    _run_whole(image, operator, region, out, team)
    height, width = region.shape
    everything = slice(0, width)
    for rows, columns in (
        (slice(0, top), everything),
        (slice(bottom, height), everything),
        (slice(top, bottom), slice(0, left)),
        (slice(top, bottom), slice(right, width)),
    ):
        shape = rows.stop - rows.start, columns.stop - columns.start
        if min(shape) > 0:
            origin = region.origin[0] + rows.start, region.origin[1] + columns.start
            part = replace(region, origin=origin, shape=shape)
            _run_bands(image, operator, part, out[:, rows, columns], None, team)


def _inner(
    image: Array, operator: Operator, region: Region, out: Array, finish: Finish | None
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Rows and columns of outputs that see no border; None if the image is to go in bands."""
    if finish is not None or not isinstance(operator, Bank):
        return None
    if not image.dtype == operator.dtype == out.dtype:
        return None
    if not all(array.flags.c_contiguous and array.flags.aligned for array in (image, out)):
        return None
    found = []
    for origin, count, size, taps in zip(
        region.origin, region.shape, image.shape[:2], operator.extent, strict=True
    ):
        last = origin + count + taps - 1 - size
        if origin > 0 or last < 0:
            return None
        found.append((min(-origin, count), count - min(last, count)))
    inside = [max(end - begin, 0) for begin, end in found]
    if inside[0] * inside[1] < (1 - LARGEST_SHARE) * region.shape[0] * region.shape[1]:
        return None
    return found[0], found[1]


def _run_whole(image: Array, operator: Operator, region: Region, out: Array, team: int) -> None:
    """Filter an image with zeros around it."""
    assert isinstance(operator, Bank)
    count, height, _, channels = out.shape
    above, left = (-at for at in region.origin)
    below, right = (
        wanted + taps - 1 - size - before
        for wanted, taps, size, before in zip(
            region.shape, operator.extent, image.shape[:2], (above, left), strict=True
        )
    )
    padding = ((above, below), (left * channels, right * channels))
    plane, sums = image.reshape(len(image), -1), out.reshape(count, height, -1)
    operator.on_image(plane, sums, padding, team)


def _run_bands(
    image: Array, operator: Operator, region: Region, out: Array, finish: Finish | None, team: int
) -> None:
    """Filter an image band by band."""
    count, height, width, channels = out.shape
    (halo, beside), seen = (size - 1 for size in operator.extent), image.shape[:2]
    columns = width + beside
    gather = Gather(
        source_index(region.border, region.origin[0], height + halo, seen[0]),
        source_index(region.border, region.origin[1], columns, seen[1]),
        0, region.value,
    )  # fmt: skip
    row_bytes = operator.dtype.itemsize * channels * (columns + count * width)
    rows = min(max(BAND_BYTES // row_bytes, halo, LEAST_ROWS), height)
    straight = (
        finish is None
        and operator.dtype == out.dtype
        and count == 1
        and out.flags.c_contiguous
        and out.flags.aligned
    )
    bands = iter(range(0, height, rows))
    lock = threading.Lock()

    def next_bands() -> Iterator[int]:
        while True:
            with lock:
                first = next(bands, None)
            if first is None:
                return
            yield first

    def work() -> None:
        buffer = np.empty((rows + halo, columns, channels), operator.dtype)
        memory = np.empty(0 if straight else count * rows * width * channels, operator.dtype)
        for first in next_bands():
            some = min(rows, height - first)
            band = buffer[: some + halo]
            gather(image, band, first)
            results = out[:, first : first + some]
            sums = results if straight else memory[: count * some * width * channels]
            sums = sums.reshape(count, some, width * channels)
            operator(band.reshape(len(band), -1), sums)
            if straight:
                continue
            if finish is not None:
                finish(sums, band, results)
            else:
                with np.errstate(all="ignore"):
                    results[...] = sums.reshape(results.shape)

    helpers = min(team, -(-height // rows)) - 1
    if helpers <= 0:
        work()
        return
    with ThreadPoolExecutor(helpers) as pool:
        others = [pool.submit(work) for _ in range(helpers)]
        work()
        for other in others:
            other.result()

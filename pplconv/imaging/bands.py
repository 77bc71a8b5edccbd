"""A filter runs over an image in bands of rows, each of which stays in a core's cache.

The rows of a band are copied, with the pixels that stand beyond the border, into a buffer of the
type that sums have; so no padded copy of the image is made, and integers are converted on the way.
A convolution without padding gives the band's sums, and `Finish` turns them into results.

A row of H x W x C pixels is one row of W * C numbers whose taps are C apart: all channels are
filtered at once, as one plane.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .borders import source_index
from .operators import Operator

__all__ = ["Finish", "Region", "run"]

Array = npt.NDArray[Any]
# Called with sums (n, rows, columns) that it may overwrite, the band that they are of, and where
# the results go.
Finish = Callable[[Array, Array, Array], None]

# What a band and its sums take together: half of a small L2.
BAND_BYTES = 1 << 19
LEAST_ROWS = 8


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


class _Gather:
    """Copies rows of an image into a buffer, and what stands for pixels outside.

    Parameters
    ----------
    image : ndarray, shape (H, W, C)
        In any strides.
    region : Region
        What is computed.
    extent : (int, int)
        Rows and columns of the kernel.
    """

    def __init__(self, image: Array, region: Region, extent: tuple[int, int]) -> None:
        self._image, self._region = image, region
        height, width, _ = image.shape
        first, self.columns = region.origin[1], region.shape[1] + extent[1] - 1
        self._rows = source_index(
            region.border, region.origin[0], region.shape[0] + extent[0] - 1, height
        )
        index = source_index(region.border, first, self.columns, width)
        # Columns of the buffer that are the image's own, and those on either side.
        self._own = slice(min(max(-first, 0), self.columns), 0)
        end = max(min(width - first, self.columns), self._own.start)
        self._own = slice(self._own.start, end)
        self._seen = slice(self._own.start + first, end + first)
        self._sides = [
            (side, index[side])
            for side in (slice(0, self._own.start), slice(end, self.columns))
            if side.start < side.stop
        ]

    def __call__(self, first: int, buffer: Array) -> None:
        """Fill a buffer (rows, columns, C) from output row `first` on."""
        at = 0
        rows = self._rows[first : first + len(buffer)]
        while at < len(rows):
            # Rows that follow one another in the image are copied together.
            end = at + 1
            while end < len(rows) and rows[at] >= 0 and rows[end] == rows[end - 1] + 1:
                end += 1
            some = buffer[at:end]
            if rows[at] < 0:
                some[...] = self._region.value
            else:
                own = self._image[rows[at] : rows[end - 1] + 1]
                np.copyto(some[:, self._own], own[:, self._seen], casting="unsafe")
                for side, index in self._sides:
                    some[:, side] = own[:, index]
                    if self._region.border == "constant":
                        some[:, side] = self._region.value
            at = end


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
    count, height, width, channels = out.shape
    if not out.size:
        return
    gather = _Gather(image, region, operator.extent)
    halo = operator.extent[0] - 1
    row_bytes = operator.dtype.itemsize * channels * (gather.columns + count * width)
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
        buffer = np.empty((rows + halo, gather.columns, channels), operator.dtype)
        memory = np.empty(0 if straight else count * rows * width * channels, operator.dtype)
        for first in next_bands():
            some = min(rows, height - first)
            band = buffer[: some + halo]
            gather(first, band)
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

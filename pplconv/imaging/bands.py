"""How a filter runs over an image: in bands of rows, or where the image lies.

The rows of a band are read, with the pixels that stand beyond the border, as numbers of the type
that sums have; so no padded copy of the image is made, and integers are converted on the way. A
band, and its sums, stay in a core's cache: see `api.banded`. `Finish` turns sums into results where
they are not of one type.

A small image that has zeros around it, and needs no conversion, is convolved where it lies.

A row of H x W x C pixels is one row of W * C numbers whose taps are C apart: all channels are
filtered at once, as one plane.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..api.banded import READ, has_rows, run_bands
from ..api.edges import runs_of, source_index
from .operators import Bank, Operator
from .windows import Windows

__all__ = ["Finish", "Region", "run"]

Array = npt.NDArray[Any]

# What a band and its sums take together: half of a small L2.
BAND_BYTES = 1 << 19
LEAST_ROWS = 8
# A band of a high kernel has this many times the rows that it shares with others; it is larger than
# half of an L2 then, but there is more to be computed as well.
HALOS = 3
# Bands for each thread, at least.
BANDS_EACH = 2
# What the sums of results of another type take, where they are not finished band by band.
PART_BYTES = 1 << 24
# An image is convolved where it lies if it and its results take no more: a share of the last cache.
# Beyond, rows that were just read by a band are nearer.
WHOLE_BYTES = 1 << 24


class Finish(Protocol):
    """Turns sums into results of another type."""

    @property
    def limits(self) -> Array | None:
        """How the loops round sums, shape (n, 3); then `settle` does what that leaves open.

        For each kernel, how far they may be from what they stand for, and the least and the largest
        result. None: sums are finished by `store`.
        """

    @property
    def fine(self) -> Array | None:
        """With what the loops compute again what `limits` of float32 leave open.

        For each kernel, limits of sums in float64, and the taps, shape (n, 3 + kh * kw).
        """

    def settle(self, missing: npt.NDArray[np.int64], windows: Windows, results: Array) -> None:
        """Compute some of the results, (n, rows, columns, C), counted in C order, from pixels."""

    def store(self, sums: Array, windows: Windows, results: Array) -> None:
        """Make results, (n, rows, columns, C), of sums, which may be overwritten."""


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
    if finish is None and _lies_in_zeros(image, operator, region, out):
        _run_whole(image, operator, region, out, team)
    else:
        _run_bands(image, operator, region, out, finish, team)


def _lies_in_zeros(image: Array, operator: Operator, region: Region, out: Array) -> bool:
    """Whether an image can be convolved where it lies, and is small enough for that to be best."""
    if not isinstance(operator, Bank) or not operator.is_finite:
        return False
    if region.border != "constant" or region.value != 0 or image.nbytes + out.nbytes > WHOLE_BYTES:
        return False
    if not image.dtype == operator.dtype == out.dtype:
        return False
    if not all(array.flags.c_contiguous and array.flags.aligned for array in (image, out)):
        return False
    return all(
        origin <= 0 <= origin + count + taps - 1 - size
        for origin, count, size, taps in zip(
            region.origin, region.shape, image.shape[:2], operator.extent, strict=True
        )
    )


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
    dtype = operator.dtype
    limits = None if finish is None else finish.limits
    direct = has_rows(out) and (limits is not None or (finish is None and out.dtype == dtype))
    if not direct:
        # In parts, whose sums or results are stored afterwards.
        part_dtype = dtype if limits is None else out.dtype
        most = max(PART_BYTES // (count * width * channels * part_dtype.itemsize), 1)
        if height > most:
            for first in range(0, height, most):
                rows = slice(first, min(first + most, height))
                origin = region.origin[0] + first, region.origin[1]
                part = replace(region, origin=origin, shape=(rows.stop - first, width))
                _run_bands(image, operator, part, out[:, rows], finish, team)
            return
    target = out if direct else np.empty(out.shape, part_dtype)
    (halo, beside), seen = (size - 1 for size in operator.extent), image.shape[:2]
    columns = width + beside
    windows = Windows(
        image,
        source_index(region.border, region.origin[0], height + halo, seen[0]),
        source_index(region.border, region.origin[1], columns, seen[1]),
        region.value, operator.extent,
    )  # fmt: skip
    if not (has_rows(image) and image.dtype in READ[dtype]):
        image = np.ascontiguousarray(image, dtype)
    row_bytes = dtype.itemsize * channels * (columns + count * width)
    # Rows that two bands see are read, and summed up along rows, twice.
    band = max(BAND_BYTES // row_bytes, HALOS * halo, LEAST_ROWS)
    band = min(band, max(-(-height // (BANDS_EACH * team)), LEAST_ROWS))
    # Bands of one height, so that no thread waits for the last one.
    band = -(-height // -(-height // band))
    with np.errstate(over="ignore"):
        value = np.array([region.value], dtype)
    missing = run_bands(
        image, operator.convolutions, windows.rows, runs_of(windows.columns), value, target,
        limits, None if finish is None else finish.fine, operator.extent, band, team,
    )  # fmt: skip
    if finish is not None and limits is not None:
        if len(missing):
            finish.settle(missing, windows, target)
    elif finish is not None:
        finish.store(target, windows, out)
        return
    if target is not out:
        with np.errstate(all="ignore"):
            out[...] = target

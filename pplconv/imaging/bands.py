"""How a filter runs over an image: in bands of rows, or where the image lies.

The rows of a band are read, with the pixels that stand beyond the border, as numbers of the type
that sums have; so no padded copy of the image is made, and integers are converted on the way. A
band, and its sums, stay in a core's cache: see `api.banded`. `Finish` turns sums into results where
they are not of one type.

An image that needs no conversion is not read in bands: it is convolved where it lies, padded with
zeros, and the outputs that see another border are computed again, from bands of their own.

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
# What the sums of results of another type take, where they are not finished band by band.
PART_BYTES = 1 << 24
# An image is not convolved where it lies if more than this share of its outputs see the border.
LARGEST_SHARE = 0.25


class Finish(Protocol):
    """Turns sums into results of another type."""

    limits: Array | None
    """How far sums may be from what they stand for, and the least and the largest result, for each
    kernel, shape (n, 3): then the loops round sums, and `settle` what that leaves open. None: they
    are finished by `store`."""

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
    inner = _inner(image, operator, region, out, finish)
    if inner is None:
        _run_bands(image, operator, region, out, finish, team)
        return
    (top, bottom), (left, right) = inner
    _run_whole(image, operator, region, out, team)
    assert isinstance(operator, Bank)
    if region.border == "constant" and region.value == 0 and operator.is_finite:
        return
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
    band = max(BAND_BYTES // row_bytes, halo, LEAST_ROWS)
    # Bands of one height, so that no thread waits for the last one.
    band = -(-height // -(-height // band))
    with np.errstate(over="ignore"):
        value = np.array([region.value], dtype)
    missing = run_bands(
        image, operator.convolutions, windows.rows, runs_of(windows.columns), value, target,
        limits, band, team,
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


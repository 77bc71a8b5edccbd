"""How a filter runs over an image: in bands of rows, or where the image lies.

The loops read the rows of a band, padding included, into numbers of the sums' type; so the image
needs no padded copy, and integers are converted on the way. A band and its sums stay in a core's
cache: see `banded`. Sums that only NumPy turns into results are computed for a part of the image at
a time, and stored from there.

A small image with zeros around it that needs no conversion is convolved where it lies.

A row of H x W x C pixels is one row of W * C numbers whose taps are C apart: all channels are
filtered at once, as one plane.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import planner
from .._records import record
from ..api.conv import Conv2d
from ..numerics import numerics_of
from ..ops.edges import Index, runs_of, source_index
from .banded import (
    READ,
    Banded,
    Means,
    Rounding,
    RowSums,
    Short,
    has_rows,
    is_open,
    paired_isa,
)  # fmt: skip
from .fixed_factors import pair_factors
from .fixed_point import pair_weights
from .mirrored import mirrored_digits
from .operators import Bank, Operator, Separable

__all__ = ["AnyRounding", "Filter", "Region", "Store", "banded", "is_read", "is_stored", "prepared"]

Array = npt.NDArray[Any]
# Turns sums (the first array, which may be overwritten) into results (the second array).
Store = Callable[[Array, Array], None]
# How the loops make results of sums.
AnyRounding = Rounding | Short | Means

# Bytes of a band and its sums together: half of a small L2.
BAND_BYTES = 1 << 19
LEAST_ROWS = 8
# A band of a high kernel has at least this many times the rows that it shares with other bands. It
# may exceed half of an L2 then, but it also has more to compute.
HALOS = 3
# Taps of a row and a column up to which inexact sums of integers are made row by row: with more,
# wide rows took up to 1.14 times as long as convolutions.
FEW_TAPS = 8
# Pixels whose columns are summed up where they lie.
IN_COLUMNS = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.int16))
# Pixels whose pairs are multiplied; most channels of these, and most products of a result.
IN_PAIRS = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.int16))
MOST_PAIRED = 4
MOST_PRODUCTS = 121
# Of the pairs of a column and a row, the most for two of their taps: more take longer than column
# and row in floating point do (AMD EPYC 26-2, 7x7 of 256x256 1.14 times as long).
MOST_BESIDE = 3
# Of a column and a row that are mirrored, the most results whose pixels of one weight are added up
# first: with AVX2, columns and rows in float32 take 0.85 to 0.95 of that time in larger images, and
# up to 1.25 in smaller ones (AMD EPYC 25-1).
MOST_MIRRORED = {"avx2": 1 << 17}
# How the names of instruction sets with vectors of 64 bytes begin.
WIDE = "avx512"
# Products that take as long as it does to bring a pixel of several channels into pairs, and back
# (AMD EPYC 26-2).
PAIRS_COPIED = 2
# Results of a row that the kernels of a column and a row make at once.
PAIR_BLOCK = 128
# Bands for each thread, at least.
BANDS_EACH = 2
# Bytes of sums in one part of the image, if the loops do not turn them into results band by band.
PART_BYTES = 1 << 24
# An image is convolved where it lies if it and its results take at most these bytes: a share of the
# last-level cache. For larger images bands are faster, as their rows stay in nearer caches.
WHOLE_BYTES = 1 << 24
# Products below which bands are faster too: a call of a layer takes a microsecond longer.
WHOLE_PRODUCTS = 1 << 15


@record(frozen=True)
class Region:
    """The wanted outputs, and the border of the image.

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
        Of a constant border.
    """

    origin: tuple[int, int]
    shape: tuple[int, int]
    border: str
    value: float = 0.0


Filter = Callable[[Array, Array], None]
"""Filters an image into an output, both of the forms that it was prepared for."""


def prepared(
    image: Array,
    operator: Operator,
    region: Region,
    out: Array,
    rounding: AnyRounding | None,
    team: int,
    store: Store | None = None,
) -> Filter:
    """Prepare a filter for images of one form: all that does not depend on their pixels.

    Parameters
    ----------
    image : ndarray, shape (H, W, C)
        In any strides.
    operator : Operator
        Makes the sums of a band.
    region : Region
        Outputs to compute.
    out : ndarray, shape (n, rows, columns, C)
        Not empty; integers with `rounding`.
    rounding : Rounding, Short or Means, optional
        How the loops round sums.
    team : int
        Threads, at most.
    store : callable, optional
        Makes results of sums. Without `rounding` and `store`, sums are cast to the type of `out`.
    """
    paid = min(team, planner.paying_team(2.0 * operator.products * out.size, team))
    share = planner.share(team)
    if rounding is None and store is None and _lies_in_zeros(image, operator, region, out):
        return _whole(image, operator, region, out, paid)
    if is_read(image, operator.dtype) and is_stored(out, operator, rounding, store):
        return _banded(image, operator, region, out, rounding, paid, share)
    dtype = _type_of_part(operator, out, rounding)
    if is_read(image, operator.dtype) and out.size * dtype.itemsize <= PART_BYTES:
        sums = np.empty(out.shape, dtype)
        banded = _banded(image, operator, region, sums, rounding, paid, share)
        return partial(_run_part, banded, dtype, store)
    return partial(_run_parts, operator, region, rounding, paid, share, store)


def is_read(image: Array, computed: np.dtype[Any]) -> bool:
    """Whether the loops read an image as it lies."""
    return has_rows(image) and image.dtype in READ[computed]


def is_stored(
    out: Array, operator: Operator, rounding: AnyRounding | None, store: Store | None = None
) -> bool:
    """Whether the loops write results as they are to lie."""
    sums = store is None and out.dtype == operator.dtype
    return has_rows(out) and (rounding is not None or sums)


def _run_parts(
    operator: Operator, region: Region, rounding: AnyRounding | None, team: int, share: int,
    store: Store | None, image: Array, out: Array,
) -> None:  # fmt: skip
    """Filter an image that the loops do not read, or results that they do not write."""
    image = _readable(image, operator.dtype)
    count, height, width, channels = out.shape
    if is_stored(out, operator, rounding, store):
        _run_bands(image, operator, region, out, rounding, team, share)
        return
    # Compute a part at a time; its sums or results are stored afterwards.
    part_dtype = _type_of_part(operator, out, rounding)
    most = max(PART_BYTES // (count * width * channels * part_dtype.itemsize), 1)
    for first in range(0, height, most):
        rows = slice(first, min(first + most, height))
        origin = region.origin[0] + first, region.origin[1]
        part = replace(region, origin=origin, shape=(rows.stop - first, width))
        sums = np.empty((count, rows.stop - first, width, channels), part_dtype)
        _run_bands(image, operator, part, sums, rounding, team, share)
        _put(sums, out[:, rows], store)


def _run_part(
    filter: Filter, dtype: np.dtype[Any], store: Store | None, image: Array, out: Array
) -> None:
    """Filter an image that is one part."""
    sums = np.empty(out.shape, dtype)
    filter(image, sums)
    _put(sums, out, store)


def _type_of_part(operator: Operator, out: Array, rounding: AnyRounding | None) -> np.dtype[Any]:
    """Type of what the loops write, before it is stored."""
    dtype: np.dtype[Any] = operator.dtype if rounding is None else out.dtype.newbyteorder("=")
    return dtype


def _put(sums: Array, out: Array, store: Store | None) -> None:
    """Store sums or results."""
    if store is None:
        with np.errstate(all="ignore"):
            out[...] = sums
    else:
        store(sums, out)


def _readable(image: Array, computed: np.dtype[Any]) -> Array:
    """Convert an image to a form that the loops read, once for all parts."""
    if is_read(image, computed):
        return image
    native = image.dtype.newbyteorder("=")
    with np.errstate(all="ignore"):
        read = native if native in READ[computed] else computed
        return np.require(image, read, ("C", "A"))


def _lies_in_zeros(image: Array, operator: Operator, region: Region, out: Array) -> bool:
    """Whether an image can be convolved where it lies, and is small enough for it to pay."""
    if not isinstance(operator, Bank) or isinstance(_sums_of(operator, out, None), RowSums):
        return False
    if not operator.is_finite:
        return False
    if region.border != "constant" or region.value != 0 or image.nbytes + out.nbytes > WHOLE_BYTES:
        return False
    if operator.products * out.size < WHOLE_PRODUCTS:
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


def _whole(image: Array, operator: Operator, region: Region, out: Array, team: int) -> Filter:
    """Prepare the filter of an image with zeros around it."""
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

    def run(image: Array, out: Array) -> None:
        plane, sums = image.reshape(len(image), -1), out.reshape(count, height, -1)
        operator.on_image(plane, sums, padding, team)

    return run


def _run_bands(
    image: Array, operator: Operator, region: Region, out: Array,
    rounding: AnyRounding | None, team: int, share: int,
) -> None:  # fmt: skip
    """Filter an image band by band."""
    _banded(image, operator, region, out, rounding, team, share)(image, out)


def _sums_of(
    operator: Operator, out: Array, rounding: AnyRounding | None,
    pixel: np.dtype[Any] | None = None,
) -> RowSums | tuple[Conv2d, ...]:  # fmt: skip
    """Choose how sums are made: if a small image fits in a band, a kernel is a convolution."""
    if isinstance(operator, Separable) and rounding is not None and not is_open(rounding):
        running = operator.running_sums
        if running is not None:
            return running
    if isinstance(rounding, Rounding) and rounding.near and out.itemsize <= 2:
        pairs = factors = None
        # Exact sums of float32 are half way too often.
        if (
            pixel == out.dtype
            and pixel in IN_PAIRS
            and (is_open(rounding) or operator.dtype == np.float64)
        ):
            pairs, factors = _pairs_of(operator, out, rounding)
        sums = operator.rounded_sums(exact=not is_open(rounding), paired=pairs is not None)
        if sums is not None and (sums.passes == 1 or pixel in IN_COLUMNS):
            digits = None
            # Exact sums are half way too often.
            if pixel == out.dtype == np.uint8 and is_open(rounding):
                isa = planner.best_isa(numerics_of("u8", "u8"))
                most = MOST_MIRRORED.get(isa or "", out.size) if sums.passes == 2 else out.size
                if out.size <= most:
                    digits = mirrored_digits(
                        rounding.taps[0], operator.extent, separable=rounding.separable
                    )
            return sums._replace(near=rounding.near, digits=digits, pairs=pairs, factors=factors)
    if rounding is None and operator.dtype == np.float32:
        return operator.block_sums or operator.convolutions
    found = operator.row_sums
    if found is None:
        return operator.convolutions
    if found.passes == 1:
        wins = out.size * operator.dtype.itemsize >= BAND_BYTES
    else:
        # All rows of a band are kept for sums that are made again.
        wins = not is_open(rounding) or len(found.weights) <= FEW_TAPS
    return found if wins else operator.convolutions


def _pairs_of(
    operator: Operator, out: Array, rounding: Rounding
) -> tuple[Array | None, Array | None]:
    """Weights of sums by pairs, of a kernel or of a column and a row, where these are faster."""
    rows, columns = operator.extent
    products = rows * (columns // 2 + 1)
    isa = paired_isa()
    if out.shape[-1] > MOST_PAIRED or isa is None:
        return None, None
    beside = MOST_BESIDE / 2 * (rows + columns)
    most = min(products + (PAIRS_COPIED if out.shape[-1] > 1 else 0), beside)
    if isinstance(operator, Separable) and _factored_products(operator, out, rounding) < most:
        factors = pair_factors(rounding.taps[0], operator.extent, out.dtype)
        if factors is not None:
            return None, factors
    if rows * columns > MOST_PRODUCTS:
        return None, None
    if out.dtype == np.uint8 and (isinstance(operator, Separable) or _is_narrow(isa)):
        return None, None
    if isinstance(operator, Separable) and products > beside:
        return None, None
    pairs = pair_weights(rounding.taps[0], operator.extent, out.dtype, separable=rounding.separable)
    return pairs, None


def _factored_products(operator: Separable, out: Array, rounding: Rounding) -> float:
    """Products of a result by pairs of a column and a row, one after the other."""
    rows, columns = operator.extent
    if out.dtype == np.uint8 or not rounding.separable:
        return np.inf
    if operator.rounded_sums(exact=False, paired=False) is None:
        return np.inf
    column = rounding.taps[0][:rows]
    # Rows of equal weight are added first. Both halves of a sum are multiplied.
    down = 2 * ((rows + 1) // 2 if (column == column[::-1]).all() else rows)
    _, height, width, channels = out.shape
    across = (columns + 1) // 2 * (1 + (rows - 1) / height)
    numbers = width * channels
    return float(-(-numbers // PAIR_BLOCK) * PAIR_BLOCK / numbers * (across + down))


def _is_narrow(isa: str) -> bool:
    """Whether vectors of an instruction set are shorter than those of floating point.

    Then bytes by pairs took 1.1 to 1.3 times as long as in float32 (AMD EPYC 26-2).
    """
    widest = planner.best_isa(numerics_of("f32", "f32")) or ""
    return widest.startswith(WIDE) and not isa.startswith(WIDE)


def _banded(
    image: Array, operator: Operator, region: Region, out: Array, rounding: AnyRounding | None,
    team: int, share: int,
) -> Banded:  # fmt: skip
    """Prepare the filter of an image band by band."""
    taken = out.shape[1] + operator.extent[0] - 1
    rows = source_index(region.border, region.origin[0], taken, len(image))
    return banded(image, operator, region, rows, out, rounding, team, share)


def banded(
    image: Array, operator: Operator, region: Region, rows: Index, out: Array,
    rounding: AnyRounding | None, team: int, share: int,
) -> Banded:  # fmt: skip
    """Prepare a filter that loops run.

    Parameters
    ----------
    image, operator, region, out, rounding, team
        As in `prepared`.
    rows : ndarray of int64
        Row of the image for each row that the outputs see, -1 outside.
    share : int
        Threads of the process that may compute at once.
    """
    count, height, width, channels = out.shape
    dtype = operator.dtype
    halo, beside = (size - 1 for size in operator.extent)
    columns = width + beside
    runs = runs_of(source_index(region.border, region.origin[1], columns, image.shape[1]))
    sums = _sums_of(operator, out, rounding, image.dtype)
    by_rows = isinstance(rounding, (Short, Means)) or isinstance(sums, RowSums)
    # Rows that two bands share are read, and summed up along rows, twice.
    least = max(HALOS * halo, LEAST_ROWS)
    blocks = isinstance(sums, RowSums) and sums.near > 0
    if by_rows and (blocks or not is_open(rounding)):
        # A few rows are in cache, whatever the height of the band.
        band = height
    else:
        row_bytes = dtype.itemsize * channels * (columns + (0 if by_rows else count * width))
        band = max(BAND_BYTES // row_bytes, least)
    if team > 1:
        band = min(band, max(-(-height // (BANDS_EACH * team)), LEAST_ROWS))
    # Bands of equal height, so that no thread waits for a large last one.
    band = -(-height // -(-height // band))
    with np.errstate(all="ignore"):
        value = np.array([region.value], dtype)
    return Banded(
        image, sums, rows, runs, value, out, rounding, operator.extent, band,
        team, share, region.origin[0],
    )  # fmt: skip

"""Means of squares, against wide integers: tails, steps, strips, any order."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from asm.contract.constants import MEANS_BESIDE, SUMS
from tests.kernels.kernel_table import every_row, symbol
from tests.kernels.rows_call import Call, put_rows

pytestmark = pytest.mark.unemulated("its kernels are x86-64's")

every_kernel = pytest.mark.parametrize("row", every_row("filter_means"), ids=symbol)
# Halves of signed means would be moved up: of even sides, only powers of two have none.
SIDES = [
    *((side, "uint16") for side in range(3, 33)),
    *((side, "int16") for side in (*range(3, 17, 2), *range(17, 33, 2), 4, 8, 16, 32)),
]
# Numbers of a row: a vector of either kernel, tails behind one and behind some.
COUNTS = (*range(32, 68), 95, 127, 161)


def taken(row, side, dtype):
    """Give side and type that the kernel takes: of bytes, only larger squares."""
    return (max(side, 6), "uint8") if row["dtype"] == "u8" else (side, dtype)


def means(checker, row, rng, pixels, order, step, side, factor=None):
    """Run the kernel on rows in some order, each between guard pages or others."""
    rows, count = len(order) - side + 1, pixels.shape[1] - (side - 1) * step
    call = Call(checker, row, rng)
    put_rows(call, rng, pixels, order)
    size = pixels.itemsize
    stride = size * (count + int(rng.integers(0, 70)))
    call.put("dst", np.full((rows, count), 0x55, pixels.dtype), stride, writable=True)
    factor = 1 / side**2 if factor is None else factor
    real = np.float32 if side <= 16 or size == 1 else np.float64
    call.put("weights", np.array([[real(factor)]], np.float64), 0)
    mode = SUMS["SIGNED" if pixels.dtype == np.int16 else "UNSIGNED"]
    return call.run(
        rows=rows,
        count=size * count,
        step=size * step,
        side=side,
        mode=mode,
        add=-1,
        factor=-1,
        shift=-1,
    )


def sums_of(pixels, step, side):
    """Sums of squares, as wide integers."""
    extent = side, (side - 1) * step + 1
    windows = np.lib.stride_tricks.sliding_window_view(pixels.astype(np.int64), extent)
    return windows[..., ::step].sum((2, 3))


def drawn(rng, shape, dtype):
    """Draw pixels of all sizes, or the least and the largest alone."""
    info = np.iinfo(dtype)
    all_sizes = rng.integers(info.min, info.max + 1, shape)
    return rng.choice([all_sizes, rng.choice([info.min, info.max], shape)]).astype(dtype)


def check(checker, row, rng, side, dtype, count, step):
    rows = int(rng.integers(1, 9))
    pixels = drawn(rng, (rows + side - 1, count + (side - 1) * step), dtype)
    order = rng.permutation(len(pixels))
    if rows > 1:
        order[0] = order[-1]
    sums, area = sums_of(pixels[order], step, side), side**2
    if area % 2:
        expected = (2 * sums + area) // (2 * area)
    elif area & (area - 1) == 0:
        # Both the quotients and their halves are exact.
        expected = np.rint(sums / area)
    else:
        # The factor nearest to 1 / area is a little more or less: only halves differ.
        real = np.float32 if side <= 16 or pixels.itemsize == 1 else np.float64
        more = Fraction(float(real(1 / area))) * area > 1
        expected = (2 * sums + area - (not more)) // (2 * area)
    found = means(checker, row, rng, pixels, order, step, side)
    np.testing.assert_array_equal(found, expected)


@every_kernel
@pytest.mark.parametrize(("side", "dtype"), SIDES)
def test_tails(checker, row, rng, side, dtype):
    """Every tail of a vector."""
    side, dtype = taken(row, side, dtype)
    for count in COUNTS:
        count += 32 * (dtype == "uint8")
        check(checker, row, rng, side, dtype, count, int(rng.choice([1, 2, 3, 4, 7])))


@every_kernel
@pytest.mark.parametrize("side", [3, 5, 7, 15, 16, 17, 32])
def test_strips(checker, row, rng, side):
    """Rows that are cut, whose last part is long or short, and the longest steps."""
    side, dtype = taken(row, side, "uint16")
    longest = MEANS_BESIDE // (side - 1)
    for step in (1, 3, longest):
        strip = (2048 - (side - 1) * step) // 16 * 16
        for count in (strip - 1, strip, strip + 1, strip + 31, 2 * strip + 33):
            check(checker, row, rng, side, dtype, max(count, 64), step)


@every_kernel
@pytest.mark.parametrize("dtype", ["uint16", "int16"])
@pytest.mark.parametrize("side", range(3, 33, 2))
def test_sums_beside_half_way(checker, row, rng, side, dtype):
    """The sums on both sides of each half way, with means from the least to the largest one."""
    side, dtype = taken(row, side, dtype)
    if side % 2 == 0:
        side += 1
    info, area = np.iinfo(dtype), side**2
    below = np.arange(info.min, info.max) * area + area // 2
    wanted = rng.permutation(np.stack([below, below + 1]).T.ravel())[:4096]
    # Squares side by side, of which each has one sum.
    base, rest = np.divmod(wanted, area)
    parts = base[:, None] + (np.arange(area) < rest[:, None])
    pixels = parts.reshape(-1, side, side).transpose(1, 0, 2).reshape(side, -1).astype(dtype)
    found = means(checker, row, rng, pixels, np.arange(side), 1, side)[0, ::side]
    np.testing.assert_array_equal(found, (2 * wanted + area) // (2 * area))


@every_kernel
def test_factors(checker, row, rng):
    """A float that is a little larger or smaller decides where sums are half way."""
    side, area = 6, 36
    dtype = np.dtype(taken(row, side, "uint16")[1])
    pixels = rng.integers(0, np.iinfo(dtype).max + 1, (10, 100)).astype(dtype)
    # A sum of an odd number of halves.
    pixels[:side, :side] = 100
    pixels[0, 0] += area // 2
    sums = sums_of(pixels, 1, side)
    near = np.float32(1 / area)
    for factor in (np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(1))):
        found = means(checker, row, rng, pixels, np.arange(10), 1, side, factor)
        less = float(factor) * area < 1
        np.testing.assert_array_equal(found, (2 * sums + area - less) // (2 * area))
        assert found[0, 0] == 101 - less

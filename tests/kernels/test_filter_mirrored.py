"""Filters of bytes with mirrored kernels, against wide integers: tails, steps, listed blocks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.kernel_table import every_row, symbol
from tests.kernels.rows_call import Call, put_rows

pytestmark = pytest.mark.unemulated("its kernels are x86-64's")

every_kernel = pytest.mark.parametrize("row", every_row("filter_mirrored"), ids=symbol)
# Distances from the middle of the taps of each weight.
ORDER = {
    3: ((0, 0), (0, 1), (1, 0), (1, 1)),
    5: ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)),
}
UNIT = 1 << 31
# Results of a listed block, at most.
BLOCK = 64


def digits_of(weights):
    """High and low digits of weights in units of 2**-31."""
    high = weights + (1 << 14) >> 15
    return np.concatenate([high, weights - (high << 15)]).astype(np.int16)


def kernel_of(weights, side):
    """The kernel of some weights."""
    kernel, middle = np.zeros((side, side), np.int64), side // 2
    for (y, x), weight in zip(ORDER[side], weights, strict=True):
        for r, c in ((y, x), (x, y)) if side == 5 else ((y, x),):
            kernel[np.ix_((middle - r, middle + r), (middle - c, middle + c))] = weight
    return kernel


def drawn_weights(rng, side):
    """Weights whose kernel adds up to at most one."""
    weights = rng.integers(0, 1 << 20, len(ORDER[side]))
    total = int(kernel_of(weights, side).sum())
    weights = weights * (UNIT - 64) // (total * int(rng.integers(1, 4)))
    return np.minimum(weights, (UNIT >> 1) - (1 << 16))


def check(checker, row, rng, pixels, order, step, side, weights):
    """Run the kernel on rows in some order, and compare results; gives how many are listed."""
    rows, count = len(order) - side + 1, pixels.shape[1] - (side - 1) * step
    call = Call(checker, row, rng)
    put_rows(call, rng, pixels, order)
    call.put("weights", digits_of(weights).reshape(1, -1), 0)
    size = row["lanes"] * (4 if side == 3 else 2)
    room = rows * (count // (row["lanes"] * 2) + 1)
    listed = call.put("open", np.full((1, room), -1, np.int64), 0, writable=True)
    number = call.put("open_count", np.full((1, 1), -1, np.int64), 0, writable=True)
    stride = count + int(rng.integers(0, 70))
    call.put("dst", np.full((rows, count), 0x55, np.uint8), stride, writable=True)
    found = call.run(rows=rows, count=count, step=step, side=side, mode=0, add=0, factor=0, shift=0)
    extent = side, (side - 1) * step + 1
    windows = np.lib.stride_tricks.sliding_window_view(pixels[order].astype(np.int64), extent)
    sums = (windows[..., ::step] * kernel_of(weights, side)).sum((2, 3)) + (UNIT >> 1)
    away = np.minimum(sums % UNIT, -sums % UNIT)
    open_ = np.zeros(rows * count + size, bool)
    blocks = listed[0, : number[0, 0]]
    for at in blocks:
        assert away.ravel()[at : at + size].min() < UNIT >> 15
        assert at % count + size <= count
        open_[at : at + size] = True
    open_ = open_[: rows * count].reshape(rows, count)
    assert (listed[0, number[0, 0] :] == -1).all()
    assert open_[away < UNIT >> 18].all()
    np.testing.assert_array_equal(found[~open_], (sums // UNIT)[~open_])
    return len(blocks)


def drawn(rng, shape):
    return rng.choice([rng.integers(0, 256, shape), rng.integers(0, 2, shape) * 255]).astype(
        np.uint8
    )


@every_kernel
@pytest.mark.parametrize("side", ORDER)
def test_results(checker, row, rng, side):
    """Every tail of a vector, any weights, rows in any order."""
    for count in (*range(64, 130), 200, 319):
        step, rows = int(rng.choice([1, 2, 3, 4, 7])), int(rng.integers(1, 9))
        pixels = drawn(rng, (rows + side - 1, count + (side - 1) * step))
        order = rng.permutation(len(pixels))
        if rows > 1:
            order[0] = order[-1]
        check(checker, row, rng, pixels, order, step, side, drawn_weights(rng, side))


@every_kernel
@pytest.mark.parametrize("side", ORDER)
def test_half_way(checker, row, rng, side):
    """Sums that are half way, or nearly, are listed, wherever they lie; others are not."""
    pixels = np.zeros((9, 200), np.uint8)
    weights = np.zeros(len(ORDER[side]), np.int64)
    for more in (-3, 0, 3):
        weights[0] = (UNIT >> 2) + more
        assert check(checker, row, rng, pixels, np.arange(9), 1, side, weights) == 0
        for at in range(side // 2, 200 - side // 2, 7):
            pixels[4, at] = 2
            assert 1 <= check(checker, row, rng, pixels, np.arange(9), 1, side, weights) <= 2
            pixels[4, at] = 0


@every_kernel
@pytest.mark.parametrize("side", ORDER)
def test_largest(checker, row, rng, side):
    """The largest weights, digits of both signs, and the largest results."""
    pixels = np.full((side + 1, 70 + side - 1), 255, np.uint8)
    for _ in range(20):
        weights = drawn_weights(rng, side)
        weights[0] += UNIT - int(kernel_of(weights, side).sum())
        if weights[0] >= UNIT >> 1:
            continue
        assert check(checker, row, rng, pixels, np.arange(side + 1), 1, side, weights) == 0

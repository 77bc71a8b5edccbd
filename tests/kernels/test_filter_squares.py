"""Filters of squares of bytes, against wide integers: tails, steps, rows in any order."""

from __future__ import annotations

import numpy as np
import pytest

from asm.contract.constants import SUMS
from tests.kernels.kernel_table import every_row, symbol
from tests.kernels.rows_call import Call, put_rows

pytestmark = pytest.mark.unemulated("its kernels are x86-64's")

every_kernel = pytest.mark.parametrize("row", every_row("filter_squares"), ids=symbol)
# Side -> addend, factor and shift of exact means.
MEANS = {3: (4, 7282, 0), 5: (12, 5243, 1)}


def filtered(checker, row, rng, pixels, order, step, side, weights=None, **how):
    """Run the kernel on rows in some order, each between guard pages or others."""
    rows, count = len(order) - side + 1, pixels.shape[1] - (side - 1) * step
    call = Call(checker, row, rng)
    put_rows(call, rng, pixels, order)
    stride = count + int(rng.integers(0, 70))
    call.put("dst", np.full((rows, count), 0x55, np.uint8), stride, writable=True)
    if weights is None:
        call.values["weights"] = 0
    else:
        call.put("weights", weights.astype(np.uint16).reshape(1, -1), 0)
    add, factor, shift = MEANS[side]
    values = {"mode": SUMS["DIVIDED"], "add": add, "factor": factor, "shift": shift} | how
    return call.run(rows=rows, count=count, step=step, side=side, **values)


def sums_of(pixels, step, side, weights):
    """Sums of products, as wide integers."""
    extent = side, (side - 1) * step + 1
    windows = np.lib.stride_tricks.sliding_window_view(pixels.astype(np.int64), extent)
    return (windows[..., ::step] * np.outer(weights[side:], weights[:side])).sum((2, 3))


@every_kernel
@pytest.mark.parametrize("side", MEANS)
def test_means(checker, row, rng, side):
    """Every tail of a vector."""
    for count in (*range(64, 130), 200, 319):
        step, rows = int(rng.choice([1, 2, 3, 4, 7])), int(rng.integers(1, 9))
        shape = rows + side - 1, count + (side - 1) * step
        pixels = rng.choice([rng.integers(0, 256, shape), rng.integers(0, 2, shape) * 255])
        order = rng.permutation(len(pixels))
        if rows > 1:
            order[0] = order[-1]
        sums = sums_of(pixels[order], step, side, np.ones(2 * side, int))
        found = filtered(checker, row, rng, pixels.astype(np.uint8), order, step, side)
        np.testing.assert_array_equal(found, (2 * sums + side**2) // (2 * side**2))


@every_kernel
@pytest.mark.parametrize("side", MEANS)
def test_every_sum(checker, row, rng, side):
    """Sums from none to the largest, in even and in odd places."""
    add, factor, shift = MEANS[side]
    sums = np.arange(255 * side**2 + 1)
    assert ((sums + add) * factor >> 16 + shift).tolist() == ((sums + add) // side**2).tolist()
    for moved in (0, 1):
        # Squares side by side, of which each has one sum.
        parts = np.minimum(np.maximum(sums[:, None] - 255 * np.arange(side**2), 0), 255)
        squares = parts.reshape(-1, side, side).transpose(1, 0, 2).reshape(side, -1)
        pixels = np.pad(squares, ((0, 0), (moved, 0))).astype(np.uint8)
        found = filtered(checker, row, rng, pixels, np.arange(side), 1, side)[0, moved::side]
        np.testing.assert_array_equal(found, (sums + add) // side**2)


@every_kernel
def test_weights(checker, row, rng):
    """Weights of both signs whose products add up to a power of two, with ties to even."""
    side = 3
    for count in (64, 65, 127, 128, 190):
        step, rows = int(rng.choice([1, 3, 4])), int(rng.integers(1, 9))
        shift = int(rng.integers(0, 9))
        # A row and a column of one sign, of ones or of others.
        weights = np.zeros(2 * side, int)
        for part, bits in ((weights[:side], shift // 2), (weights[side:], shift - shift // 2)):
            part[:] = np.bincount(rng.integers(0, side, 1 << bits), minlength=side)
        weights *= int(rng.choice([-1, 1]))
        shape = rows + side - 1, count + (side - 1) * step
        pixels = rng.choice([rng.integers(0, 256, shape), rng.integers(0, 2, shape) * 255])
        sums = sums_of(pixels, step, side, weights)
        found = filtered(
            checker, row, rng, pixels.astype(np.uint8), np.arange(len(pixels)), step, side,
            weights, mode=SUMS["UNSIGNED"], add=(1 << shift >> 1) - 1 if shift else 0,
            factor=0, shift=shift,
        )  # fmt: skip
        np.testing.assert_array_equal(found, np.rint(sums / 2.0**shift))


@every_kernel
def test_weights_divided(checker, row, rng):
    """Weights over a divisor, as of boxes of one and of others."""
    weights = np.array([3, 4, 3, 1, 1, 1])
    pixels = rng.integers(0, 256, (9, 210)).astype(np.uint8)
    factor = -(-(1 << 20) // 30)
    sums = sums_of(pixels, 2, 3, weights)
    found = filtered(
        checker, row, rng, pixels, np.arange(9), 2, 3, weights, add=15, factor=factor, shift=4
    )
    np.testing.assert_array_equal(found, (sums + 15) * factor >> 20)

"""Means of squares of bytes, against wide integers: tails, steps, rows apart and in any order."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.kernel_table import every_row, symbol
from tests.kernels.rows_call import Call

every_kernel = pytest.mark.parametrize("row", every_row("box_bytes"), ids=symbol)
# Side -> addend, factor and shift of exact means.
MEANS = {3: (4, 7282, 0), 5: (12, 5243, 1)}


def averaged(checker, row, rng, pixels, order, step, side):
    """Run the kernel on rows in some order, each between guard pages or others."""
    rows, count = len(order) - side + 1, pixels.shape[1] - (side - 1) * step
    call = Call(checker, row, rng)
    gap = pixels.shape[1] + int(rng.integers(0, 70))
    call.put("pixels", pixels, gap)
    first = call.values.pop("pixels")
    call.put("src", np.array([[first + gap * at for at in order]], np.int64), 0)
    stride = count + int(rng.integers(0, 70))
    call.put("dst", np.full((rows, count), 0x55, np.uint8), stride, writable=True)
    add, factor, shift = MEANS[side]
    values = {"add": add, "factor": factor, "shift": shift}
    return call.run(rows=rows, count=count, step=step, side=side, **values)


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
        windows = np.lib.stride_tricks.sliding_window_view(
            pixels[order], (side, (side - 1) * step + 1)
        )
        sums = windows[..., ::step].sum((2, 3))
        found = averaged(checker, row, rng, pixels.astype(np.uint8), order, step, side)
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
        found = averaged(checker, row, rng, pixels, np.arange(side), 1, side)[0, moved::side]
        np.testing.assert_array_equal(found, (sums + add) // side**2)

"""Small filters of whole rows with what is outside, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.kernel_table import DTYPES, every_row, symbol
from tests.kernels.rows_call import Call

pytestmark = pytest.mark.unemulated("its kernels are x86-64's")

every_kernel = pytest.mark.parametrize("row", every_row("filter_strips"), ids=symbol)


def filtered(checker, row, rng, elements, weights, *, down=None, border, value, step, left, count):
    """Run the kernel on rows between guard pages; give its rows of results."""
    element, side = DTYPES[row["dtype"]], len(weights)
    call = Call(checker, row, rng)
    pitch = (elements.shape[1] + int(rng.integers(70))) * element.itemsize
    rows = call.put("elements", elements.astype(element), pitch)
    # Lines may see the same row, as at a border.
    addresses = rows.ctypes.data + rows.strides[0] * np.arange(len(rows))
    call.put("rows", addresses.astype(np.int64).reshape(1, -1), 0)
    call.put("weights", weights.reshape(1, -1).astype(element), 0)
    call.values["down"] = call.values["border"] = 0
    if down is not None:
        call.put("down", down.reshape(1, -1).astype(element), 0)
    if border is not None and len(border):
        call.put("border", np.array(border, np.int64).reshape(1, -1), 0)
    call.put("value", np.full((1, 1), value, element), 0)
    lines = len(rows) - side + 1
    stream = int(rng.integers(2))
    gap = int(rng.integers(70)) if not stream else -count % 16
    pitch = (count + gap) * element.itemsize
    call.put("dst", np.full((lines, count), np.nan, element), pitch, writable=True)
    return call.run(
        lines=lines, side=side, step=step, left=left, numbers=elements.shape[1], count=count,
        stream=stream, far=int(rng.integers(2)), moves=int(rng.integers(2)),
    )  # fmt: skip


def seen_by(elements, border, value, step, left, right):
    """Give rows with what is outside them."""
    if border is None:
        padding = ((0, 0), (left, right))
        return np.pad(elements, padding, constant_values=value)
    places = np.array(border, np.int64)[:, None] + np.arange(step)
    beside = elements[:, places.ravel()]
    return np.concatenate([beside[:, :left], elements, beside[:, left:]], axis=1)


@every_kernel
@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("side", [3, 5])
def test_rows_with_borders(checker, row, rng, side, product):
    """Every tail, pixels of some numbers, borders of some widths, of pixels or of a value.

    Rows of some thousand numbers are made in pieces.
    """
    element, lanes = DTYPES[row["dtype"]], row["lanes"]
    long = [n for pieces in (1, 2, 3) for n in pieces * 504 * lanes + rng.integers(-9, 30, 2)]
    for pixels in (*range(1, 4 * lanes), *rng.integers(4 * lanes, 20 * lanes, 12), *long):
        step = 1 if pixels in long else int(rng.integers(1, lanes // (side - 1) + 1))
        before, behind = (int(n) for n in rng.integers(0, side, 2))
        if pixels + before + behind < side:
            before = behind = side - 1
        left, right, numbers = before * step, behind * step, int(pixels) * step
        elements = rng.standard_normal((side + int(rng.integers(40)), numbers)).astype(element)
        border, value = None, element.type(0.75)
        if rng.integers(2):
            border = rng.integers(0, pixels, before + behind) * step
        weights, down = rng.standard_normal((side, side)).astype(element), None
        kernel = weights.astype(np.float64)
        if product:
            weights, down = weights[0], weights[1]
            kernel = np.outer(down.astype(np.float64), weights)
        count = left + numbers + right - (side - 1) * step
        found = filtered(
            checker, row, rng, elements, weights, down=down, border=border, value=value,
            step=step, left=left, count=count,
        )  # fmt: skip
        rows = seen_by(elements, border, value, step, left, right).astype(np.float64)
        at = np.arange(count)[:, None] + step * np.arange(side)
        windows = np.lib.stride_tricks.sliding_window_view(rows[:, at], side, 0)
        exact = np.einsum("licr,rc->li", windows, kernel)
        sizes = np.einsum("licr,rc->li", abs(windows), abs(kernel))
        assert (abs(found - exact) <= (kernel.size + 4) * np.finfo(element).eps * sizes).all()


@every_kernel
def test_pixels_are_seen_by_their_windows_alone(checker, row, rng):
    """NaN and infinities are in the results that see them, and in no others."""
    element, lanes = DTYPES[row["dtype"]], row["lanes"]
    for side, step in ((3, 1), (3, 4), (5, 1), (5, 2)):
        before = side // 2
        numbers = (9 * lanes + 3) * step
        elements = np.ones((side + 7, numbers))
        elements[side, numbers // 2], elements[side + 1, numbers - 1] = np.nan, np.inf
        elements[2, 0] = -np.inf
        border = np.zeros(2 * before, np.int64)
        found = filtered(
            checker, row, rng, elements, np.ones((side, side)), border=border, value=np.nan,
            step=step, left=before * step, count=numbers,
        )  # fmt: skip
        rows = seen_by(elements, border, 0, step, before * step, before * step)
        at = np.arange(numbers)[:, None] + step * np.arange(side)
        windows = np.lib.stride_tricks.sliding_window_view(rows[:, at], side, 0)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(found, windows.sum((2, 3)).astype(element))

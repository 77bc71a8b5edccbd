"""Sums along rows as integers: rounded half to even, saturated; blocks near half way are listed."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv._kernels import PIXELS
from tests.kernels.kernel_table import DTYPES, every_row, symbol
from tests.kernels.rows_call import Call

every_kernel = pytest.mark.parametrize("row", every_row("whole_sums"), ids=symbol)
KINDS = {"u8": np.uint8, "s8": np.int8, "u16": np.uint16, "s16": np.int16}
every_kind = pytest.mark.parametrize("kind", KINDS)
UNTOUCHED = -7
# Vectors of a block.
BLOCK = 4


def rounded(checker, row, rng, kind, rows, weights, places, near, count):
    """Call the kernel; give its integers and the list of blocks."""
    element, limits = DTYPES[row["dtype"]], np.iinfo(KINDS[kind])
    call, lines, size = Call(checker, row, rng), len(rows), BLOCK * row["lanes"]
    # What can be read behind a row does not matter.
    source = np.full((lines, rows.shape[1] + size), np.nan, element)
    source[:, : rows.shape[1]] = rows
    call.put("src", source, source.shape[1] * element.itemsize)
    call.put("places", (places * element.itemsize).astype(np.int64).reshape(1, -1), 0)
    call.put("weights", weights.astype(element).reshape(1, -1), 0)
    call.put("parameters", np.array([[near, limits.min, limits.max]], element), 0)
    room = lines * (count // size + 2)
    listed = call.put("open", np.full((1, room), UNTOUCHED), 0, writable=True)
    found = call.put("open_count", np.full((1, 1), UNTOUCHED), 0, writable=True)
    pitch = (count + int(rng.integers(5))) * KINDS[kind](0).itemsize
    call.put("dst", np.full((lines, count), 0x55, KINDS[kind]), pitch, writable=True)
    got = call.run(kind=PIXELS[kind], taps=len(weights), lines=lines, count=count)
    return got, listed[0, : found[0, 0]]


def blocks_of(count, size):
    """Where blocks begin: the last one reaches back."""
    if count < size:
        return [0]
    return sorted({*range(0, count - size + 1, size), count - size})


@every_kernel
@every_kind
def test_integers(checker, row, rng, kind):
    """Every tail, ties and saturation of exact sums; nothing is listed."""
    limits, size = np.iinfo(KINDS[kind]), BLOCK * row["lanes"]
    for count in (*range(1, size + 3), 3 * size, 3 * size + 7):
        places = np.sort(rng.integers(0, 20, int(rng.integers(1, 6))))
        lines, width = int(rng.integers(1, 5)), count + int(places[-1])
        spread = 2.2 * (limits.max - limits.min) / len(places)
        rows = np.rint(rng.uniform(-spread, spread, (lines, width))) / 2
        weights = rng.integers(-1, 2, len(places))
        sums = sum(
            weight * rows[:, at : at + count] for weight, at in zip(weights, places, strict=True)
        )
        expected = np.clip(np.rint(sums), limits.min, limits.max)
        got, listed = rounded(checker, row, rng, kind, rows, weights, places, 0.5, count)
        np.testing.assert_array_equal(got, expected)
        # Only what lies behind a short row, NaN here, may be taken for an open sum.
        assert count < size or not len(listed)


@every_kernel
@every_kind
def test_blocks_near_half_way(checker, row, rng, kind):
    """A block is listed if a sum of it is too far from its integer, and no other one."""
    size, near = BLOCK * row["lanes"], 0.5 - 2.0**-8
    one, none = np.ones(1), np.zeros(1, np.int64)
    for count in (size, 2 * size, 5 * size + 3):
        # No sum is below 0: a kernel may limit it first, and what is limited is not open.
        whole = rng.integers(1, 100, (3, count)).astype(np.float64)
        sums = whole + rng.uniform(-0.4, 0.4, whole.shape)
        places = rng.choice(whole.size, 4, replace=False)
        # Two at the limit, which is none beyond, and two beyond it.
        off = np.array([near, -near, near + 2.0**-10, -near - 2.0**-10])
        sums.ravel()[places] = whole.ravel()[places] + off
        far = abs(sums - np.rint(sums)) > near
        expected = [
            line * count + at
            for line in range(3)
            for at in blocks_of(count, size)
            if far[line, at : at + size].any()
        ]
        got, listed = rounded(checker, row, rng, kind, sums, one, none, near, count)
        np.testing.assert_array_equal(got, np.rint(sums))
        assert listed.tolist() == expected

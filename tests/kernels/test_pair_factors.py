"""Sums of pairs along rows, and down columns of such sums, against wide integers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.kernel_table import every_row, symbol
from tests.kernels.rows_call import Call

pytestmark = pytest.mark.unemulated("its kernels are x86-64's")

every_row_sums = pytest.mark.parametrize("row", every_row("pair_row_sums"), ids=symbol)
every_column_sums = pytest.mark.parametrize("row", every_row("pair_column_sums"), ids=symbol)
COUNTS = (*range(1, 70), 127, 128, 129, 255, 257, 300)
MOST_LOW = (1 << 16) - 2
LIMITS = (-(1 << 15), (1 << 15) - 1)


def wrapped(sums):
    """Integers modulo 2**32, as signed ones."""
    return (sums + (1 << 31)) % (1 << 32) - (1 << 31)


def drawn(rng, shape):
    """Draw 16-bit integers: of any size, or the least and the largest alone."""
    if rng.random() < 0.3:
        return rng.choice(LIMITS, shape).astype(np.int16)
    return rng.integers(*LIMITS, shape, np.int16, endpoint=True)


def limited(rng, shape, numbers):
    """Draw digits of which so many, all of the same sign or not, add up to the largest sum."""
    most = MOST_LOW // numbers
    if rng.random() < 0.3:
        return np.full(shape, rng.choice([-1, 1]) * min(most, LIMITS[1]), np.int16)
    return rng.integers(-min(most, -LIMITS[0]), min(most, LIMITS[1]) + 1, shape, np.int16)


def blocks_of(row, count):
    """Results of a vector, and those of whole blocks."""
    vector = 2 * row["lanes"]
    block = vector * (4 if row["lanes"] == 16 else 2)
    return vector, -(-count // block) * block


def in_turn(sums, vector):
    """Rows of results as kernels have them: first halves of 16 bytes of numbers, then others."""
    halves = sums.reshape(len(sums), -1, vector // 8, 2, 4)
    return halves.transpose(0, 1, 3, 2, 4).reshape(len(sums), -1)


@every_row_sums
def test_row_sums(checker, row, rng):
    """Every tail, shifts, sums of some pairs, pairs of several channels, the largest sums."""
    for count in COUNTS:
        vector, whole = blocks_of(row, count)
        pairs, channels = int(rng.integers(1, 9)), int(rng.choice([1, 1, 2, 3, 4]))
        together, shift = int(rng.integers(1, pairs + 1)), int(rng.integers(1, 17))
        flip = int(rng.choice([0, 1 << 15]))
        pixels = drawn(rng, whole + (2 * pairs - 1) * channels)
        high, low = drawn(rng, (pairs, 2)), limited(rng, (pairs, 2), 2 * together)
        call = Call(checker, row, rng)
        call.put("src", pixels.reshape(1, -1), 0)
        call.put("weights", np.stack([high, low], 1).reshape(1, -1), 0)
        call.put("parameters", np.array([[shift, together, flip]], np.int64), 0)
        call.put("dst", np.full((1, whole), 0x55555555, np.int32), 0, writable=True)
        found = call.run(pairs=pairs, step=2 * channels, count=count)
        x = (pixels ^ np.uint16(flip).astype(np.int16)).astype(np.int64)
        seen = np.stack([x[channels * k :][:whole] for k in range(2 * pairs)])
        seen = seen.reshape(pairs, 2, -1)
        highs, lows = (np.einsum("ke,kei->ki", w.astype(np.int64), seen) for w in (high, low))
        lows = np.add.reduceat(lows, np.arange(0, pairs, together), axis=0) + (1 << shift >> 1)
        assert np.abs(lows).max() < 1 << 31
        sums = wrapped(highs.sum(0) + (lows >> shift).sum(0)).reshape(1, -1)
        np.testing.assert_array_equal(found[:, :whole], in_turn(sums, vector))


def check_columns(checker, row, rng, rows, order, weights, parameters, count):
    """Run the kernel of columns, and compare; gives the numbers of listed results."""
    vector, whole = blocks_of(row, count)
    fraction, start, near, shift, flip = parameters
    call = Call(checker, row, rng)
    gap = 4 * whole + 64 * int(rng.integers(0, 3))
    call.put("sums", in_turn(rows, vector).astype(np.int32), gap)
    address = call.values.pop("sums")
    for name, places in zip(("first", "second"), order, strict=True):
        call.put(name, np.array([[address + gap * at for at in places]], np.int64), 0)
    digits = np.concatenate([np.zeros((len(weights), 1), np.int64), weights], 1)
    call.put("weights", digits.astype(np.int16).reshape(1, -1), 0)
    call.put("parameters", np.array([parameters], np.int64), 0)
    listed = call.put("open", np.full((1, count), -1, np.int64), 0, writable=True)
    number = call.put("open_count", np.full((1, 1), -1, np.int64), 0, writable=True)
    call.put("dst", np.full((1, count), 0x5555, np.int16), 0, writable=True)
    found = call.run(taps=len(weights), count=count)[0]
    first, second = (np.asarray(places) for places in order)
    u = wrapped(rows[first] + rows[second])
    high, low = u >> 16, (u & 0xFFFF) - (1 << 15)
    w, c, d = (weights[:, k, None] for k in range(3))
    lows = (c * low + d * high).sum(0) + (1 << shift >> 1)
    assert np.abs(lows).max() < 1 << 31
    total = wrapped(start + (w * high).sum(0) + (lows >> shift))[:count]
    expected = np.clip(total >> fraction, *LIMITS).astype(np.int16) ^ np.int16(flip - (flip << 1))
    np.testing.assert_array_equal(found, expected)
    is_near = (total & ((1 << fraction) - 1)) <= 2 * near
    made = listed[0, : number[0, 0]]
    assert (listed[0, number[0, 0] :] == -1).all()
    np.testing.assert_array_equal(np.sort(made), np.flatnonzero(is_near))
    return made


@every_column_sums
def test_column_sums(checker, row, rng):
    """Every tail, columns that are mirrored or not, shifts and fractions, the largest sums."""
    for count in COUNTS:
        taps = int(rng.integers(1, 8))
        _, whole = blocks_of(row, count)
        rows = rng.integers(-(1 << 31), 1 << 31, (2 * taps, whole))
        if rng.random() < 0.3:
            rows = rng.choice([-(1 << 30), (1 << 30) - 1, 0, 1 << 15, -1], rows.shape)
        order = rng.integers(0, 2 * taps, taps), rng.integers(0, 2 * taps, taps)
        fraction, shift = (int(n) for n in rng.integers(1, 17, 2))
        weights = np.stack(
            [drawn(rng, taps), *limited(rng, (2, taps), 2 * taps)], 1
        ).astype(np.int64)  # fmt: skip
        start, near = int(rng.integers(-(1 << 40), 1 << 40)), int(rng.integers(1 << fraction >> 1))
        flip = int(rng.choice([0, 1 << 15]))
        parameters = fraction, start, near, shift, flip
        check_columns(checker, row, rng, rows, order, weights, parameters, count)


@every_column_sums
def test_listed_results(checker, row, rng):
    """A result is listed by its own number, wherever it lies; those behind the last one are not."""
    weights = np.array([[1, 0, 0]], np.int64)
    for count in (1, 31, 129, 200):
        _, whole = blocks_of(row, count)
        for at in {0, 1, count // 2, count - 1, min(count, whole - 1)}:
            # High halves are the sums here; their fractions are far from zero, but for one.
            rows = np.full((1, whole), 1 << 18)
            rows[0, at] = 0
            made = check_columns(
                checker, row, rng, rows, ([0], [0]), weights, (4, 0, 1, 16, 0), count
            )
            assert made.tolist() == ([at] if at < count else [])


@every_column_sums
def test_all_listed(checker, row, rng):
    """Where all fractions are near, all results are listed once."""
    weights = np.array([[1, 0, 0]], np.int64)
    for count in (1, 33, 128, 130):
        _, whole = blocks_of(row, count)
        rows = np.zeros((1, whole), np.int64)
        made = check_columns(checker, row, rng, rows, ([0], [0]), weights, (16, 0, 0, 16, 0), count)
        assert sorted(made.tolist()) == list(range(count))

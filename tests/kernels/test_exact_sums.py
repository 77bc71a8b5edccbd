"""Exact sums of any length against Python's fractions: windows, limits, and the list of results."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.kernels.kernel_table import DTYPES, every_row, symbol
from tests.kernels.rows_call import Call

every_kernel = pytest.mark.parametrize("row", every_row("exact_sums"), ids=symbol)
UNTOUCHED = 0x55
LIMBS = 97


def taps_of(rng, count, kind):
    """Draw taps: any bits of float64, tiny ones, wide ranges, or sums near ties."""
    if kind == "all":
        bits = rng.integers(0, 2**64, count, dtype=np.uint64)
        taps = bits.view(np.float64)
        return np.where(np.isfinite(taps), taps, 5e-324)
    if kind == "tiny":
        return rng.standard_normal(count) * 2.0 ** rng.integers(-1074, -900, count)
    if kind == "wide":
        return rng.standard_normal(count) * 2.0 ** rng.integers(-70, 1, count)
    if kind == "halves":
        return rng.integers(-5, 6, count) / 2 + rng.choice([0.0, 5e-324, -5e-324, 2.0**-70], count)
    return rng.standard_normal(count)


def judge(checker, row, rng, *, extent, step, integer, kinds):
    """Compute some results of a band, and compare the whole output with fractions."""
    (rows, columns), limits = extent, np.iinfo(integer)
    separable = len(kinds) == 2
    height, width = int(rng.integers(1, 9)), 2 * step + 3
    shape = height + rows - 1, width + (columns - 1) * step
    pixels = rng.integers(-(2**16), 2**16, shape, endpoint=True)
    pixels[rng.random(shape) < 0.2] = 0
    # Stripes of equal rows, also longer than a window.
    if shape[0] > 1 and rng.random() < 0.7:
        begin = int(rng.integers(shape[0] - 1))
        pixels[begin : int(rng.integers(begin, shape[0])) + 1] = pixels[begin]
    factors = [
        taps_of(rng, count, kind)
        for count, kind in zip(extent if separable else (rows * columns,), kinds, strict=True)
    ]
    values = [list(map(Fraction, one.tolist())) for one in factors]
    taps = [a * b for a in values[0] for b in values[1]] if separable else values[0]
    listed = np.flatnonzero(rng.random(width * height) < 0.6)
    call = Call(checker, row, rng)
    stride = (shape[1] + int(rng.integers(0, 5))) * DTYPES[row["dtype"]].itemsize
    call.put("src", pixels.astype(DTYPES[row["dtype"]]), stride)
    call.put("taps", np.concatenate(factors).reshape(1, -1), 0)
    call.put("open", np.append(listed, 0).reshape(1, -1), 0)
    call.put("scratch", np.zeros((1, rows * LIMBS if separable else 1), np.int64), 0, writable=True)
    dst_rs = width * integer(0).itemsize
    call.put("dst", np.full((height, width), UNTOUCHED, integer), dst_rs, writable=True)
    got = call.run(
        step=step, rows=rows, columns=columns, separable=int(separable), low=limits.min,
        high=limits.max, size=integer(0).itemsize, count=len(listed), pitch=height,
    )  # fmt: skip
    expected = np.full((height, width), UNTOUCHED, integer)
    for key in listed.tolist():
        i, at = key // height, key % height
        window = pixels[at : at + rows, i : i + (columns - 1) * step + 1 : step]
        total = sum(t * p for t, p in zip(taps, window.ravel().tolist(), strict=True))
        expected[at, i] = min(max(round(total), limits.min), limits.max)
    np.testing.assert_array_equal(got, expected)


@every_kernel
@pytest.mark.parametrize("integer", [np.uint8, np.int8, np.uint16, np.int16, np.int32])
@pytest.mark.parametrize("kinds", [("all",), ("tiny",), ("halves",), ("normal",)], ids=str)
def test_kernels(checker, row, integer, kinds, rng):
    """Neighbouring pixels, and every third one."""
    for step in (1, 3):
        extent = int(rng.integers(1, 5)), int(rng.integers(1, 9))
        judge(checker, row, rng, extent=extent, step=step, integer=integer, kinds=kinds)


@every_kernel
@pytest.mark.parametrize("down", ["all", "tiny", "halves", "wide"])
@pytest.mark.parametrize("across", ["all", "tiny", "halves", "normal", "wide"])
def test_columns_and_rows(checker, row, down, across, rng):
    """Separable taps: row sums are reused from one result of a column to the next."""
    for integer in (np.uint8, np.int16, np.int32):
        extent, step = (int(rng.integers(1, 6)), int(rng.integers(1, 6))), int(rng.choice([1, 3]))
        judge(checker, row, rng, extent=extent, step=step, integer=integer, kinds=(down, across))


@every_kernel
def test_millions_of_taps(checker, row):
    """Digits are carried before they overflow."""
    columns = (1 << 22) + 3
    memory = {name: checker.arena(name, pages=columns // 512 + 8) for name in ("src", "taps")}
    element = DTYPES[row["dtype"]]
    src = memory["src"].buffer(columns * element.itemsize, "end", 0)
    src.array((columns,), element, (element.itemsize,))[...] = 65536
    taps = memory["taps"].buffer(columns * 8, "end", 0)
    taps.array((columns,), np.float64, (8,))[...] = np.nextafter(2.0**-24, 0)
    dst = checker.arena("dst", writable=True).buffer(4, "start", 0)
    listed = checker.arena("open").buffer(8, "start", 0)
    listed.array((1,), np.int64, (8,))[0] = 0
    values = dict.fromkeys(("src_rs", "dst_rs", "separable", "scratch"), 0)
    values |= {"src": src.address, "taps": taps.address, "dst": dst.address}
    values |= {"open": listed.address, "step": 1, "rows": 1, "columns": columns, "pitch": 1}
    values |= {"count": 1, "size": 4, "low": -(2**31), "high": 2**31 - 1}
    checker.call(row, values, "millions")
    exact = round(columns * 65536 * Fraction(float(np.nextafter(2.0**-24, 0))))
    assert dst.array((1,), np.int32, (4,))[0] == exact

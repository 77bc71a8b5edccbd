"""Means of squares, made where images lie, against wide integers."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from pplconv import planner
from pplconv.imaging import Compose, box, filter2d
from pplconv.imaging.means import means_of as loops_of
from pplconv.imaging.rounding import Exact
from pplconv.numerics import numerics_of
from tests.imaging.image_reference import BORDERS, windows_of
from tests.levels import allowed_isas

WORDS = ("uint16", "int16")
PIXELS = (*WORDS, "uint8")
# Sides that kernels make, on both sides of those that they do not.
SIDES = range(2, 35)


def drawn(rng, shape, dtype):
    """Draw pixels of any size, or the smallest and the largest alone."""
    info = np.iinfo(dtype)
    any_size = rng.integers(info.min, info.max + 1, shape)
    return rng.choice([any_size, rng.choice([info.min, info.max], shape)]).astype(dtype)


def means_of(image, side, anchor, border, value=0, tap=None):
    """Exact means, rounded; of an even area, taps that are not exact decide where one is a half."""
    sums = windows_of(image.astype(np.int64), (side, side), anchor, border, value).sum((3, 4))
    area = side**2
    below, rest = np.divmod(2 * sums + area, 2 * area)
    tap = Fraction(1 / side) ** 2 if tap is None else Fraction(tap)
    more = tap * area - 1
    down = below % 2 == 1 if more == 0 else (sums < 0) == (more > 0)
    return (below - ((rest == 0) & down)).astype(image.dtype)


@pytest.mark.parametrize("dtype", PIXELS)
@pytest.mark.parametrize("side", SIDES)
def test_every_side(side, dtype, rng):
    """Borders and channels, in one band and in several."""
    for border in BORDERS:
        for channels in (1, 3, 4):
            shape = int(rng.integers(1, 90)), int(rng.integers(1, 120)), channels
            image = drawn(rng, shape, dtype)
            out = np.full(shape, 0x55, dtype)
            threads = int(rng.integers(1, 4))
            box(image, side, border=border, value=9, out=out, threads=threads)
            expected = means_of(image, side, (side // 2, side // 2), border, 9)
            np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("side", [3, 5, 9])
@pytest.mark.parametrize("border", BORDERS)
def test_every_width(side, border, rng):
    """Widths around those of which parts are copied, and all anchors."""
    for width in (*range(1, 12), *range(29, 38), *range(60, 68), *range(90, 108), 160):
        for channels in (1, 3):
            image = drawn(rng, (int(rng.integers(1, 80)), width, channels), "uint16")
            anchor = tuple(rng.integers(0, side, 2).tolist())
            out = np.full(image.shape, 0x55, np.uint16)
            filter2d(
                image, np.full((side, side), 1 / side**2), border=border, value=0x1234, out=out,
                anchor=anchor[::-1], threads=int(rng.integers(1, 3)),
            )  # fmt: skip
            np.testing.assert_array_equal(out, means_of(image, side, anchor, border, 0x1234))


@pytest.mark.parametrize("level", allowed_isas())
@pytest.mark.parametrize("dtype", WORDS)
def test_other_levels(level, dtype, rng, monkeypatch):
    """Kernels of shorter vectors, or none."""
    monkeypatch.setenv("PPLCONV_MAX_ISA", level)
    for side in (3, 5, 8, 15):
        image = drawn(rng, (60, 77, 3), dtype)
        expected = means_of(image, side, (side // 2, side // 2), "reflect")
        np.testing.assert_array_equal(box(image, side, border="reflect"), expected)


@pytest.mark.parametrize("side", [3, 5, 6, 15])
def test_rows_apart(side, rng):
    """Images whose rows or pixels are apart; around the results nothing is written."""
    for channels in (1, 3):
        whole = drawn(rng, (90, 300, channels), "uint16")
        wide = np.s_[3:70, 5:200], np.s_[80:2:-1, 7:], np.s_[::3], np.s_[:, ::2]
        # Of rows shorter than a vector, as many results are made, but not stored.
        parts = (*wide, np.s_[2:80, 4:5], np.s_[5:, 10:17], np.s_[:8, :31])
        for image in (*(whole[part] for part in parts), whole.astype(">u2")):
            around = np.full(image.size + 200, 0x55, np.uint16)
            out = around[99 : 99 + image.size].reshape(image.shape)
            box(image, side, out=out)
            expected = means_of(image, side, (side // 2, side // 2), "reflect101")
            np.testing.assert_array_equal(out, expected)
            assert (np.append(around[:99], around[99 + image.size :]) == 0x55).all()


@pytest.mark.parametrize("side", [3, 5, 15])
def test_inside(side, rng):
    """Results without borders are made of the image alone."""
    image = drawn(rng, (100, 1500, 3), "uint16")
    whole = means_of(image, side, (0, 0), "constant")
    found = filter2d(image, np.full((side, side), 1 / side**2), mode="valid")
    np.testing.assert_array_equal(found, whole[: 1 - side, : 1 - side])


def test_many_channels(rng):
    """Pixels beside each other that are far apart, and too far for the kernel."""
    for channels in (60, 73, 74, 200):
        image = drawn(rng, (20, 19, channels), "uint16")
        expected = means_of(image, 15, (7, 7), "replicate")
        np.testing.assert_array_equal(box(image, 15, border="replicate"), expected)


def test_one_after_another(rng):
    """Bands whose rows lie in windows."""
    image = drawn(rng, (700, 900), "uint16")
    expected = means_of(image[..., None], 3, (1, 1), "reflect101")
    expected = means_of(expected, 9, (4, 4), "reflect101")[..., 0]
    found = Compose([partial(box, size=3), partial(box, size=9)])(image)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("side", [3, 6, 14, 15, 16])
def test_halves(side, rng):
    """Sums that are half way, or beside it: taps that are a little more or less than a share."""
    area = side**2
    sums = rng.integers(0, 0xFFFF, 200) * area + area // 2 + rng.integers(0, 2, 200)
    base, rest = np.divmod(sums, area)
    squares = base[:, None] + (np.arange(area) < rest[:, None])
    image = squares.reshape(-1, side, side).transpose(1, 0, 2).reshape(side, -1).astype(np.uint16)
    for tap in (1 / area, np.nextafter(1 / area, 0), np.nextafter(1 / area, 1)):
        found = filter2d(image, np.full((side, side), tap), mode="valid")[0, ::side]
        expected = means_of(image[..., None], side, (0, 0), "constant", tap=tap)[0, ::side, 0]
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("result", ["int32", "uint8", "int16", "float32"])
def test_other_results(result, rng):
    """Results of other types are made by other loops."""
    image = drawn(rng, (30, 100), "uint16") // 3
    means = means_of(image[..., None], 3, (1, 1), "reflect101")[..., 0].astype(np.int64)
    found = box(image, 3, dtype=result)
    if result == "float32":
        np.testing.assert_allclose(found, means, atol=0.51)
        return
    info = np.iinfo(result)
    np.testing.assert_array_equal(found, np.clip(means, info.min, info.max))


@pytest.mark.unemulated("its kernels are x86-64's")
@pytest.mark.needs_isa("avx2")
def test_which_are_means():
    """Squares of equal taps that are shares of one, of 16-bit pixels."""

    def is_mean(kernel, pixel="uint16", result="uint16", width=100, channels=1):
        exact = Exact.of(np.array(kernel, float).ravel(), int(np.iinfo(pixel).max))
        way = exact.way(exact.dtype)
        types = np.dtype(pixel), np.dtype(result)
        return loops_of(way, np.shape(kernel), *types, width, channels) is not None

    assert all(is_mean(np.full((n, n), 1 / n**2)) for n in (3, 4, 5, 7, 8, 15, 16, 17, 31, 32))
    assert is_mean(np.full((3, 3), 1 / 9), "int16", "int16")
    assert not is_mean(np.full((33, 33), 1 / 33**2))
    assert is_mean(np.full((31, 31), 1 / 961), "uint8", "uint8")
    # Smaller squares of bytes are summed up in 16 bits, but where AVX2 is faster so.
    with_avx2 = planner.best_isa(numerics_of("f32", "f32")) == "avx2"
    for side, width in ((16, 1000), (10, 1000), (9, 512), (6, 64)):
        taps = np.full((side, side), 1 / side**2)
        assert is_mean(taps, "uint8", "uint8", width) == with_avx2
    assert not is_mean(np.full((9, 9), 1 / 81), "uint8", "uint8", 513)
    assert not is_mean(np.full((5, 5), 1 / 25), "uint8", "uint8", 64)
    assert not is_mean(np.full((3, 5), 1 / 15))
    assert not is_mean(np.full((3, 3), 2 / 9))
    assert not is_mean(np.full((3, 3), 0.1))
    assert not is_mean([[1 / 8] * 3, [1 / 8, 0, 1 / 8], [1 / 8] * 3])
    assert not is_mean(np.full((3, 3), 1 / 9), "uint16", "int16")
    assert is_mean(np.full((3, 3), 1 / 9), width=1)
    assert is_mean(np.full((3, 3), 1 / 9), width=8, channels=4)
    assert not is_mean(np.full((15, 15), 1 / 225), channels=74)

"""Resampling: weighted sums of pixels that lie anywhere, and copies that keep every bit."""

from __future__ import annotations

import numpy as np
import pytest

from asm.contract import POOLINGS
from tests.kernels.kernel_table import computed, computed_lanes_of, every_row, symbol
from tests.kernels.kernel_values import draw
from tests.kernels.packing_case import PackingCall

every_kernel = pytest.mark.parametrize("row", every_row("resample"), ids=symbol)
WEIGHTED = [row for row in every_row("resample") if row["dtype"] != "u8"]
every_weighted = pytest.mark.parametrize("row", WEIGHTED, ids=symbol)


class Resampled:
    """A call that reads random pixels of an image of a few rows."""

    def __init__(self, checker, row, rng, channels: int, taps: tuple[int, int], pixels: int):
        self.call = PackingCall(checker, row, rng)
        self.taps, self.rng = taps, rng
        size = self.call.dtype.itemsize
        height, width = taps[0] + 1, pixels + taps[1]
        ps = (channels + int(rng.integers(0, 3))) * size
        rs = width * ps + int(rng.integers(0, 3)) * size
        self.image = self.call.place_input("src", (height, width, channels), (rs, ps, size))
        self.rows = rng.integers(0, height, taps[0])
        self.columns = rng.integers(0, width, (pixels, taps[1]))
        addresses = self.call.values["src"] + self.rows * rs
        self.call.place_bytes("rows", addresses.astype(np.uintp).tobytes())
        self.call.place_bytes("offset_x", (self.columns * ps).astype(np.int64).tobytes())
        kind = computed(self.call.dtype)
        self.weight_y = rng.uniform(-0.5, 1, taps[0]).astype(kind)
        self.weight_x = rng.uniform(-0.5, 1, (pixels, taps[1])).astype(kind)
        self.call.place_bytes("weight_y", self.weight_y.tobytes())
        self.call.place_bytes("weight_x", self.weight_x.tobytes())
        dst_ps = (channels + int(rng.integers(0, 3))) * size
        self.call.place_output("dst", (pixels, channels), (dst_ps, size))
        self.call.values |= {
            "dst_ps": dst_ps,
            "pixels": pixels,
            "channels": channels,
            "taps_y": taps[0],
            "taps_x": taps[1],
            "kind": POOLINGS["SUM"],
        }

    def read(self) -> np.ndarray:
        """The pixels that the outputs are computed from: (taps_y, pixels, taps_x, channels)."""
        return self.image[self.rows[:, np.newaxis, np.newaxis], self.columns[np.newaxis]]

    def check(self) -> None:
        """Run the kernel, and compare with float64 within the bound of all roundings."""
        got = self.call.run(self.call.values)
        if self.taps == (1, 1):
            self.call.same_bits(got, self.read()[0, :, 0], self.call.values)
            return
        weights = self.weight_y[:, np.newaxis, np.newaxis] * self.weight_x.astype(np.float64)
        with np.errstate(invalid="ignore"):
            terms = self.read().astype(np.float64) * weights[..., np.newaxis]
            expected = terms.sum(axis=(0, 2))
            size = np.abs(terms).sum(axis=(0, 2))
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(got[~finite], expected[~finite], str(self.call.values))
        info, eps = np.finfo(got.dtype), np.finfo(self.weight_x.dtype).eps
        allowed = (sum(self.taps) + 3) * eps * size[finite]
        # A sum of halves may be a subnormal half.
        allowed += info.eps * np.abs(expected[finite]) + float(info.smallest_subnormal)
        assert (np.abs(got[finite] - expected[finite]) <= allowed).all(), self.call.values


@every_kernel
@pytest.mark.parametrize("taps", [(1, 1), (2, 2), (4, 4), (1, 2), (2, 1), (3, 5)])
def test_every_number_of_channels(checker, row, taps, rng):
    if row["dtype"] == "u8" and taps != (1, 1):
        return  # bytes are only copied
    lanes = computed_lanes_of(row) * (4 if row["dtype"] == "u8" else 1)
    more = [vectors * lanes + i for vectors in (2, 3, 4, 5, 7) for i in (0, 1)]
    # Copies work on bytes, so that more sizes differ.
    for channels in (*range(1, 4 * lanes + 4 if taps == (1, 1) else 2 * lanes + 4), *more):
        pixels = int(rng.integers(1, 4))
        Resampled(checker, row, rng, channels, taps, pixels).check()


@every_kernel
def test_copies_keep_bits_that_no_product_would(checker, row, rng):
    """Signaling NaN, payloads, subnormal numbers; the weights are not read."""
    for channels in (1, 5, 40, 200):
        case = Resampled(checker, row, rng, channels, (1, 1), 3)
        bits = case.image.view(f"u{case.image.dtype.itemsize}")
        bits[...] = rng.integers(0, np.iinfo(bits.dtype).max, bits.shape, bits.dtype)
        del case.call.values["weight_x"], case.call.values["weight_y"]
        case.check()


@every_weighted
def test_a_large_pixel_of_weight_zero(checker, row, rng):
    """Zero times infinity is NaN as in NumPy."""
    case = Resampled(checker, row, rng, computed_lanes_of(row) + 1, (2, 2), 2)
    case.image[...] = draw(rng, "random", case.image.shape, case.image.dtype)
    case.image[case.rows[0], case.columns[0, 0]] = np.inf
    case.weight_x[0, 0] = 0
    case.call.place_bytes("weight_x", case.weight_x.tobytes())
    assert np.isnan(case.call.run("infinity")[0]).all()


@every_weighted
@pytest.mark.parametrize("taps", [(2, 2), (1, 3), (4, 2)])
def test_the_largest_weighted_pixel(checker, row, taps, rng):
    """Products are rounded as in NumPy; NaN wins."""
    lanes = computed_lanes_of(row)
    for channels in (1, lanes - 1, lanes, lanes + 1, 3 * lanes + 2):
        case = Resampled(checker, row, rng, max(channels, 1), taps, 2)
        case.call.values["kind"] = POOLINGS["MAX"]
        case.image[rng.random(case.image.shape) < 0.02] = np.nan
        got = case.call.run(case.call.values)
        weights = case.weight_y[:, np.newaxis, np.newaxis] * case.weight_x
        terms = case.read().astype(weights.dtype) * weights[..., np.newaxis]
        np.testing.assert_array_equal(got, terms.max((0, 2)).astype(got.dtype))

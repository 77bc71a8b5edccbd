"""Pooling with places: every number of channels, ties, NaN, and windows in parts."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from tests.kernels.kernel_table import every_row, symbol
from tests.kernels.packing_case import PackingCall

every_kernel = pytest.mark.parametrize("row", every_row("pool_places"), ids=symbol)
STEPS = {"place": 7, "place_ps": 3, "place_rs": 50, "place_cs": 11, "place_channel": 1000}


def expected(taps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest of (pixels, rows, columns, channels), and the place of the first of them."""
    pixels, rows, columns, channels = taps.shape
    numbers = np.arange(rows)[:, None] * 50 + np.arange(columns) * 11
    flat = taps.reshape(pixels, rows * columns, channels)
    first = flat.argmax(1)
    beside = 7 + np.arange(pixels)[:, None] * 3 + np.arange(channels) * 1000
    return np.take_along_axis(flat, first[:, None], 1)[:, 0], numbers.reshape(-1)[first] + beside


class Windows:
    """A call for pixels of one row, whose windows overlap."""

    def __init__(self, checker, row, rng, channels: int, taps: tuple[int, int], pixels: int):
        self.call = PackingCall(checker, row, rng)
        size = self.call.dtype.itemsize
        step, gap = int(rng.integers(1, 4)), int(rng.integers(0, 3))
        ps = (channels + gap) * size
        width = (pixels - 1) * step + taps[1]
        rs = width * ps + int(rng.integers(0, 5)) * size
        self.image = self.call.place_input("src", (taps[0], width, channels), (rs, ps, size))
        # Few numbers: many ties.
        self.image[...] = rng.integers(-2, 3, self.image.shape)
        self.shape, self.strides = (pixels, *taps, channels), (step * ps, rs, ps, size)
        self.call.place_output("dst", (pixels, channels), (ps, size))
        buffer = self.call._buffer("places", pixels * channels * 8, writable=True, unit=8)
        self.places = buffer.array((pixels, channels), np.int64, (channels * 8, 8))
        self.call.values |= {
            "places": buffer.address, "src_ps": step * ps, "src_rs": rs, "src_cs": ps,
            "dst_ps": ps, "places_ps": channels * 8, "pixels": pixels, "channels": channels,
            "rows": taps[0], "columns": taps[1], "more": 0, **STEPS,
        }  # fmt: skip

    def run(self) -> tuple[np.ndarray, np.ndarray]:
        """The largest elements, and their places."""
        return self.call.run(self.call.values), self.places

    def check(self) -> None:
        """Run the kernel and compare."""
        values, places = self.run()
        wanted, where = expected(as_strided(self.image, self.shape, self.strides))
        np.testing.assert_array_equal(values, wanted)
        np.testing.assert_array_equal(places, where)


@every_kernel
@pytest.mark.parametrize("taps", [(1, 1), (1, 7), (3, 1), (2, 2), (3, 4)])
def test_every_number_of_channels(checker, row, taps, rng):
    for channels in (*range(1, 20), 33):
        Windows(checker, row, rng, channels, taps, int(rng.integers(1, 4))).check()


@every_kernel
def test_nan_comes_first(checker, row, rng):
    for _ in range(10):
        windows = Windows(checker, row, rng, 11, (2, 3), 2)
        windows.image[rng.random(windows.image.shape) < 0.3] = np.nan
        windows.image[rng.random(windows.image.shape) < 0.3] = -np.inf
        windows.check()


@every_kernel
@pytest.mark.parametrize("taps", [(0, 3), (3, 0)])
def test_no_taps(checker, row, taps, rng):
    windows = Windows(checker, row, rng, 9, (3, 3), 2)
    windows.call.values |= dict(zip(("rows", "columns"), taps, strict=True))
    values, places = windows.run()
    np.testing.assert_array_equal(values, np.finfo(windows.call.dtype).min)
    np.testing.assert_array_equal(places, -1)

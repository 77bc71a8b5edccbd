"""Pooling: every number of channels, windows that overlap, the order of sums, and NaN."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from asm.contract import POOLINGS
from tests.kernels.kernel_table import (
    DTYPES,
    computed,
    computed_lanes_of,
    every_row,
    float_rows,
    symbol,
)
from tests.kernels.packing_case import PackingCall

# Kernels of bytes give the largest alone, by vectors of 16.
PIECE = 16
every_kernel = pytest.mark.parametrize(
    ("row", "kind"),
    [
        pytest.param(row, kind, id=f"{symbol(row)}-{kind}")
        for row in every_row("pool") for kind in POOLINGS
        if kind == "MAX" or DTYPES[row["dtype"]].kind == "f"
    ],
)  # fmt: skip
every_float_kernel = pytest.mark.parametrize("row", float_rows("pool"), ids=symbol)


def together(row: dict) -> int:
    """Channels of a vector."""
    return PIECE if DTYPES[row["dtype"]].itemsize == 1 else computed_lanes_of(row)


def pooled(taps: np.ndarray, kind: str, scale: float) -> np.ndarray:
    """Pool (pixels, rows, columns, channels) in the contract's order."""
    if kind == "MAX":
        return taps.max(axis=(1, 2))
    wide = taps.astype(computed(taps.dtype))
    total = None
    with np.errstate(invalid="ignore"):
        for row in range(taps.shape[1]):
            of_row = wide[:, row, 0]
            for column in range(1, taps.shape[2]):
                of_row = of_row + wide[:, row, column]
            total = of_row if total is None else total + of_row
        return (total * wide.dtype.type(scale)).astype(taps.dtype)


class Window:
    """A call for pixels of one row, whose windows overlap at random."""

    def __init__(self, checker, row, rng, channels: int, taps: tuple[int, int], pixels: int):
        self.call = PackingCall(checker, row, rng)
        size = self.call.dtype.itemsize
        step, dilation = (int(x) for x in rng.integers(1, 4, 2))
        gap = int(rng.integers(0, 4)) * int(rng.integers(0, 2))
        ps = (channels + gap) * size
        width = (pixels - 1) * step + (taps[1] - 1) * dilation + 1
        rs = width * ps + int(rng.integers(0, 5)) * size
        self.image = self.call.place_input("src", (taps[0], width, channels), (rs, ps, size))
        self.strides = (step * ps, rs, dilation * ps)
        self.shape = (pixels, *taps, channels)
        dst_ps = (channels + int(rng.integers(0, 3))) * size
        self.call.place_output("dst", (pixels, channels), (dst_ps, size))
        self.call.values |= {
            **dict(zip(("src_ps", "src_rs", "src_cs"), self.strides, strict=True)),
            "dst_ps": dst_ps,
            "pixels": pixels,
            "channels": channels,
            "rows": taps[0],
            "columns": taps[1],
        }

    def check(self, kind: str) -> None:
        """Run the kernel and compare; any NaN equals any other."""
        scale = 1 / (self.shape[1] * self.shape[2])
        self.call.values["kind"] = POOLINGS[kind]
        if kind == "SUM":
            self.call.place_bytes("scale", np.float64(scale).tobytes())
        got = self.call.run((kind, self.call.values))
        strides = (*self.strides, self.call.dtype.itemsize)
        expected = pooled(as_strided(self.image, self.shape, strides), kind, scale)
        np.testing.assert_array_equal(got, expected, str(self.call.values))


@every_kernel
def test_every_number_of_channels(checker, row, kind, rng):
    """Up to two vectors, and around multiples of a vector, which run in groups."""
    lanes = together(row)
    more = [vectors * lanes + i for vectors in range(2, 9) for i in (0, 1)]
    for channels in (*range(1, 2 * lanes + 4), *more):
        taps = (int(rng.integers(1, 4)), int(rng.integers(1, 5)))
        Window(checker, row, rng, channels, taps, int(rng.integers(1, 5))).check(kind)


@every_kernel
@pytest.mark.parametrize("taps", [(1, 1), (2, 2), (3, 3), (1, 7), (7, 1), (5, 5), (7, 7), (13, 20)])
def test_windows(checker, row, kind, taps, rng):
    for pixels in (1, 2, 9):
        channels = int(rng.integers(1, 5 * together(row)))
        Window(checker, row, rng, channels, taps, pixels).check(kind)


@every_float_kernel
def test_nan_wins_wherever_it_is(checker, row, rng):
    """NaN at each tap alone, in some lanes; all other inputs are -inf."""
    channels = computed_lanes_of(row) + 3
    for tap in range(9):
        window = Window(checker, row, rng, channels, (3, 3), 1)
        window.image[...] = -np.inf
        window.image[tap // 3, window.strides[2] // window.image.strides[1] * (tap % 3)] = np.where(
            np.arange(channels) % 3 == tap % 3, np.nan, -np.inf
        )
        window.check("MAX")

"""Direct sums replace Winograd's sums that are infinite or NaN, and no others."""

from __future__ import annotations

import numpy as np
import pytest

from asm.contract import FLAGS
from tests.kernels.guarded_memory import extent_of
from tests.kernels.kernel_table import DTYPES, rows, symbol
from tests.kernels.packing_case import PackingCall
from tests.kernels.winograd_case import EPSILON, place_epilogue, spaced

every_kernel = pytest.mark.parametrize("row", rows("direct_sums"), ids=symbol)
BIAS, RESIDUAL, CLIP = FLAGS["BIAS_COLUMN"], FLAGS["RESIDUAL"], FLAGS["CLIP"]
EVERY_FLAG = [b | r | c for b in (0, BIAS) for r in (0, RESIDUAL) for c in (0, CLIP)]
SPECIAL = (np.nan, np.inf, -np.inf)
LOW, HIGH = -2.0, 1.5


class Tile:
    """One call: its operands between guard pages, and the expected result."""

    def __init__(self, checker, row, rng, *, channels, ic, block, taps, pixels, flags, halves=0):
        self.row, self.rng, self.flags = row, rng, flags
        self.call = call = PackingCall(checker, row, rng)
        self.storage = np.dtype(np.float16) if halves else DTYPES[row["dtype"]]
        shape = (*pixels, channels)
        strides = spaced(rng, row["dtype"], *shape)
        self.sums = call.place_input("sums", shape, strides)
        self.sums[...] = rng.standard_normal(shape)
        call.values |= {"sums_rs": strides[0], "sums_ps": strides[1]}
        self.place_image(ic, block, (pixels[0] + taps[0] - 1, pixels[1] + taps[1] - 1))
        # Weights may have any address.
        self.weights = self.place("weights", (channels, ic, *taps), unit=1)
        dst = spaced(rng, row["dtype"], *shape)
        call.place_output("dst", shape, dst)
        call.values |= {"dst_rs": dst[0], "dst_ps": dst[1]}
        call.values |= {"rows": pixels[0], "columns": pixels[1], "channels": channels}
        call.values |= {"ic": ic, "block": block, "halves": halves}
        call.values |= {"kh": taps[0], "kw": taps[1]}
        self.bias, self.residual, _ = place_epilogue(call, shape, flags, (LOW, HIGH))

    def place(self, name, shape, strides=None, unit=0):
        """Make an input of normally distributed numbers, in the type of the arrays."""
        size = self.storage.itemsize
        if strides is None:
            strides = np.empty(shape, self.storage).strides
        extent = extent_of(shape, strides, size)
        buffer = self.call._buffer(name, extent, writable=False, unit=unit or size)
        array = buffer.array(shape, self.storage, strides)
        array[...] = self.rng.standard_normal(shape)
        return array

    def place_image(self, ic, block, patch):
        """Make the image, only part of which the patch covers, and the patch with its padding."""
        rng, values, size = self.rng, self.call.values, self.storage.itemsize
        begin = [int(rng.integers(-2, 2)) for _ in patch]
        shape = [int(rng.integers(1, p + 3)) for p in patch]
        blocks = -(-ic // block)
        gaps = [int(g) * size for g in rng.integers(0, 5, 3)]
        ps = block * size + gaps[0]
        rs = shape[1] * ps + gaps[1]
        bs = shape[0] * rs + gaps[2]
        image = self.place("src", (blocks, *shape, block), (bs, rs, ps, size))
        # The last block's lanes beyond the channels must not be read.
        image[-1, :, :, ic - (blocks - 1) * block :] = np.nan
        values["src"] -= begin[0] * rs + begin[1] * ps
        values |= {"src_bs": bs, "src_rs": rs, "src_ps": ps}
        for name, first, count in zip(("row", "column"), begin, shape, strict=True):
            values |= {f"{name}_begin": first, f"{name}_end": first + count}
        planes = np.moveaxis(image, -1, 1).reshape(-1, *shape)[:ic].astype(np.float64)
        self.patch = np.zeros((ic, *patch))
        for y in range(patch[0]):
            for x in range(patch[1]):
                row, column = y - begin[0], x - begin[1]
                if 0 <= row < shape[0] and 0 <= column < shape[1]:
                    self.patch[:, y, x] = planes[:, row, column]

    def spoil(self, share):
        """Make a share of the sums infinite or NaN; give a mask of them."""
        where = self.rng.random(self.sums.shape) < share
        self.sums[where] = self.rng.choice(SPECIAL, int(where.sum()))
        return where

    def expected(self):
        """Give all direct sums with their epilogue, and their error bounds."""
        rows, columns, _ = self.sums.shape
        w = self.weights.astype(np.float64)
        kh, kw = w.shape[2:]
        total = np.zeros((2, *self.sums.shape))
        for y in range(rows):
            for x in range(columns):
                window = self.patch[:, y : y + kh, x : x + kw]
                total[0, y, x] = np.einsum("ocij,cij->o", w, window)
                total[1, y, x] = np.einsum("ocij,cij->o", np.abs(w), np.abs(window))
        for added in (self.bias, self.residual):
            if added is not None:
                total[0] += added
                total[1] += np.abs(added)
        allowed = (w[0].size + 4) * EPSILON[self.row["dtype"]] * total[1]
        exact = np.clip(total[0], LOW, HIGH) if self.flags & CLIP else total[0]
        return exact, allowed

    def check(self, share):
        """Run the kernel and compare; `dst` is unchanged where the sums were finite."""
        where = self.spoil(share)
        before = np.full(self.sums.shape, np.nan)
        got = self.call.run(self.call.values)
        exact, allowed = self.expected()
        assert (np.abs(got - exact) <= allowed)[where].all(), self.call.values
        np.testing.assert_array_equal(got[~where], before[~where], "written without need")


@every_kernel
@pytest.mark.parametrize("flags", EVERY_FLAG)
def test_channels(checker, row, flags, rng):
    """Every tail of channels."""
    lanes = row["vector_bytes"] // DTYPES[row["dtype"]].itemsize
    for channels in [*range(1, lanes + 2), 2 * lanes, 2 * lanes + 3]:
        tile = Tile(
            checker, row, rng, channels=channels, ic=int(rng.integers(1, 6)), block=1, taps=(3, 3),
            pixels=(4, 4), flags=flags,
        )  # fmt: skip
        tile.check(0.3)


@every_kernel
@pytest.mark.parametrize("taps", [(3, 3), (5, 5), (2, 11), (7, 6)])
def test_tiles_and_blocks(checker, row, taps, rng):
    """Tiles of every size, anywhere in an image, with channels in blocks or not."""
    for height in range(1, 7):
        for width in range(1, 7):
            block = int(rng.choice([1, 2, 3, 8, 16]))
            tile = Tile(
                checker, row, rng, channels=int(rng.integers(1, 20)), ic=int(rng.integers(1, 18)),
                block=block, taps=taps, pixels=(height, width), flags=int(rng.choice(EVERY_FLAG)),
            )  # fmt: skip
            tile.check(float(rng.choice([0.05, 0.5, 1.0])))


@every_kernel
def test_nothing_is_written_where_all_is_finite(checker, row, rng):
    tile = Tile(
        checker, row, rng, channels=19, ic=3, block=1, taps=(3, 3), pixels=(4, 4),
        flags=BIAS | RESIDUAL | CLIP,
    )  # fmt: skip
    tile.check(0.0)


@pytest.mark.parametrize("row", [r for r in rows("direct_sums") if r["dtype"] == "f32"], ids=symbol)
def test_halves(checker, row, rng):
    """Arrays in half precision, arithmetic in float."""
    for block in (1, 5, 8):
        for taps in ((3, 3), (4, 7)):
            tile = Tile(
                checker, row, rng, channels=int(rng.integers(1, 20)), ic=int(rng.integers(1, 12)),
                block=block, taps=taps, pixels=(4, 3), flags=BIAS, halves=1,
            )  # fmt: skip
            tile.check(0.5)


@every_kernel
def test_special_numbers_reach_their_window(checker, row, rng):
    """Infinite and NaN weights give infinities and NaN, except for taps on padding."""
    tile = Tile(
        checker, row, rng, channels=17, ic=2, block=1, taps=(3, 3), pixels=(4, 4), flags=0,
    )  # fmt: skip
    tile.weights[...] = np.abs(tile.weights) + 0.1
    tile.weights[::2] *= -1
    tile.weights[3, 1, 0, 0] = np.nan
    tile.weights[4, 0, 2, 2] = np.inf
    tile.sums[...] = np.nan
    got = tile.call.run(tile.call.values)
    inside = np.zeros(tile.patch.shape[1:], bool)
    values = tile.call.values
    inside[max(values["row_begin"], 0) : max(values["row_end"], 0),
           max(values["column_begin"], 0) : max(values["column_end"], 0)] = True  # fmt: skip
    np.testing.assert_array_equal(np.isnan(got[:, :, 3]), inside[:4, :4], "taps of padding count")
    infinite = np.where(inside[2:, 2:], np.sign(tile.patch[0, 2:, 2:]), 0)
    np.testing.assert_array_equal(np.isposinf(got[:, :, 4]), infinite > 0)
    np.testing.assert_array_equal(np.isneginf(got[:, :, 4]), infinite < 0)
    assert np.isfinite(np.delete(got, (3, 4), axis=2)).all()

"""Channel planes to pixels, and pixels with more channels: every tail, zero-filled lanes, gaps."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.kernel_table import every_row, lanes_of, symbol
from tests.kernels.packing_case import PackingCall

ROWS = every_row("pack_channels")
NARROW = [row for row in ROWS if row["dtype"] in ("u8", "s16")]
every_kernel = pytest.mark.parametrize("row", ROWS, ids=symbol)
every_narrow_kernel = pytest.mark.parametrize("row", NARROW, ids=symbol)
every_padding = pytest.mark.parametrize("row", every_row("pad_channels"), ids=symbol)


def check(checker, row, rng, shape, fill, gaps):
    """Pack one image of `shape` (channels, rows, columns).

    `gaps` are elements between the planes, between the rows of src, between the pixels and
    between the rows of dst.
    """
    call = PackingCall(checker, row, rng)
    size = call.dtype.itemsize
    _, height, width = shape
    src_rs = (width + gaps[1]) * size
    src_cs = height * src_rs + gaps[0] * size
    src = call.place_input("src", shape, (src_cs, src_rs, size))
    call.values |= {"src_cs": src_cs, "src_rs": src_rs}
    compare(call, src.transpose(1, 2, 0), fill, gaps[2:])


def compare(call, pixels, fill, gaps):
    """Pack `pixels` (rows, columns, channels); `gaps` between pixels and between rows of dst."""
    size, (height, width, channels) = call.dtype.itemsize, pixels.shape
    dst_ps = (fill + gaps[0]) * size
    dst_rs = width * dst_ps + gaps[1] * size
    call.place_output("dst", (height, width, fill), (dst_rs, dst_ps, size))
    call.values |= {"dst_rs": dst_rs, "dst_ps": dst_ps, "rows": height, "columns": width}
    call.values |= {"channels": channels, "fill": fill}
    expected = np.zeros((height, width, fill), call.dtype)
    expected[..., :channels] = pixels
    call.same_bits(call.run(call.values), expected, call.values)


def draw_gaps(rng: np.random.Generator) -> list[int]:
    """Draw four gaps, about half of them none."""
    return [int(gap) for gap in rng.integers(0, 9, 4) * rng.integers(0, 2, 4)]


@every_kernel
def test_tails(checker, row, rng):
    """Each number of channels around one and two vectors, each number of pixels."""
    lanes = lanes_of(row)
    sizes = [*range(1, lanes + 2), 2 * lanes - 1, 2 * lanes, 2 * lanes + 1]
    for channels in sizes:
        for width in (int(rng.choice(sizes)), lanes, 5 * lanes + int(rng.integers(0, lanes))):
            shape = channels, int(rng.integers(1, 4)), width
            for fill in (
                channels,
                channels + int(rng.integers(1, 4)),
                -(-channels // lanes) * lanes,
            ):
                check(checker, row, rng, shape, fill, draw_gaps(rng))
    for width in sizes:
        for channels in (1, lanes, 2 * lanes):
            check(checker, row, rng, (channels, 2, width), channels, draw_gaps(rng))


@every_kernel
@pytest.mark.parametrize("fill", [1, 2, 3, 4, 5])
def test_few_channels(checker, row, fill, rng):
    """Images of a few channels, interleaved without gaps, with and without zero channels."""
    lanes = lanes_of(row)
    for channels in range(fill + 1):
        for width in (*range(1, lanes + 2), 2 * lanes, 3 * lanes + 1):
            gaps = draw_gaps(rng)
            gaps[2] = 0
            check(checker, row, rng, (channels, int(rng.integers(1, 4)), width), fill, gaps)


@every_kernel
def test_rows_without_gaps(checker, row, rng):
    """Rows without gaps in src and dst are packed as one long row; a gap in either forbids it."""
    lanes = lanes_of(row)
    for channels in (1, 3, lanes, lanes + 3):
        for shape in ((channels, 7, 7), (channels, 1, 1), (channels, 3, lanes), (channels, 40, 3)):
            for gaps in ((0, 0, 0, 0), (5, 0, 0, 0), (0, 0, 2, 0), (0, 1, 0, 0), (0, 0, 0, 1)):
                check(checker, row, rng, shape, channels, gaps)


@every_kernel
def test_nothing_to_pack(checker, row, rng):
    """No rows, or rows of no pixels: nothing is touched."""
    for height, width in ((0, 5), (5, 0)):
        check(checker, row, rng, (3, height, width), 3, (0, 0, 0, 0))


@every_narrow_kernel
def test_large_images(checker, row, rng):
    """More pixels than are packed at once, of several blocks of channels and a part of one."""
    for channels, fill in ((40, 40), (64, 64), (13, 16), (70, 72), (130, 144)):
        for shape in ((3, 75), (1, 300), (9, 7)):
            check(checker, row, rng, (channels, *shape), fill, (0, 0, 0, 0))
            check(checker, row, rng, (channels, *shape), fill, (7, 3, 5, 2))


@every_padding
def test_padded_channels(checker, row, rng):
    """Every tail of bytes, zeros behind it, gaps between pixels on either side, and rows."""
    for channels in (*range(1, 20), 31, 32, 33, 47, 64, 65):
        for fill in (channels, -(-channels // 4) * 4, channels + 17):
            for width in (1, 2, int(rng.integers(3, 40))):
                gaps = rng.integers(0, 5, 4) * rng.integers(0, 2, 4)
                check_padding(checker, row, rng, channels, fill, (2, width), gaps)


@every_padding
def test_three_channels_become_four(checker, row, rng):
    for width in (*range(40), 224, 1000):
        for rows in (0, 1, 3):
            gaps = 0, 0, int(rng.integers(0, 5)), int(rng.integers(0, 5))
            check_padding(checker, row, rng, 3, 4, (rows, width), gaps)


def check_padding(checker, row, rng, channels, fill, shape, gaps):
    """Pad one image; `gaps` are elements between pixels and rows of src and of dst."""
    call = PackingCall(checker, row, rng)
    size, (height, width) = call.dtype.itemsize, shape
    src_gap, dst_gap, src_row_gap, dst_row_gap = (int(gap) for gap in gaps)
    src_ps = (channels + src_gap) * size
    src_rs = width * src_ps + src_row_gap * size
    src = call.place_input("src", (height, width, channels), (src_rs, src_ps, size))
    call.values |= {"src_rs": src_rs, "src_ps": src_ps}
    compare(call, src, fill, (dst_gap, dst_row_gap))

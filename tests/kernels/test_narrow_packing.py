"""Packing of narrow types: what tests of all types do not reach.

``test_pack_weights.py`` and ``test_pack_channels.py`` run for narrow types, too.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.kernel_table import every_row, symbol
from tests.kernels.packing_case import PackingCall
from tests.kernels.test_pack_channels import check as check_channels
from tests.kernels.test_pack_weights import check as check_weights

NARROW = ("u8", "s16")
WEIGHTS = [row for row in every_row("pack_weights") if row["dtype"] in NARROW]
CHANNELS = [row for row in every_row("pack_channels") if row["dtype"] in NARROW]
PADDING = every_row("pad_channels")


@pytest.mark.parametrize("row", WEIGHTS, ids=symbol)
@pytest.mark.parametrize("kr", [1, 2, 4, 8])
def test_more_weights_than_the_buffer(checker, row, kr, rng):
    """Blocks of channels that go in pieces, with all taps, and rows of many weights."""
    for ic, taps, block in (
        (1100, 1, 1100),
        (1100, 1, 1),
        (260, 9, 264),
        (130, 9, 1),
        (48, 49, 48),
        (61, 25, 64),
        (90, 25, 16),
    ):
        for oc, width in ((17, 16), (9, 8), (33, 48), (5, 5)):
            check_weights(checker, row, rng, oc, ic, taps, width, block, kr)


@pytest.mark.parametrize("row", WEIGHTS, ids=symbol)
@pytest.mark.parametrize("kr", [2, 4, 8])
def test_groups_across_taps(checker, row, kr, rng):
    """Blocks that are no whole groups, of few and of many weights; more taps than the buffer."""
    for ic, taps, block in ((3, 9, 3), (7, 9, 5), (251, 9, 251), (30, 49, 15), (3, 1100, 4)):
        for oc, width in ((17, 16), (3, 5)):
            check_weights(checker, row, rng, oc, ic, taps, width, block, kr)


@pytest.mark.parametrize("row", WEIGHTS, ids=symbol)
@pytest.mark.parametrize("kr", [2, 4, 8])
def test_long_matrices_whose_channels_are_neighbours(checker, row, kr, rng):
    for oc, width in ((64, 64), (100, 32), (31, 24)):
        for k in (kr - 1, 5 * kr, 300 + kr + 1):
            check_weights(checker, row, rng, oc, k, 1, width, k, kr, across=True)


@pytest.mark.parametrize("row", CHANNELS, ids=symbol)
def test_large_images(checker, row, rng):
    """More pixels than are packed at once, of several blocks of channels and a part of one."""
    for channels, fill in ((40, 40), (64, 64), (13, 16), (70, 72), (130, 144)):
        for shape in ((3, 75), (1, 300), (9, 7)):
            check_channels(checker, row, rng, (channels, *shape), fill, (0, 0, 0, 0))
            check_channels(checker, row, rng, (channels, *shape), fill, (7, 3, 5, 2))


@pytest.mark.parametrize("row", PADDING, ids=symbol)
def test_padded_channels(checker, row, rng):
    """Every tail of bytes, zeros behind it, gaps between pixels on either side, and rows."""
    for channels in (*range(1, 20), 31, 32, 33, 47, 64, 65):
        for fill in (channels, -(-channels // 4) * 4, channels + 17):
            for width in (1, 2, int(rng.integers(3, 40))):
                gaps = rng.integers(0, 5, 4) * rng.integers(0, 2, 4)
                check_padding(checker, row, rng, channels, fill, (2, width), gaps)


@pytest.mark.parametrize("row", PADDING, ids=symbol)
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
    src_ps, dst_ps = (channels + src_gap) * size, (fill + dst_gap) * size
    src_rs, dst_rs = width * src_ps + src_row_gap * size, width * dst_ps + dst_row_gap * size
    src = call.place_input("src", (height, width, channels), (src_rs, src_ps, size))
    call.place_output("dst", (height, width, fill), (dst_rs, dst_ps, size))
    call.values |= {
        "src_rs": src_rs,
        "src_ps": src_ps,
        "dst_rs": dst_rs,
        "dst_ps": dst_ps,
        "rows": height,
        "columns": width,
        "channels": channels,
        "fill": fill,
    }
    expected = np.zeros((height, width, fill), call.dtype)
    expected[..., :channels] = src
    call.same_bits(call.run(call.values), expected, call.values)

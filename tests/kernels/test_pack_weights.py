"""Weights into panels: every order of k, whole or in parts, in groups of k, tails zero."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.kernel_table import every_row, symbol
from tests.kernels.packing_case import PackingCall

ROWS = every_row("pack_weights")
NARROW = [row for row in ROWS if row["dtype"] in ("u8", "s16")]
every_kernel = pytest.mark.parametrize("row", ROWS, ids=symbol)
every_narrow_kernel = pytest.mark.parametrize("row", NARROW, ids=symbol)
every_depthwise = pytest.mark.parametrize("row", every_row("pack_depthwise"), ids=symbol)


@every_kernel
@pytest.mark.parametrize("order", ["channels", "taps", "blocks"])
@pytest.mark.parametrize("panel_width", [1, 2, 5, 6, 8, 14, 16, 48])
def test_panels(checker, row, order, panel_width, rng):
    for oc in (1, panel_width, panel_width + 1, 3 * panel_width - 1, int(rng.integers(1, 70))):
        for _ in range(4):
            ic, taps = (int(x) for x in rng.integers(1, 10, 2))
            if order == "blocks":
                ic = int(rng.integers(1, 40))
            block = {"channels": 1, "taps": ic, "blocks": int(rng.integers(1, 18))}[order]
            check(checker, row, rng, oc, ic, taps, panel_width, block)


@every_kernel
@pytest.mark.parametrize("block", [4, 8, 16])
def test_blocks_of_vectors(checker, row, block, rng):
    """The order of the blocked layout, with whole and partial last blocks."""
    for ic in (1, block - 1, block, block + 1, 3 * block - 1, 3 * block):
        for taps in (1, 4, 9, 25):
            for oc, width in ((48, 16), (35, 32), (6, 14)):
                check(checker, row, rng, oc, ic, taps, width, block)


@every_kernel
@pytest.mark.parametrize("panel_width", [1, 2, 5, 8, 14, 16, 32, 48])
def test_matrix_whose_channels_are_neighbours(checker, row, panel_width, rng):
    for oc in (1, panel_width, panel_width + 1, 5 * panel_width - 1, int(rng.integers(1, 300))):
        for k in (1, 2, int(rng.integers(1, 40))):
            for channel_block in (1, k):
                check(checker, row, rng, oc, k, 1, panel_width, channel_block, across=True)


@pytest.mark.sampled(90)
@every_kernel
@pytest.mark.parametrize("kr", [1, 2, 4])
@pytest.mark.parametrize("panel_width", [1, 5, 8, 16])
def test_groups_of_k(checker, row, kr, panel_width, rng):
    """Every remainder of k and of the channels, in each order of k."""
    for oc in (1, panel_width, panel_width + 1, 3 * panel_width - 1):
        for ic, taps in ((1, 1), (kr, 1), (kr + 1, 1), (3, 9), (2 * kr + 3, 3), (5, 5), (7, 2)):
            for channel_block in {1, ic, kr, 3, ic + 2}:
                check(checker, row, rng, oc, ic, taps, panel_width, channel_block, kr)
        for k in range(1, 2 * kr + 2):
            for channel_block in (1, k):
                check(checker, row, rng, oc, k, 1, panel_width, channel_block, kr, across=True)


@every_narrow_kernel
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
            check(checker, row, rng, oc, ic, taps, width, block, kr)


@every_narrow_kernel
@pytest.mark.parametrize("kr", [2, 4, 8])
def test_groups_across_taps(checker, row, kr, rng):
    """Blocks that are no whole groups, of few and of many weights; more taps than the buffer."""
    for ic, taps, block in ((3, 9, 3), (7, 9, 5), (251, 9, 251), (30, 49, 15), (3, 1100, 4)):
        for oc, width in ((17, 16), (3, 5)):
            check(checker, row, rng, oc, ic, taps, width, block, kr)


@every_narrow_kernel
@pytest.mark.parametrize("kr", [2, 4, 8])
def test_long_matrices_whose_channels_are_neighbours(checker, row, kr, rng):
    for oc, width in ((64, 64), (100, 32), (31, 24)):
        for k in (kr - 1, 5 * kr, 300 + kr + 1):
            check(checker, row, rng, oc, k, 1, width, k, kr, across=True)


def check(checker, row, rng, oc, ic, taps, panel_width, channel_block, kr=1, across=False):
    """Pack a random part of the panels; the others must stay as they are.

    `across`: output channels are neighbours, and rows may have gaps.
    """
    call = PackingCall(checker, row, rng)
    size, panels = call.dtype.itemsize, -(-oc // panel_width)
    blocks = -(-ic // channel_block)
    k = blocks * channel_block * taps
    groups = -(-k // kr)
    begin = int(rng.integers(0, panels))
    end = int(rng.integers(begin, panels)) + 1
    gap = int(rng.integers(0, 4))
    src_os, src_ks = (size, (oc + gap) * size) if across else ((ic * taps + gap) * size, size)
    src = call.place_input("src", (oc, ic, taps), (src_os, taps * src_ks, src_ks))
    strides = tuple(n * size for n in (groups * panel_width * kr, panel_width * kr, kr, 1))
    call.place_output("dst", (end - begin, groups, panel_width, kr), strides)
    # The kernel counts panels from the first, wherever it begins.
    call.values["dst"] -= begin * strides[0]
    call.values |= {
        "src_os": src_os,
        "src_ks": src_ks,
        "oc_begin": begin * panel_width,
        "oc_end": min(end * panel_width, oc),
        "ic": ic,
        "taps": taps,
        "panel_width": panel_width,
        "kr": kr,
        "channel_block": channel_block,
    }
    padded = np.zeros((panels * panel_width, blocks * channel_block, taps), call.dtype)
    padded[:oc, :ic] = src
    padded = padded.reshape(-1, blocks, channel_block, taps)
    rows = np.zeros((panels * panel_width, groups * kr), call.dtype)
    rows[:, :k] = padded.transpose(0, 1, 3, 2).reshape(-1, k)
    expected = rows.reshape(panels, panel_width, groups, kr).transpose(0, 2, 1, 3)[begin:end]
    context = (f"{oc=}", call.values)
    call.same_bits(call.run(context), expected, context)


def check_depthwise(checker, row, rng, oc, taps):
    call = PackingCall(checker, row, rng)
    size, lanes = call.dtype.itemsize, row["vector_bytes"] // call.dtype.itemsize
    vectors = -(-oc // lanes)
    src = call.place_input("src", (oc, taps), (taps * size, size))
    strides = taps * lanes * size, lanes * size, size
    call.place_output("dst", (vectors, taps, lanes), strides)
    call.values |= {"taps": taps, "channels": oc}
    expected = np.zeros((vectors * lanes, taps), call.dtype)
    expected[:oc] = src
    expected = expected.reshape(vectors, lanes, taps).transpose(0, 2, 1)
    context = (f"{oc=}", call.values)
    call.same_bits(call.run(context), expected, context)


@every_depthwise
def test_depthwise_weights(checker, row, rng):
    """The taps of each vector of channels, with every number of channels in the last one."""
    for oc in range(1, 50):
        for taps in (1, 9, 49, *rng.integers(1, 60, 2)):
            check_depthwise(checker, row, rng, oc, int(taps))

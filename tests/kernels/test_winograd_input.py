"""The Winograd transform of the input: whole tiles, edges of the image, tails of channels.

Pixels outside the image are zero; for bytes, they have the value that the caller gives.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.kernel_table import DTYPES, every_row, symbol
from tests.kernels.packing_case import PackingCall
from tests.kernels.winograd_case import (
    both_sides,
    drawn,
    is_exact,
    lanes_of,
    rounding,
    spaced,
    transforms,
)

every_kernel = pytest.mark.parametrize("row", every_row("winograd_input"), ids=symbol)


def check(checker, row, rng, tiles, channels, row_range=None, column_range=None):
    """Transform `tiles` patches; the given ranges are inside the image.

    The source array has only these pixels.
    """
    n, t = row["mr"], row["mr"] + row["nr"] - 1
    width = (tiles - 1) * n + t
    row_begin, row_end = row_range or (0, t)
    column_begin, column_end = column_range or (0, width)
    # Ranges may exceed the patches; the source array has only the pixels within them.
    inside = max(row_end - row_begin, 0), max(min(column_end, width) - max(column_begin, 0), 0)
    first_column = max(column_begin, 0)
    out = "s16" if is_exact(row) else row["dtype"]
    call = PackingCall(checker, row, rng, out)
    strides = spaced(rng, row["dtype"], *inside, channels)
    outside = int(drawn(rng, row["dtype"], ())) if is_exact(row) else 77
    image = np.full((t, width, channels), outside if is_exact(row) else 0, call.dtype)
    src = call.place_input("src", (*inside, channels), strides)
    src[...] = drawn(rng, row["dtype"], src.shape)
    image[row_begin:row_end, first_column : first_column + inside[1]] = src
    call.values["src"] -= row_begin * strides[0] + first_column * strides[1]
    dst_strides = spaced(rng, out, t * t, tiles, channels)
    call.place_output("dst", (t * t, tiles, channels), dst_strides)
    call.values |= {
        "src_rs": strides[0],
        "src_ps": strides[1],
        "row_begin": row_begin,
        "row_end": row_end,
        "column_begin": column_begin,
        "column_end": column_end,
        "tiles": tiles,
        "channels": channels,
        "dst_ts": dst_strides[1],
        "dst_ps": dst_strides[0],
        "outside": outside,
    }
    context = (f"{inside=}", call.values)
    got = call.run(context)
    patches = np.stack([image[:, i * n : i * n + t] for i in range(tiles)])
    d = patches.transpose(0, 3, 1, 2).astype(np.float64)
    b = transforms((n, row["nr"]), is_exact(row))[2]
    expected, allowed = both_sides(b, d), rounding(b, d, row["dtype"])
    result = got.reshape(t, t, tiles, channels).transpose(2, 3, 0, 1)
    assert (np.abs(result - expected) <= allowed).all(), context
    return got


@every_kernel
def test_channels(checker, row, rng):
    """Every tail of channels, for one tile and for more."""
    lanes = lanes_of(row)
    for channels in [*range(1, 2 * lanes + 2), 5 * lanes]:
        check(checker, row, rng, int(rng.integers(1, 5)), channels)


@every_kernel
def test_edges_of_the_image(checker, row, rng):
    """Every range of rows, with random ranges of columns; pixels outside are not read."""
    n, t = row["mr"], row["mr"] + row["nr"] - 1
    lanes = lanes_of(row)
    for row_begin in range(t):
        for row_end in range(row_begin, t + 1):
            tiles = int(rng.integers(1, 4))
            width = (tiles - 1) * n + t
            begin = int(rng.integers(0, width)) if rng.random() < 0.7 else 0
            end = int(rng.integers(begin, width + 1)) if rng.random() < 0.7 else width
            channels = int(rng.choice([1, lanes - 1, lanes, lanes + 1, 2 * lanes]))
            channels = max(channels, 1)
            check(checker, row, rng, tiles, channels, (row_begin, row_end), (begin, end))


@every_kernel
def test_every_column_range(checker, row, rng):
    t = row["mr"] + row["nr"] - 1
    for begin in range(t):
        for end in range(begin, t + 1):
            check(checker, row, rng, 1, int(rng.integers(1, 18)), (1, t - 1), (begin, end))


@every_kernel
def test_image_wider_than_the_tiles(checker, row, rng):
    """Columns beyond the patches are inside the image, but are not read."""
    n, t = row["mr"], row["mr"] + row["nr"] - 1
    for tiles in (1, 2, 3):
        width = (tiles - 1) * n + t
        check(checker, row, rng, tiles, 17, (0, t), (1, width + 5))
        check(checker, row, rng, tiles, 17, (0, t), (-3, width))


@every_kernel
def test_position_of_an_element(checker, row, rng):
    """Tiles give the same bits at an edge and inside, in a whole vector and in a tail."""
    t, lanes = row["mr"] + row["nr"] - 1, lanes_of(row)
    call_bits = []
    image = drawn(rng, row["dtype"], (t, t, lanes))
    for inner in (lanes, lanes - 1):
        for edge in (False, True):
            call = PackingCall(checker, row, rng, "s16" if is_exact(row) else "")
            size, step = call.dtype.itemsize, lanes * DTYPES[call.out].itemsize
            strides = (t * lanes * size, lanes * size, size)
            src = call.place_input("src", (t, t, inner), strides)
            src[...] = image[:, :, :inner]
            src[0] = 0
            call.place_output("dst", (t * t, 1, inner), (step, step, step // lanes))
            call.values |= {
                "src_rs": strides[0],
                "src_ps": strides[1],
                "row_begin": int(edge),
                "row_end": t,
                "column_begin": 0,
                "column_end": t,
                "tiles": 1,
                "channels": inner,
                "dst_ts": step,
                "dst_ps": step,
                "outside": 0,
            }
            call_bits.append(call.run(call.values)[:, :, : lanes - 1])
    for other in call_bits[1:]:
        np.testing.assert_array_equal(other, call_bits[0])

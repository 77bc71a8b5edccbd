"""The Winograd transform of the output, with its epilogue: partial tiles, tails of channels."""

from __future__ import annotations

import numpy as np
import pytest

from asm.contract import FLAGS
from tests.kernels.kernel_table import every_row, symbol
from tests.kernels.packing_case import PackingCall
from tests.kernels.winograd_case import (
    EPSILON,
    both_sides,
    drawn,
    is_exact,
    lanes_of,
    rounding,
    spaced,
    transforms,
)

ROWS = every_row("winograd_output")
every_kernel = pytest.mark.parametrize("row", ROWS, ids=symbol)
# Integer kernels have no epilogue, and their results are always finite.
every_float = pytest.mark.parametrize("row", [r for r in ROWS if not is_exact(r)], ids=symbol)
BIAS, RESIDUAL, CLIP = FLAGS["BIAS_COLUMN"], FLAGS["RESIDUAL"], FLAGS["CLIP"]
CLIPS = ((0.0, np.inf), (0.0, 6.0), (-0.5, 0.5))
EVERY_FLAG = [b | r | c for b in (0, BIAS) for r in (0, RESIDUAL) for c in (0, CLIP)]


def place(checker, row, rng, tiles, channels, stored, flags):
    """Place the arguments of one call; give the call, M, bias, residual and clip."""
    t = row["mr"] + row["nr"] - 1
    call = PackingCall(checker, row, rng)
    size = call.dtype.itemsize
    strides = spaced(rng, row["dtype"], t * t, tiles, channels)
    m = call.place_input("src", (t * t, tiles, channels), strides)
    m[...] = drawn(rng, row["dtype"], m.shape)
    dst = spaced(rng, row["dtype"], *stored, channels)
    call.place_output("dst", (*stored, channels), dst)
    call.values |= {
        "src_ts": strides[1],
        "src_ps": strides[0],
        "dst_rs": dst[0],
        "dst_ps": dst[1],
        "rows": stored[0],
        "columns": stored[1],
        "tiles": tiles,
        "channels": channels,
        "residual_rs": 0,
        "residual_ps": 0,
        "flags": flags,
    }
    bias = residual = clip = None
    if flags & BIAS:
        bias = call.place_input("bias", (channels,), (size,))
        bias[...] = rng.standard_normal(channels)
    if flags & RESIDUAL:
        strides = spaced(rng, row["dtype"], *stored, channels)
        residual = call.place_input("residual", (*stored, channels), strides)
        residual[...] = rng.standard_normal(residual.shape)
        call.values |= {"residual_rs": strides[0], "residual_ps": strides[1]}
    if flags & CLIP:
        clip = call.place_input("clip", (2,), (size,))
        clip[...] = CLIPS[int(rng.integers(len(CLIPS)))]
    # Like all buffers: its surroundings are watched.
    call.place_flag("spoiled")
    return call, m, bias, residual, clip


def check(checker, row, rng, tiles, channels, stored, flags):
    """Compare one call with float64."""
    n, t = row["mr"], row["mr"] + row["nr"] - 1
    call, m, bias, residual, clip = place(checker, row, rng, tiles, channels, stored, flags)
    got = call.run(call.values)
    m = m.reshape(t, t, tiles, channels).transpose(2, 3, 0, 1).astype(np.float64)
    a = transforms((n, row["nr"]), is_exact(row))[0]

    def image(of_tiles):
        whole = of_tiles.transpose(2, 0, 3, 1).reshape(n, tiles * n, channels)
        return whole[: stored[0], : stored[1]]

    if is_exact(row):
        # Modulo 2^32, divided by 4, the square of the factor in the weights' matrices.
        wrapped = image(both_sides(a, m)).astype(np.int64).astype(np.int32)
        np.testing.assert_array_equal(got, wrapped >> 2)
        assert call.flag == 0
        return
    expected, allowed = image(both_sides(a, m)), image(rounding(a, m, row["dtype"]))
    if flags & BIAS:
        expected = expected + bias
        allowed = allowed + EPSILON[row["dtype"]] * (np.abs(expected) + allowed)
    if flags & RESIDUAL:
        expected = expected + residual
        allowed = allowed + EPSILON[row["dtype"]] * (np.abs(expected) + allowed)
    if flags & CLIP:
        expected = np.clip(expected, *clip.astype(np.float64))
    assert (np.abs(got - expected) <= allowed).all(), call.values
    assert call.flag == 0, "all is finite"


def flags_of(row):
    """All sets of flags that a kernel reads."""
    return [0] if is_exact(row) else EVERY_FLAG


@pytest.mark.sampled(187)
@pytest.mark.parametrize(
    ("row", "flags"),
    [
        pytest.param(row, flags, id=f"{symbol(row)}-{flags}")
        for row in ROWS
        for flags in flags_of(row)
    ],
)
def test_channels(checker, row, flags, rng):
    """Every tail of channels, for one tile and for more."""
    n, lanes = row["mr"], lanes_of(row)
    for channels in [*range(1, 2 * lanes + 2), 5 * lanes]:
        tiles = int(rng.integers(1, 4))
        check(checker, row, rng, tiles, channels, (n, tiles * n), flags)


@every_kernel
def test_partial_tiles(checker, row, rng):
    """Every number of rows and columns of the last tile; no other pixel is written."""
    n = row["mr"]
    for height in range(1, n + 1):
        for last in range(1, n + 1):
            tiles, flags = int(rng.integers(1, 4)), int(rng.choice(flags_of(row)))
            channels = int(rng.integers(1, 36))
            check(checker, row, rng, tiles, channels, (height, (tiles - 1) * n + last), flags)


@every_kernel
def test_other_flags_are_not_read(checker, row, rng):
    """A flag that the operation does not have changes nothing."""
    for name in ("ACCUMULATE", "BIAS_ROW", "B_PADDED"):
        check(checker, row, rng, 2, 19, (row["mr"], 2 * row["mr"]), FLAGS[name])


@every_float
def test_epilogue_passes_nan_and_zeros(checker, row, rng):
    """NaN passes the clip, and reaches only the pixels of its tile and channel."""
    n, t = row["mr"], row["mr"] + row["nr"] - 1
    call, m, *_ = place(checker, row, rng, 2, 19, (n, 2 * n), CLIP)
    m[...] = 0
    m.reshape(t, t, 2, 19)[1, 1, 1, 17] = np.nan
    got = call.run(call.values)
    spoiled = np.zeros((n, 2 * n, 19), bool)
    spoiled[:, n:, 17] = True
    np.testing.assert_array_equal(np.isnan(got), spoiled)
    assert not got[~spoiled].any()
    assert call.flag == 1


@every_float
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, "overflow"])
def test_sums_that_are_not_finite_are_told(checker, row, value, rng):
    """In any lane and position, even if the clip hides them."""
    n, t = row["mr"], row["mr"] + row["nr"] - 1
    largest = float(np.finfo(np.float32 if row["dtype"] == "f32" else np.float64).max)
    for channels in (1, int(rng.integers(2, 40))):
        call, m, *_ = place(checker, row, rng, 2, channels, (n, 2 * n), CLIP)
        # The middle of a patch reaches every output of its tile.
        middle = m.reshape(t, t, 2, channels)[1:-1, 1:-1, rng.integers(2), rng.integers(channels)]
        if value == "overflow":
            middle[...] = largest
        else:
            middle[int(rng.integers(t - 2)), int(rng.integers(t - 2))] = value
        call.run(call.values)
        assert call.flag == 1, (channels, value)


@every_float
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_sums_at_every_position_are_told(checker, row, value, rng):
    """Also the first and the last positions, which reach the first and the last outputs only."""
    n, t = row["mr"], row["mr"] + row["nr"] - 1
    call, m, *_ = place(checker, row, rng, 1, 3, (n, n), CLIP)
    for position in range(t * t):
        m[...] = 0
        m[position, 0, int(rng.integers(3))] = value
        call.run(call.values)
        assert call.flag == 1, position

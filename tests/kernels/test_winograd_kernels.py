"""The Winograd transforms of input, output and weights: tails, edges, epilogue, panels.

Pixels outside the image are zero; for bytes, they have the value that the caller gives.
"""

from __future__ import annotations

import numpy as np
import pytest

from asm.contract import FLAGS
from tests.kernels.kernel_table import DTYPES, every_row, symbol
from tests.kernels.packing_case import PackingCall
from tests.kernels.winograd_case import (
    EPSILON,
    both_sides,
    drawn,
    is_exact,
    lanes_of,
    place_epilogue,
    rounding,
    spaced,
    transforms,
)

every_input = pytest.mark.parametrize("row", every_row("winograd_input"), ids=symbol)
every_weights = pytest.mark.parametrize("row", every_row("winograd_weights"), ids=symbol)
OUTPUTS = every_row("winograd_output")
every_output = pytest.mark.parametrize("row", OUTPUTS, ids=symbol)
# Integer kernels have no epilogue, and their results are always finite.
every_float = pytest.mark.parametrize("row", [r for r in OUTPUTS if not is_exact(r)], ids=symbol)
BIAS, RESIDUAL, CLIP = FLAGS["BIAS_COLUMN"], FLAGS["RESIDUAL"], FLAGS["CLIP"]
CLIPS = ((0.0, np.inf), (0.0, 6.0), (-0.5, 0.5))
EVERY_FLAG = [b | r | c for b in (0, BIAS) for r in (0, RESIDUAL) for c in (0, CLIP)]


def run_input(call, src_strides, dst_strides, ranges, tiles, step, channels, outside):
    """Call the kernel; `ranges` of rows and columns are inside the image, each with its end."""
    names = "row_begin", "row_end", "column_begin", "column_end"
    call.values |= {
        "src_rs": src_strides[0],
        "src_ps": src_strides[1],
        **dict(zip(names, ranges, strict=True)),
        "tiles": tiles,
        "step": step,
        "channels": channels,
        "dst_ts": dst_strides[1],
        "dst_ps": dst_strides[0],
        "outside": outside,
    }
    return call.run(call.values)


def check_input(checker, row, rng, tiles, channels, row_range=None, column_range=None, step=None):
    """Transform `tiles` patches; the given ranges are inside the image.

    The source array has only these pixels. Patches are as far apart as those of 3x3 weights, or by
    `step`.
    """
    n, t = step or row["mr"], row["mr"] + row["nr"] - 1
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
    ranges = row_begin, row_end, column_begin, column_end
    context = (f"{inside=}", call.values)
    got = run_input(call, strides, dst_strides, ranges, tiles, n, channels, outside)
    patches = np.stack([image[:, i * n : i * n + t] for i in range(tiles)])
    d = patches.transpose(0, 3, 1, 2).astype(np.float64)
    b = transforms((row["mr"], row["nr"]), is_exact(row))[2]
    expected, allowed = both_sides(b, d), rounding(b, d, row["dtype"])
    result = got.reshape(t, t, tiles, channels).transpose(2, 3, 0, 1)
    assert (np.abs(result - expected) <= allowed).all(), context
    return got


@every_input
def test_channels_of_the_input(checker, row, rng):
    """Every tail of channels, for one tile and for more."""
    lanes = lanes_of(row)
    for channels in [*range(1, 2 * lanes + 2), 5 * lanes]:
        check_input(checker, row, rng, int(rng.integers(1, 5)), channels)


@every_input
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
            check_input(checker, row, rng, tiles, channels, (row_begin, row_end), (begin, end))


@every_input
def test_every_column_range(checker, row, rng):
    t = row["mr"] + row["nr"] - 1
    for begin in range(t):
        for end in range(begin, t + 1):
            check_input(checker, row, rng, 1, int(rng.integers(1, 18)), (1, t - 1), (begin, end))


@every_input
def test_every_step(checker, row, rng):
    """Patches of other variants of this size lie closer together."""
    for step in range(1, row["mr"] + row["nr"]):
        check_input(checker, row, rng, 3, int(rng.integers(1, 40)), step=step)


@every_input
def test_image_wider_than_the_tiles(checker, row, rng):
    """Columns beyond the patches are inside the image, but are not read."""
    n, t = row["mr"], row["mr"] + row["nr"] - 1
    for tiles in (1, 2, 3):
        width = (tiles - 1) * n + t
        check_input(checker, row, rng, tiles, 17, (0, t), (1, width + 5))
        check_input(checker, row, rng, tiles, 17, (0, t), (-3, width))


@every_input
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
            got = run_input(call, strides, (step, step), (int(edge), t, 0, t), 1, 1, inner, 0)
            call_bits.append(got[:, :, : lanes - 1])
    for other in call_bits[1:]:
        np.testing.assert_array_equal(other, call_bits[0])


def place_output(checker, row, rng, tiles, channels, stored, flags):
    """Place the arguments of one call; give the call, M, bias, residual and clip."""
    t = row["mr"] + row["nr"] - 1
    call = PackingCall(checker, row, rng)
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
    }
    clip = CLIPS[int(rng.integers(len(CLIPS)))]
    operands = place_epilogue(call, (*stored, channels), flags, clip)
    # Like all buffers: its surroundings are watched.
    call.place_flag("spoiled")
    return call, m, *operands


def check_output(checker, row, rng, tiles, channels, stored, flags):
    """Compare one call with float64."""
    n, t = row["mr"], row["mr"] + row["nr"] - 1
    call, m, bias, residual, clip = place_output(checker, row, rng, tiles, channels, stored, flags)
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
        for row in OUTPUTS
        for flags in flags_of(row)
    ],
)
def test_channels_of_the_output(checker, row, flags, rng):
    """Every tail of channels, for one tile and for more."""
    n, lanes = row["mr"], lanes_of(row)
    for channels in [*range(1, 2 * lanes + 2), 5 * lanes]:
        tiles = int(rng.integers(1, 4))
        check_output(checker, row, rng, tiles, channels, (n, tiles * n), flags)


@every_output
def test_partial_tiles(checker, row, rng):
    """Every number of rows and columns of the last tile; no other pixel is written."""
    n = row["mr"]
    for height in range(1, n + 1):
        for last in range(1, n + 1):
            tiles, flags = int(rng.integers(1, 4)), int(rng.choice(flags_of(row)))
            channels = int(rng.integers(1, 36))
            check_output(
                checker, row, rng, tiles, channels, (height, (tiles - 1) * n + last), flags
            )


@every_output
def test_other_flags_are_not_read(checker, row, rng):
    """A flag that the operation does not have changes nothing."""
    for name in ("ACCUMULATE", "BIAS_ROW", "B_PADDED"):
        check_output(checker, row, rng, 2, 19, (row["mr"], 2 * row["mr"]), FLAGS[name])


@every_float
def test_epilogue_passes_nan_and_zeros(checker, row, rng):
    """NaN passes the clip, and reaches only the pixels of its tile and channel."""
    n, t = row["mr"], row["mr"] + row["nr"] - 1
    call, m, *_ = place_output(checker, row, rng, 2, 19, (n, 2 * n), CLIP)
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
        call, m, *_ = place_output(checker, row, rng, 2, channels, (n, 2 * n), CLIP)
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
    call, m, *_ = place_output(checker, row, rng, 1, 3, (n, n), CLIP)
    for position in range(t * t):
        m[...] = 0
        m[position, 0, int(rng.integers(3))] = value
        call.run(call.values)
        assert call.flag == 1, position


@pytest.mark.sampled(210)
@every_weights
@pytest.mark.parametrize("panel_width", [1, 2, 5, 6, 8, 14, 16, 48])
def test_panels_of_weights(checker, row, panel_width, rng):
    for oc in (1, panel_width, panel_width + 1, 3 * panel_width - 1, int(rng.integers(1, 60))):
        # Three wide panels of many channels in double precision would outgrow the arena.
        ic = int(rng.choice([1, 2, 5, 15, 16, 17, 33] if panel_width < 40 else [1, 2, 5, 8]))
        padding = int(rng.integers(0, 20) * rng.integers(0, 2))
        check_weights(checker, row, rng, oc, ic, ic + padding, panel_width)


def check_weights(checker, row, rng, oc, ic, ic_padded, panel_width):
    """Transform a random part of the panels; the others must stay as they are.

    Integer kernels store neighbouring channels in pairs.
    """
    n, r = row["mr"], row["nr"]
    kr = 2 if is_exact(row) else 1
    ic_padded = -(-ic_padded // kr) * kr
    t = n + r - 1
    call = PackingCall(checker, row, rng)
    size, panels = call.dtype.itemsize, -(-oc // panel_width)
    begin = int(rng.integers(0, panels))
    end = int(rng.integers(begin, panels)) + 1
    src = call.place_input(
        "src", (oc, ic, r, r), tuple(size * x for x in (ic * r * r, r * r, r, 1))
    )
    src[...] = drawn(rng, row["dtype"], src.shape)
    panel = (panel_width * ic_padded * size, panel_width * kr * size, kr * size, size)
    dst_ps = panels * panel[0] + int(rng.integers(0, 9)) * size
    groups = ic_padded // kr
    call.place_output("dst", (t * t, end - begin, groups, panel_width, kr), (dst_ps, *panel))
    # The kernel counts panels from the first, wherever it begins.
    call.values["dst"] -= begin * panel[0]
    call.values |= {
        "dst_ps": dst_ps,
        "oc_begin": begin * panel_width,
        "oc_end": min(end * panel_width, oc),
        "ic": ic,
        "ic_padded": ic_padded,
        "panel_width": panel_width,
    }
    context = (f"{oc=}", call.values)
    got = call.run(context)
    g = transforms((n, r), is_exact(row))[1]
    u = np.zeros((panels * panel_width, ic_padded, t, t))
    magnitude = np.zeros_like(u)
    u[:oc, :ic] = both_sides(g, src.astype(np.float64))
    magnitude[:oc, :ic] = both_sides(np.abs(g), np.abs(src.astype(np.float64)))
    u, magnitude = (
        x.reshape(panels, panel_width, groups, kr, t * t).transpose(4, 0, 2, 1, 3)[:, begin:end]
        for x in (u, magnitude)
    )
    if is_exact(row):
        np.testing.assert_array_equal(got, u, str(context))
        return
    # Computed in double precision, and rounded once.
    allowed = EPSILON[row["dtype"]] * np.abs(u) + 16 * EPSILON["f64"] * magnitude
    assert (np.abs(got - u) <= allowed).all(), context

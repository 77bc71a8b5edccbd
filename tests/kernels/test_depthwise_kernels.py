"""Depthwise kernels: all tails, strides, paddings, multipliers, and parts of an image.

Kernels of floats and of bytes share most tests. Sums of bytes are exact.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from asm.contract import FLAGS
from tests.emulation import few
from tests.kernels import depthwise_bytes_case, depthwise_case
from tests.kernels.depthwise_bytes_case import WEIGHTS, DepthwiseBytes
from tests.kernels.depthwise_case import (
    BIAS,
    CLIP,
    RESIDUAL,
    Depthwise,
    DepthwiseCall,
    draw_geometry,
    draw_rows,
    geometry,
)
from tests.kernels.guarded_memory import PLACES
from tests.kernels.kernel_table import every_row, symbol
from tests.kernels.kernel_values import KINDS

FLOATS = [*every_row("depthwise_pixels"), *every_row("depthwise_channels")]
BYTES = [*every_row("depthwise_bytes_pixels"), *every_row("depthwise_bytes_channels")]
every_kernel = pytest.mark.parametrize("row", FLOATS + BYTES, ids=symbol)
every_float = pytest.mark.parametrize("row", FLOATS, ids=symbol)
# Sizes and strides that have loops of their own, and one that has not.
SQUARES = ((3, 1), (3, 2), (5, 1), (5, 2), (7, 1))
SIZES = (*SQUARES, (4, 1))


def is_bytes(row: dict) -> bool:
    """Whether a kernel takes bytes."""
    return row["op"].startswith("depthwise_bytes")


def by_channels(row: dict) -> bool:
    """Whether vectors of a kernel run along channels."""
    return row["op"].endswith("channels")


def square(shape, size: int, stride: int):
    """A square kernel with the usual padding; with size 4, no image is too small."""
    return geometry(shape, (size, size), (stride, stride), pads=(size // 2,) * 4)


def case_of(row: dict, g, channels: int, **more: object) -> Depthwise | DepthwiseBytes:
    """Give a case of the kernel's type; floats have a bias."""
    if is_bytes(row):
        return DepthwiseBytes(g, channels, **more)
    return Depthwise(g, channels, flags=BIAS[row["op"]], **{"kind": "random", **more})


def draw_flags(rng: np.random.Generator, op: str) -> int:
    """Draw any of the flags of `op`."""
    return sum(int(flag) for flag in (BIAS[op], RESIDUAL, CLIP) if rng.random() < 0.5)


def drawn(rng: np.random.Generator, row: dict, g, channels: int, **more: object):
    """Give a case with random weights, or with random flags and kind of numbers."""
    case = case_of(row, g, channels, **more)
    if is_bytes(row):
        return replace(case, weights=str(rng.choice(WEIGHTS)))
    return replace(case, flags=draw_flags(rng, row["op"]), kind=str(rng.choice(KINDS)))


def draw_case(rng: np.random.Generator, row: dict, **fixed: object):
    """Draw a case of any kernel size, stride, dilation and padding."""
    g = draw_geometry(rng)
    multiplier = int(rng.choice([1, 1, 2, 3]))
    first, count = draw_rows(rng, g.oh)
    most = (150 if is_bytes(row) else 41) if by_channels(row) else 6
    phase = int(rng.integers(0, multiplier)) if by_channels(row) else 0
    part = {"multiplier": multiplier, "phase": phase, "first": first, "rows": count}
    case = drawn(rng, row, g, int(rng.integers(1, most)), **part)
    if is_bytes(row) and by_channels(row):
        case.first_column, case.columns = draw_rows(rng, g.ow)
    return replace(case, **fixed)


def judge(checker, row: dict, rng: np.random.Generator, case) -> None:
    """Make the call and compare with the reference of its type."""
    (depthwise_bytes_case if is_bytes(row) else depthwise_case).judge(checker, row, rng, case)


@pytest.mark.sampled(52)
@every_kernel
@pytest.mark.parametrize(("size", "stride"), SQUARES)
def test_every_width(checker, row, size, stride, rng):
    """Each width of the sizes that have loops of their own, with usual and random padding."""
    for width in range(1, 70 if is_bytes(row) else 41):
        for pads in ((size // 2,) * 4, tuple(int(x) for x in rng.integers(0, size + 2, 4))):
            shape = (int(rng.integers(1, 18)), width)
            g = geometry(shape, (size, size), (stride, stride), pads=pads)
            if g is None:
                continue
            first, count = draw_rows(rng, g.oh)
            channels = int(rng.integers(1, 4))
            judge(checker, row, rng, drawn(rng, row, g, channels, first=first, rows=count))


@pytest.mark.sampled(27)
@every_kernel
@pytest.mark.parametrize(("size", "stride"), SQUARES)
def test_every_number_of_rows(checker, row, size, stride, rng):
    """From each first row to each last one, of images that fill a vector and of narrow ones."""
    for shape in ((11, 7), (8, 8), (9, 4), (10, 18), (17, 1)):
        g = square(shape, size, stride)
        for first in range(g.oh):
            for count in range(1, g.oh - first + 1):
                judge(checker, row, rng, case_of(row, g, 2, first=first, rows=count))


@every_kernel
@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("strides", [(2, 1), (1, 2), (3, 1), (4, 2)])
def test_rows_and_columns_of_different_strides(checker, row, size, strides, rng):
    """Each number of rows, every tail of channels, and each width of a vector's rows."""
    widths = few(range(1, 36), 3)
    for shape in ((9, 18), (10, 4), (5, 21), *((int(rng.integers(1, 9)), w) for w in widths)):
        g = geometry(shape, (size, size), strides, pads=(size // 2,) * 4)
        for count in range(1, g.oh + 1):
            first = int(rng.integers(0, g.oh - count + 1))
            channels = int(rng.integers(1, 150 if by_channels(row) else 4))
            part = {"first": first, "rows": count, "slab": not is_bytes(row)}
            judge(checker, row, rng, drawn(rng, row, g, channels, **part))


@pytest.mark.parametrize("row", every_row("depthwise_bytes_channels"), ids=symbol)
@pytest.mark.parametrize(("size", "stride"), SIZES)
def test_every_part_of_the_columns(checker, row, size, stride, rng):
    """From each first column to each last one; nothing else is written."""
    g = square((6, 9), size, stride)
    for first in range(g.ow):
        for count in range(1, g.ow - first + 1):
            case = DepthwiseBytes(g, 70, first_column=first, columns=count)
            judge(checker, row, rng, case)


@pytest.mark.sampled(60)
@pytest.mark.parametrize("row", BYTES, ids=symbol)
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize(("size", "stride"), SQUARES)
def test_largest_sums_of_bytes(checker, row, weights, size, stride, rng):
    """Extreme weights and extreme inputs: no intermediate sum saturates."""
    g = square((9, 21), size, stride)
    for _ in few(range(20), 4):
        judge(checker, row, rng, DepthwiseBytes(g, 67, weights=weights))


@every_float
@pytest.mark.parametrize(("shape", "channels"), [((21, 1100), 2), ((40, 40), 11)])
def test_more_than_caches_are_to_hold(checker, row, shape, channels, rng):
    """Images that loops cut into bands of rows, and channels that they cut into groups."""
    for size, stride in few(itertools.product((3, 5), (1, 2)), 2):
        judge(checker, row, rng, case_of(row, square(shape, size, stride), channels))


@pytest.mark.sampled(39)
@every_kernel
@pytest.mark.parametrize("place", PLACES)
def test_no_line_that_the_rows_do_not_see_is_read(checker, row, place, rng):
    """A caller may have only these lines in memory, e.g. converted in its scratch."""
    for size, stride in itertools.product((3, 5, 4, 7), (1, 2)):
        for shape in few(((12, 5), (9, 8), (13, 21)), 1):
            g = square(shape, size, stride)
            for first in range(g.oh):
                part = {"first": first, "rows": int(rng.integers(1, g.oh - first + 1))}
                judge(checker, row, rng, case_of(row, g, 2, slab=True, place=place, **part))


@every_kernel
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_images_without_pixels(checker, row, shape, rng):
    """Padding only: floats add up nothing, and every tap of bytes is the zero point."""
    for size, stride in SIZES:
        g = geometry(shape, (size, size), (stride, stride), pads=(20,) * 4)
        judge(checker, row, rng, case_of(row, g, 3))


@pytest.mark.sampled(60)
@every_kernel
@pytest.mark.parametrize(("size", "stride"), SIZES)
def test_every_number_of_channels(checker, row, size, stride, rng):
    """Each tail of a vector of channels, and of a unit of packed bytes, in each of the loops."""
    most = (140 if by_channels(row) else 10) if is_bytes(row) else 41
    for channels in range(1, most):
        shape = tuple(int(x) for x in rng.integers(1, 9 if is_bytes(row) else 15, 2))
        case = drawn(rng, row, square(shape, size, stride), channels)
        fixed = {"weights": "mixed"} if is_bytes(row) else {"kind": "special"}
        judge(checker, row, rng, replace(case, **fixed))


@pytest.mark.sampled(14)
@every_kernel
@pytest.mark.parametrize("place", PLACES)
def test_any_problem(checker, row, place, rng):
    """Kernels 1x1 to 7x7, paddings beyond the kernel, dilations, multipliers, parts."""
    for _ in few(range(300), 20):
        judge(checker, row, rng, draw_case(rng, row, place=place))


def judge_drawn(checker, row, place, rng, height, kernel, stride=(1, 1), dilation=(1, 1)):
    """Judge some rows of results of an image below a height, with padding and channels drawn."""
    reach = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    pads = tuple(int(x) for x in rng.integers(0, [n + 1 for n in reach for _ in range(2)]))
    shape = int(rng.integers(1, height)), int(rng.integers(1, 300))
    g = geometry(shape, kernel, stride, dilation, pads)
    if g is None:
        return
    first, count = draw_rows(rng, g.oh)
    part = {"multiplier": int(rng.integers(1, 3)), "first": first, "rows": count}
    case = drawn(rng, row, g, int(rng.integers(1, 4)), slab=bool(rng.integers(2)), **part)
    judge(checker, row, rng, replace(case, place=place))


@pytest.mark.sampled(5)
@every_float
@pytest.mark.parametrize("place", PLACES)
def test_rows_of_many_vectors(checker, row, place, rng):
    """Blocks of rows and vectors, their ends, and kernels that are larger than a block."""
    for _ in few(range(120), 8):
        kernel = tuple(int(x) for x in rng.integers(1, 13, 2))
        dilation = tuple(int(x) for x in rng.choice([1, 1, 2, 3], 2))
        judge_drawn(checker, row, place, rng, 40, kernel, dilation=dilation)


@pytest.mark.sampled(5)
@every_float
@pytest.mark.parametrize("place", PLACES)
def test_strided_rows_of_many_vectors(checker, row, place, rng):
    """Lines that are sorted in bands: every tail of blocks, columns and bands, and each stride."""
    for _ in few(range(24), 4):
        kernel = tuple(int(x) for x in rng.choice([1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 31], 2))
        dilation = tuple(int(x) for x in rng.choice([1, 1, 2, 3], 2))
        stride = tuple(int(x) for x in rng.choice([1, 2, 2, 2, 3, 4], 2))
        judge_drawn(checker, row, place, rng, 150, kernel, stride, dilation)


@every_float
@pytest.mark.parametrize("size", [7, 9, 51])
def test_every_width_at_stride_2(checker, row, size, rng):
    """Rows of one vector, of some, and of more than a block; lines of 51 taps fit no wide block."""
    for width in few((*range(1, 300, 23), 33, 64, 95, 97, 128), 6):
        shape = int(rng.integers(1, 60)), int(width)
        g = geometry(shape, (size, size), (2, 2), pads=(size // 2,) * 4)
        for kind in ("integers", "special"):
            judge(checker, row, rng, case_of(row, g, 2, kind=kind))


@every_float
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("taps", "stride", "dilation"),
    # Many taps, many columns between two taps, and strides longer than a vector.
    [
        (31, 1, 1),
        (300, 1, 1),
        (270, 2, 1),
        (70, 2, 1),
        (51, 2, 3),
        (9, 2, 40),
        (90, 1, 2),
        (7, 5, 1),
        (3, 37, 5),
        (13, 3, 3),
    ],
)
def test_long_rows_of_taps(checker, row, place, taps, stride, dilation, rng):
    """Of image rows that are shorter than the taps, and of longer ones."""
    reach = (taps - 1) * dilation
    for width in (int(rng.integers(1, reach)), reach + int(rng.integers(1, 40) * stride)):
        pads = (1, 1, *(int(x) for x in rng.integers(reach // 2, reach + 2, 2)))
        g = geometry((5, width), (3, taps), (2, stride), (1, dilation), pads)
        judge(checker, row, rng, drawn(rng, row, g, 2, place=place))


@pytest.mark.parametrize("row", every_row("depthwise_channels"), ids=symbol)
def test_bands_of_rows_and_groups_of_channels(checker, row, rng):
    """L2 holds neither all rows nor all channels of a large kernel."""
    size = row["vector_bytes"] // row["lanes"]
    stride, dilation = rng.integers(1, 3, 2)
    pads = (0, 0, *(int(x) for x in rng.integers(0, 20, 2)))
    g = geometry((80, 59), (2, 30), (int(stride), 1), (1, int(dilation)), pads)
    judge(checker, row, rng, case_of(row, g, 7 * 64 // size - 3, kind="random"))


@pytest.mark.parametrize("row", every_row("depthwise_channels"), ids=symbol)
@pytest.mark.parametrize("place", PLACES)
def test_rows_of_taps_that_are_longer_than_the_image(checker, row, place, rng):
    """Of images of each width: weights move on, instead of inputs, where that shares more."""
    for width in few(range(1, 27), 5):
        taps, dilation = int(rng.integers(9, 60)), int(rng.choice([1, 1, 2, 3]))
        reach = (taps - 1) * dilation
        pads = (1, 1, *(int(x) for x in rng.integers(reach // 2 - 4, reach // 2 + 5, 2)))
        g = geometry((4, width), (3, taps), (1, 1), (1, dilation), pads)
        if g is None:
            continue
        channels = int(rng.integers(1, 3)) * row["lanes"] + int(rng.integers(3))
        for kind in ("random", "special"):
            judge(checker, row, rng, case_of(row, g, channels, kind=kind, place=place))


@every_kernel
def test_every_multiplier(checker, row, rng):
    """The input that each output channel reads, with each phase if the kernel has phases."""
    for multiplier in (1, 2, 3, 5, 17):
        for phase, size in itertools.product(range(multiplier if by_channels(row) else 1), (3, 2)):
            g = geometry((5, 6), (size, size), pads=(1, 1, 1, 1))
            channels = int(rng.integers(1, 80 if is_bytes(row) else 41))
            judge(checker, row, rng, case_of(row, g, channels, multiplier=multiplier, phase=phase))


@pytest.mark.sampled(60)
@pytest.mark.parametrize("row", every_row("depthwise_channels"), ids=symbol)
@pytest.mark.parametrize("depth", [2, 4, 8, 16, 32, 48])
@pytest.mark.parametrize("place", PLACES)
def test_groups_of_few_channels(checker, row, depth, place, rng):
    """Groups that share a vector, fill one or several; each loop, width, part and kind."""
    for size, stride in (*SIZES, (3, 2), (3, 1), (1, 1)):
        for _ in few(range(6), 2):
            groups = int(rng.integers(1, max(72 // depth, 1) + 1))
            shape = tuple(int(x) for x in rng.integers(1, 16, 2))
            g = square(shape, size, stride) or draw_geometry(rng)
            first, count = draw_rows(rng, g.oh)
            part = {"depth": depth, "first": first, "rows": count, "place": place}
            slab = bool(rng.integers(2))
            judge(checker, row, rng, drawn(rng, row, g, depth * groups, slab=slab, **part))
            exact = case_of(row, g, depth * groups, kind="integers", **part)
            judge(checker, row, rng, exact)
        g = draw_geometry(rng)
        judge(checker, row, rng, drawn(rng, row, g, depth, depth=depth, place=place))


@every_float
def test_every_combination_of_flags(checker, row, rng):
    """Pointers whose flag is not set are invalid; other flags change nothing."""
    own = (BIAS[row["op"]], RESIDUAL, CLIP)
    others = sum(FLAGS.values()) - sum(own)
    for chosen in range(8):
        flags = sum(flag for bit, flag in enumerate(own) if chosen >> bit & 1)
        for size in (3, 5, 4):
            for more in (0, others):
                g = geometry((9, 21), (size, size), pads=(1, 1, 1, 1))
                judge(checker, row, rng, Depthwise(g, 19, flags=flags | more))


@every_float
def test_integers_against_float64(checker, row, rng):
    """Sums of small integers are exact in any order."""
    for _ in few(range(100), 20):
        judge(checker, row, rng, draw_case(rng, row, kind="integers"))


@every_float
def test_infinite_weights_on_padding_add_nothing(checker, row, rng):
    """Taps on padding are left out: no 0 * inf, in any lane of any loop."""
    shapes = (5, 7), (5, 3), (6, 21), (6, 2), (9, 40), (5, 9)
    for size, stride, shape in zip((3, 3, 5, 3, 3, 4), (1, 1, 2, 2, 1, 1), shapes, strict=True):
        g = geometry(shape, (size, size), (stride, stride), pads=(size,) * 4)
        call = DepthwiseCall(checker, row, rng, Depthwise(g, 5, rows=g.oh, kind="random"))
        call.packed[...] = np.inf
        call.src[...] = 1
        got = call.run(g)
        assert not np.isnan(got).any()
        # The window of the first pixel is padding, that of the middle one is in the image.
        assert (got[:, 0, 0] == 0).all()
        assert np.isposinf(got[:, g.oh // 2, g.ow // 2]).all()

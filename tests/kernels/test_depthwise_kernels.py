"""Both depthwise kernels: all tails, strides, paddings, multipliers, and parts of an image."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from asm.contract import FLAGS
from tests.emulation import few
from tests.kernels.depthwise_case import (
    BIAS,
    CLIP,
    RESIDUAL,
    Depthwise,
    DepthwiseCall,
    draw_geometry,
    draw_rows,
    geometry,
    judge,
)
from tests.kernels.guarded_memory import PLACES
from tests.kernels.kernel_table import every_row, symbol
from tests.kernels.kernel_values import KINDS

ROWS = [*every_row("depthwise_pixels"), *every_row("depthwise_channels")]
every_kernel = pytest.mark.parametrize("row", ROWS, ids=symbol)


def draw_flags(rng: np.random.Generator, op: str) -> int:
    """Draw any of the flags of `op`."""
    return sum(int(flag) for flag in (BIAS[op], RESIDUAL, CLIP) if rng.random() < 0.5)


def draw_case(rng: np.random.Generator, op: str, **fixed: object) -> Depthwise:
    """Draw a case of any kernel size, stride, dilation and padding."""
    g = draw_geometry(rng)
    multiplier = int(rng.choice([1, 1, 2, 3]))
    first, count = draw_rows(rng, g.oh)
    case = Depthwise(
        g,
        channels=int(rng.integers(1, 41 if op == "depthwise_channels" else 6)),
        multiplier=multiplier,
        phase=int(rng.integers(0, multiplier)) if op == "depthwise_channels" else 0,
        first=first,
        rows=count,
        flags=draw_flags(rng, op),
        kind=str(rng.choice(KINDS)),
    )
    return replace(case, **fixed)


@pytest.mark.sampled(32)
@every_kernel
@pytest.mark.parametrize(("size", "stride"), [(3, 1), (3, 2), (5, 1), (5, 2), (7, 1)])
def test_every_width(checker, row, size, stride, rng):
    """Each width of the sizes that have loops of their own, padded as usual and anyhow."""
    for width in range(1, 41):
        for pads in ((size // 2,) * 4, tuple(int(x) for x in rng.integers(0, size + 2, 4))):
            shape = (int(rng.integers(1, 18)), width)
            g = geometry(shape, (size, size), (stride, stride), pads=pads)
            if g is None:
                continue
            first, count = draw_rows(rng, g.oh)
            case = Depthwise(g, int(rng.integers(1, 4)), 1, 0, first, count)
            case.flags, case.kind = draw_flags(rng, row["op"]), str(rng.choice(KINDS))
            judge(checker, row, rng, case)


@pytest.mark.sampled(12)
@every_kernel
@pytest.mark.parametrize("size", [3, 5, 7])
def test_every_number_of_rows(checker, row, size, rng):
    """From each first row to each last one, of images that fill a vector and of narrow ones."""
    for shape in ((11, 7), (8, 8), (9, 4), (10, 18), (17, 1)):
        g = geometry(shape, (size, size), pads=(size // 2,) * 4)
        for first in range(g.oh):
            for count in range(1, g.oh - first + 1):
                case = Depthwise(g, 2, first=first, rows=count, flags=BIAS[row["op"]])
                judge(checker, row, rng, replace(case, kind="random"))


@every_kernel
@pytest.mark.parametrize(("shape", "channels"), [((21, 1100), 2), ((40, 40), 11)])
def test_more_than_caches_are_to_hold(checker, row, shape, channels, rng):
    """Images that loops cut into bands of rows, and channels that they cut into groups."""
    for size, stride in few(itertools.product((3, 5), (1, 2)), 2):
        g = geometry(shape, (size, size), (stride, stride), pads=(size // 2,) * 4)
        judge(checker, row, rng, Depthwise(g, channels, flags=BIAS[row["op"]], kind="random"))


@pytest.mark.sampled(19)
@every_kernel
@pytest.mark.parametrize("place", PLACES)
def test_no_line_that_the_rows_do_not_see_is_read(checker, row, place, rng):
    """A caller may have converted only those into its scratch."""
    for size, stride in itertools.product((3, 5, 4, 7), (1, 2)):
        for shape in few(((12, 5), (9, 8), (13, 21)), 1):
            g = geometry(shape, (size, size), (stride, stride), pads=(size // 2,) * 4)
            for first in range(g.oh):
                rows = int(rng.integers(1, g.oh - first + 1))
                case = Depthwise(g, 2, first=first, rows=rows, flags=BIAS[row["op"]], slab=True)
                judge(checker, row, rng, replace(case, kind="random", place=place))


@every_kernel
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_images_without_pixels(checker, row, shape, rng):
    """Padding alone: outputs are sums of nothing."""
    for size, stride in ((3, 1), (3, 2), (5, 1), (5, 2), (7, 1), (4, 1)):
        g = geometry(shape, (size, size), (stride, stride), pads=(20,) * 4)
        judge(checker, row, rng, Depthwise(g, 3, flags=BIAS[row["op"]], kind="random"))


@pytest.mark.sampled(10)
@every_kernel
def test_every_number_of_channels(checker, row, rng):
    """Each tail of a vector of channels, in each of the loops."""
    for channels in range(1, 41):
        for size, stride in ((3, 1), (3, 2), (5, 1), (5, 2), (7, 1), (4, 1)):
            # Of size 4 and padded by 2, no image is too small.
            shape = tuple(int(x) for x in rng.integers(1, 15, 2))
            g = geometry(shape, (size, size), (stride, stride), pads=(size // 2,) * 4)
            case = Depthwise(g, channels, flags=draw_flags(rng, row["op"]))
            judge(checker, row, rng, case)


@pytest.mark.sampled(7)
@every_kernel
@pytest.mark.parametrize("place", PLACES)
def test_any_problem(checker, row, place, rng):
    """Kernels 1x1 to 7x7, paddings beyond the kernel, dilations, multipliers, parts."""
    for _ in few(range(300), 20):
        judge(checker, row, rng, draw_case(rng, row["op"], place=place))


@pytest.mark.sampled(5)
@every_kernel
@pytest.mark.parametrize("place", PLACES)
def test_rows_of_many_vectors(checker, row, place, rng):
    """Blocks of rows and vectors, their ends, and kernels that are larger than a block."""
    for _ in few(range(120), 8):
        kernel = tuple(int(x) for x in rng.integers(1, 13, 2))
        dilation = tuple(int(x) for x in rng.choice([1, 1, 2, 3], 2))
        reach = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
        pads = tuple(int(x) for x in rng.integers(0, [n + 1 for n in reach for _ in range(2)]))
        shape = int(rng.integers(1, 40)), int(rng.integers(1, 300))
        g = geometry(shape, kernel, dilation=dilation, pads=pads)
        if g is None:
            continue
        first, count = draw_rows(rng, g.oh)
        case = Depthwise(g, int(rng.integers(1, 4)), int(rng.integers(1, 3)), 0, first, count)
        case.flags, case.slab = draw_flags(rng, row["op"]), bool(rng.integers(2))
        judge(checker, row, rng, replace(case, kind=str(rng.choice(KINDS)), place=place))


@every_kernel
def test_every_multiplier(checker, row, rng):
    """Which input an output channel reads, from each phase on where the kernel has one."""
    for multiplier in (1, 2, 3, 5, 17):
        for phase in range(multiplier if row["op"] == "depthwise_channels" else 1):
            for size in (3, 2):
                g = geometry((5, 6), (size, size), pads=(1, 1, 1, 1))
                channels = int(rng.integers(1, 41))
                case = Depthwise(g, channels, multiplier, phase, kind="random")
                judge(checker, row, rng, case)


@every_kernel
def test_every_combination_of_flags(checker, row, rng):
    """A pointer that no flag calls for leads nowhere; other flags change nothing."""
    own = (BIAS[row["op"]], RESIDUAL, CLIP)
    others = sum(FLAGS.values()) - sum(own)
    for chosen in range(8):
        flags = sum(flag for bit, flag in enumerate(own) if chosen >> bit & 1)
        for size in (3, 5, 4):
            for more in (0, others):
                g = geometry((9, 21), (size, size), pads=(1, 1, 1, 1))
                judge(checker, row, rng, Depthwise(g, 19, flags=flags | more))


@every_kernel
def test_integers_against_float64(checker, row, rng):
    """Sums of small integers are exact, whatever computes them."""
    for _ in few(range(100), 20):
        judge(checker, row, rng, draw_case(rng, row["op"], kind="integers"))


@every_kernel
def test_infinite_weights_on_padding_add_nothing(checker, row, rng):
    """Taps on padding are left out: no 0 * inf, in any lane of any loop."""
    shapes = (5, 7), (5, 3), (6, 21), (6, 2), (9, 40), (5, 9)
    for size, stride, shape in zip((3, 3, 5, 3, 3, 4), (1, 1, 2, 2, 1, 1), shapes, strict=True):
        g = geometry(shape, (size, size), (stride, stride), pads=(size,) * 4)
        call = DepthwiseCall(checker, row, rng, Depthwise(g, 5, rows=g.oh, kind="random"))
        call.weights[...] = np.inf
        call.src[...] = 1
        got = call.run(g)
        assert not np.isnan(got).any()
        # The first pixel sees nothing but padding, one in the middle the image.
        assert (got[:, 0, 0] == 0).all()
        assert np.isposinf(got[:, g.oh // 2, g.ow // 2]).all()

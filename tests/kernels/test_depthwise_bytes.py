"""Depthwise convolution of bytes: all tails, kernels, strides, paddings, weights, parts; exact."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests.emulation import few
from tests.kernels.depthwise_bytes_case import WEIGHTS, DepthwiseBytes, judge
from tests.kernels.depthwise_case import draw_geometry, draw_rows, geometry
from tests.kernels.guarded_memory import PLACES
from tests.kernels.kernel_table import every_row, symbol

ROWS = [*every_row("depthwise_bytes_pixels"), *every_row("depthwise_bytes_channels")]
every_kernel = pytest.mark.parametrize("row", ROWS, ids=symbol)
SQUARES = ((3, 1), (3, 2), (5, 1), (5, 2))


def by_channels(row: dict) -> bool:
    """Whether vectors of this kernel run along channels."""
    return row["op"] == "depthwise_bytes_channels"


def draw_case(rng: np.random.Generator, row: dict, **fixed: object) -> DepthwiseBytes:
    """Draw a case of any kernel size, stride, dilation and padding."""
    g = draw_geometry(rng)
    multiplier = int(rng.choice([1, 1, 2, 3]))
    first, count = draw_rows(rng, g.oh)
    column, columns = draw_rows(rng, g.ow) if by_channels(row) else (0, g.ow)
    case = DepthwiseBytes(
        g,
        channels=int(rng.integers(1, 150 if by_channels(row) else 6)),
        multiplier=multiplier,
        phase=int(rng.integers(0, multiplier)) if by_channels(row) else 0,
        first=first,
        rows=count,
        first_column=column,
        columns=columns,
        weights=str(rng.choice(WEIGHTS)),
    )
    return replace(case, **fixed)


@pytest.mark.sampled(20)
@every_kernel
@pytest.mark.parametrize(("size", "stride"), SQUARES)
def test_every_width(checker, row, size, stride, rng):
    """Each width of the sizes that have loops of their own, padded as usual and anyhow."""
    for width in range(1, 70):
        for pads in ((size // 2,) * 4, tuple(int(x) for x in rng.integers(0, size + 2, 4))):
            shape = (int(rng.integers(1, 18)), width)
            g = geometry(shape, (size, size), (stride, stride), pads=pads)
            if g is None:
                continue
            first, count = draw_rows(rng, g.oh)
            case = DepthwiseBytes(g, int(rng.integers(1, 4)), first=first, rows=count)
            judge(checker, row, rng, replace(case, weights=str(rng.choice(WEIGHTS))))


@pytest.mark.sampled(15)
@every_kernel
@pytest.mark.parametrize(("size", "stride"), SQUARES)
def test_every_number_of_rows(checker, row, size, stride, rng):
    """From each first row to each last one, of images that fill a vector and of narrow ones."""
    for shape in ((11, 7), (8, 8), (9, 4), (10, 18), (17, 1)):
        g = geometry(shape, (size, size), (stride, stride), pads=(size // 2,) * 4)
        for first in range(g.oh):
            for count in range(1, g.oh - first + 1):
                judge(checker, row, rng, DepthwiseBytes(g, 2, first=first, rows=count))


@pytest.mark.sampled(29)
@every_kernel
@pytest.mark.parametrize(("size", "stride"), [*SQUARES, (4, 1)])
def test_every_number_of_channels(checker, row, size, stride, rng):
    """Each tail of a unit of channels, and of a vector, in each of the loops."""
    for channels in range(1, 140 if by_channels(row) else 10):
        # Of size 4 and padded by 2, no image is too small.
        shape = tuple(int(x) for x in rng.integers(1, 9, 2))
        g = geometry(shape, (size, size), (stride, stride), pads=(size // 2,) * 4)
        judge(checker, row, rng, DepthwiseBytes(g, channels, weights="mixed"))


@pytest.mark.parametrize("row", every_row("depthwise_bytes_channels"), ids=symbol)
@pytest.mark.parametrize(("size", "stride"), [*SQUARES, (4, 1)])
def test_every_part_of_the_columns(checker, row, size, stride, rng):
    """From each first column to each last one, and nothing beside them."""
    g = geometry((6, 9), (size, size), (stride, stride), pads=(size // 2,) * 4)
    for first in range(g.ow):
        for count in range(1, g.ow - first + 1):
            case = DepthwiseBytes(g, 70, first_column=first, columns=count)
            judge(checker, row, rng, case)


@pytest.mark.sampled(60)
@every_kernel
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize(("size", "stride"), SQUARES)
def test_largest_sums(checker, row, weights, size, stride, rng):
    """Extreme weights on extreme inputs: no step on the way may saturate."""
    g = geometry((9, 21), (size, size), (stride, stride), pads=(size // 2,) * 4)
    for _ in few(range(20), 4):
        judge(checker, row, rng, DepthwiseBytes(g, 67, weights=weights))


@pytest.mark.sampled(20)
@every_kernel
@pytest.mark.parametrize("place", PLACES)
def test_no_line_that_the_rows_do_not_see_is_read(checker, row, place, rng):
    """A caller may have but those in memory."""
    for size, stride in (*SQUARES, (4, 1), (4, 2)):
        for shape in few(((12, 5), (9, 8), (13, 21)), 1):
            g = geometry(shape, (size, size), (stride, stride), pads=(size // 2,) * 4)
            for first in range(g.oh):
                rows = int(rng.integers(1, g.oh - first + 1))
                case = DepthwiseBytes(g, 2, first=first, rows=rows, slab=True)
                judge(checker, row, rng, replace(case, place=place))


@every_kernel
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_images_without_pixels(checker, row, shape, rng):
    """Padding alone: every tap counts as zero."""
    for size, stride in (*SQUARES, (4, 1)):
        g = geometry(shape, (size, size), (stride, stride), pads=(20,) * 4)
        judge(checker, row, rng, DepthwiseBytes(g, 3))


@pytest.mark.sampled(7)
@every_kernel
@pytest.mark.parametrize("place", PLACES)
def test_any_problem(checker, row, place, rng):
    """Kernels 1x1 to 7x7, paddings beyond the kernel, dilations, multipliers, parts."""
    for _ in few(range(300), 20):
        judge(checker, row, rng, draw_case(rng, row, place=place))


@every_kernel
def test_every_multiplier(checker, row, rng):
    """Which input an output channel reads, from each phase on where the kernel has one."""
    for multiplier in (1, 2, 3, 5, 17):
        for phase, size in itertools.product(range(multiplier if by_channels(row) else 1), (3, 2)):
            g = geometry((5, 6), (size, size), pads=(1, 1, 1, 1))
            channels = int(rng.integers(1, 80))
            judge(checker, row, rng, DepthwiseBytes(g, channels, multiplier, phase))

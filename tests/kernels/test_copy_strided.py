"""Copies by any strides: each path, every tail, and no bit changed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.guarded_memory import extent_of
from tests.kernels.kernel_table import BITS, every_row, lanes_of, symbol
from tests.kernels.packing_case import PackingCall

every_kernel = pytest.mark.parametrize("row", every_row("copy_strided"), ids=symbol)


def spread(shape: tuple[int, int], first: int, gaps: tuple[int, int]) -> tuple[int, int]:
    """Strides in elements, axis `first` innermost; `gaps` between elements and between lines."""
    inner = 1 + gaps[0]
    outer = inner * shape[first] + gaps[1]
    return (inner, outer) if first == 0 else (outer, inner)


def copy(checker, row, rng, shape, src_strides, dst_strides, flips=(1, 1, 1, 1)) -> None:
    """Copy random bits; a flip of -1 walks an axis of src or of dst from its end."""
    call = PackingCall(checker, row, rng)
    size, bits = call.dtype.itemsize, BITS[row["dtype"]]
    src_strides = tuple(s * size for s in src_strides)
    dst_strides = tuple(s * size for s in dst_strides)
    # An axis with stride zero has one element in memory.
    held = tuple(n if s else 1 for n, s in zip(shape, src_strides, strict=True))
    src = call.place_input("src", held, src_strides).view(bits)
    src[...] = rng.integers(0, np.iinfo(bits).max, held, bits, endpoint=True)
    call.place_output("dst", shape, dst_strides)
    expected = np.broadcast_to(src, shape)[:: flips[0] * flips[2], :: flips[1] * flips[3]]
    names = ("src_rs", "src_cs", "dst_rs", "dst_cs")
    strides = (*src_strides, *dst_strides)
    for name, stride, flip, count in zip(names, strides, flips, (*shape, *shape), strict=True):
        call.values[name] = flip * stride
        if flip < 0:
            call.values[name[:3]] += (count - 1) * stride
    call.values |= {"rows": shape[0], "columns": shape[1]}
    assert extent_of(shape, dst_strides, size) >= shape[0] * shape[1] * size
    context = (shape, src_strides, dst_strides, flips)
    got = call.run(context)
    call.same_bits(got, expected.view(call.dtype), context)


def block_of(row: dict) -> int:
    """Rows and columns of a block that is transposed: rows of narrow types have 16 bytes."""
    return {"u8": 16, "s16": 8}.get(row["dtype"], lanes_of(row))


def shapes(row: dict, rng: np.random.Generator):
    """Every number of rows with some number of columns, the other way round, and some more."""
    lanes = block_of(row)
    for i in range(1, 2 * lanes + 4):
        yield i, int(rng.integers(1, 3 * lanes))
        yield int(rng.integers(1, 3 * lanes)), i
    for _ in range(10):
        yield tuple(int(n) for n in rng.integers(1, 5 * lanes, 2))


@every_kernel
@pytest.mark.parametrize("gap", [0, 3])
@pytest.mark.parametrize("inner", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_copies_and_transpositions(checker, row, inner, gap, rng):
    """Elements are neighbours along either axis of either array; lines with and without gaps."""
    for shape in shapes(row, rng):
        strides = [spread(shape, axis, (0, gap * int(rng.integers(0, 2)))) for axis in inner]
        copy(checker, row, rng, shape, *strides)


@every_kernel
def test_every_length_of_a_line(checker, row, rng):
    """Up to nine vectors, with every remainder."""
    lanes = lanes_of(row)
    for count in range(1, 9 * lanes + 3):
        copy(checker, row, rng, (1, count), (count, 1), (count, 1))
        copy(checker, row, rng, (count, 1), (1, 1), (1, 1))


@every_kernel
def test_every_length_of_a_line_walked_down(checker, row, rng):
    """Up to nine vectors, with every remainder; lines with and without gaps, walked down or up."""
    lanes = lanes_of(row)
    for count in range(1, 9 * lanes + 3):
        lines = int(rng.integers(1, 4))
        src, dst = (count + int(gap) for gap in rng.integers(0, 2, 2))
        flips = (int(rng.choice([-1, 1])), -1, 1, 1)
        copy(checker, row, rng, (lines, count), (src, 1), (dst, 1), flips)


@every_kernel
@pytest.mark.parametrize("lines", [2, 3, 4])
def test_lines_in_turn(checker, row, lines, rng):
    """A few lines of src are interleaved into one line."""
    lanes = block_of(row)
    for count in range(1, 5 * lanes + 3):
        apart = count + int(rng.integers(0, 3))
        copy(checker, row, rng, (count, lines), (1, apart), (lines, 1))


@every_kernel
def test_broadcasts(checker, row, rng):
    """One element, a row or a column of src is repeated."""
    for shape in shapes(row, rng):
        dst = spread(shape, int(rng.integers(0, 2)), (0, int(rng.integers(0, 3))))
        for src in ((0, 0), (0, 1), (1, 0), (2, 0), (0, 2)):
            copy(checker, row, rng, shape, src, dst)


@every_kernel
def test_any_strides(checker, row, rng):
    """Gaps between elements, and axes walked from their ends."""
    for shape in shapes(row, rng):
        src, dst = (
            spread(shape, int(rng.integers(0, 2)), tuple(int(g) for g in rng.integers(0, 3, 2)))
            for _ in range(2)
        )
        copy(checker, row, rng, shape, src, dst)
        flips = tuple(int(f) for f in rng.choice([-1, 1], 4))
        copy(checker, row, rng, shape, src, dst, flips)

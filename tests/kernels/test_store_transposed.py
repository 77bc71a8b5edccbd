"""The transposing store with its epilogue."""

from __future__ import annotations

import numpy as np
import pytest

from asm.contract import FLAGS
from tests.kernels.kernel_table import BITS, every_row, lanes_of, symbol
from tests.kernels.packing_case import PackingCall

every_kernel = pytest.mark.parametrize("row", every_row("store_transposed"), ids=symbol)
BIAS, RESIDUAL, CLIP = FLAGS["BIAS_COLUMN"], FLAGS["RESIDUAL"], FLAGS["CLIP"]
CLIPS = ((0.0, np.inf), (0.0, 6.0), (-0.5, 0.5))


def check(checker, row: dict, rng: np.random.Generator, shape: tuple[int, int], flags: int):
    """Store one tile of `shape` (pixels, channels)."""
    call = PackingCall(checker, row, rng)
    pixels, channels = shape
    size = call.dtype.itemsize
    gaps = rng.integers(0, 9, 3) * rng.integers(0, 2, 3)
    src_rs, dst_rs, residual_rs = (
        int(n + gap) * size for n, gap in zip((channels, pixels, pixels), gaps, strict=True)
    )
    src = call.place_input("src", shape, (src_rs, size))
    call.place_output("dst", (channels, pixels), (dst_rs, size))
    call.values |= {
        "src_rs": src_rs,
        "dst_rs": dst_rs,
        "residual_rs": residual_rs,
        "rows": pixels,
        "columns": channels,
        "flags": flags,
    }
    # The kernel adds in the same order and type, so the bits are known.
    with np.errstate(all="ignore"):
        expected = np.ascontiguousarray(src.T)
        if flags & BIAS:
            expected = expected + call.place_input("bias", (channels,), (size,))[:, np.newaxis]
        if flags & RESIDUAL:
            strides = (residual_rs, size)
            expected = expected + call.place_input("residual", (channels, pixels), strides)
        if flags & CLIP:
            clip = call.place_input("clip", (2,), (size,))
            clip[...] = CLIPS[int(rng.integers(len(CLIPS)))]
            expected = np.where(expected < clip[0], clip[0], expected)
            expected = np.where(expected > clip[1], clip[1], expected)
    got = call.run(call.values)
    if flags & (BIAS | RESIDUAL):
        # The contract does not say which of two NaNs an addition keeps.
        nan = np.isnan(expected)
        np.testing.assert_array_equal(np.isnan(got), nan)
        bits = BITS[row["dtype"]]
        for array in (got, expected):
            array.view(bits)[nan] = 0
    call.same_bits(got, expected, call.values)


@every_kernel
@pytest.mark.parametrize(
    "flags", [b | r | c for b in (0, BIAS) for r in (0, RESIDUAL) for c in (0, CLIP)]
)
def test_tails(checker, row, flags, rng):
    """Each number of pixels and of channels around one block and around two."""
    lanes = lanes_of(row)
    sizes = [*range(1, lanes + 2), 2 * lanes - 1, 2 * lanes, 2 * lanes + 1]
    for n in sizes:
        for other in (1, lanes, int(rng.choice(sizes))):
            check(checker, row, rng, (n, other), flags)
            check(checker, row, rng, (other, n), flags)


@every_kernel
def test_other_flags_are_not_read(checker, row, rng):
    """A flag that the operation does not have changes nothing."""
    for name in ("ACCUMULATE", "BIAS_ROW", "B_PADDED"):
        check(checker, row, rng, (9, 7), FLAGS[name])

"""Rows of filters of integers by pairs, against wide integers: tails, steps, open ones."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.imaging.fixed_point import pair_weights
from tests.kernels.kernel_table import every_row, symbol
from tests.kernels.rows_call import Call

pytestmark = pytest.mark.unemulated("its kernels are x86-64's")

every_kernel = pytest.mark.parametrize("row", every_row("pair_sums"), ids=symbol)
every_copy = pytest.mark.parametrize("row", every_row("pair_pixels"), ids=symbol)
every_rows = pytest.mark.parametrize("row", every_row("pair_rows"), ids=symbol)
TYPES = (np.uint8, np.uint16, np.int16)


def in_pairs(pixels):
    """Numbers of pixels (W, C), W even, in pairs."""
    return pixels.reshape(-1, 2, pixels.shape[1]).transpose(0, 2, 1).ravel()


def drawn(rng, shape, dtype):
    """Draw pixels of any size, or the smallest and the largest alone."""
    limits = np.iinfo(dtype)
    if rng.random() < 0.3:
        return rng.choice([limits.min, limits.max], shape).astype(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def check(checker, row, rng, pixels, kernel, channels, count, most_listed):
    """Run the kernel, and compare results below `count`; gives the listed vectors.

    Bytes have one row more, and their results are even in number, of two rows.
    """
    dtype, (rows, across) = pixels.dtype, kernel.shape
    is_bytes = dtype == np.uint8
    numbers = pair_weights(kernel.ravel(), kernel.shape, dtype, separable=False)
    assert numbers is not None
    lines, pairs = (rows // 2 + 1, across) if is_bytes else (rows, across // 2 + 1)
    call = Call(checker, row, rng)
    end = 9 + 4 * lines * pairs
    for name, part in (("parameters", numbers[:9]), ("fine", numbers[9:end])):
        call.put(name, part.reshape(1, -1), 0)
    call.put("weights", numbers[end:].view(np.int16).reshape(1, -1), 0)
    if is_bytes:
        # A row behind the last one has weights of zero.
        below = np.resize(pixels, (2 * lines, *pixels.shape[1:])).reshape(lines, 2, -1)
        laid = below.transpose(0, 2, 1).reshape(lines, -1).astype(np.int16)
    else:
        laid = np.stack([in_pairs(line) for line in pixels])
    read = -(-count // 32) * 32 + (pairs - 1) * 2 * channels
    assert laid.shape[1] == read
    call.put("pixels", laid, 2 * read + 2 * int(rng.integers(0, 40)))
    first, gap = call.values.pop("pixels"), call.values["pixels_rs"]
    call.put("rows", np.array([[first + gap * r for r in range(lines)]], np.int64), 0)
    listed = call.put("open", np.full((1, count // 16 + 1), -1, np.int64), 0, writable=True)
    number = call.put("open_count", np.full((1, 1), -1, np.int64), 0, writable=True)
    sizes = {"tap_rows": lines, "pairs": pairs, "step": 4 * channels, "count": count}
    if is_bytes:
        first = call.put("dst", np.full((1, count // 2), 0x55, dtype), count, writable=True)
        call.put("second", np.full((1, count // 2), 0x55, dtype), count, writable=True)
        second = call.run(**sizes)
        found = np.stack([first[0], second[0]], 1).ravel()
    else:
        call.put("dst", np.full((1, count), 0x5555, dtype), 2 * count, writable=True)
        found = call.run(**sizes, second=0)[0]
    exact = [[int(weight * 2.0**80) for weight in line] for line in kernel.tolist()]
    windows = np.lib.stride_tricks.sliding_window_view(
        pixels.astype(object), (across,), axis=1
    )  # (rows, W', C, across)
    taps = [(r, k) for r in range(rows) for k in range(across)]
    if is_bytes:
        both = [sum(windows[r + s, ..., k] * exact[r][k] for r, k in taps).ravel() for s in (0, 1)]
        sums = np.stack(both, 1).ravel()[:count]
    else:
        sums = sum(windows[r, ..., k] * exact[r][k] for r, k in taps)
        sums = in_pairs(sums[: len(sums) // 2 * 2])[:count]
    below = sums // (1 << 80)
    twice = 2 * (sums - below * (1 << 80))
    whole = below + ((twice > 1 << 80) | ((twice == 1 << 80) & (below % 2 == 1)))
    limits = np.iinfo(dtype)
    expected = np.minimum(np.maximum(whole, int(limits.min)), int(limits.max)).astype(dtype)
    size = row["lanes"] * 2
    vectors = listed[0, : number[0, 0]]
    assert len(vectors) <= most_listed and (listed[0, number[0, 0] :] == -1).all()
    open_ = np.zeros(count, bool)
    for at in vectors:
        open_[at : at + size] = True
    np.testing.assert_array_equal(found[~open_], expected[~open_])
    return vectors


def pixels_for(rng, kernel, channels, count, dtype):
    """Pixels whose pairs a kernel may read for `count` results."""
    if dtype == np.uint8:
        numbers = -(-count // 32) * 16 + (kernel.shape[1] - 1) * channels
        return drawn(rng, (kernel.shape[0] + 1, numbers // channels, channels), dtype)
    numbers = -(-count // 32) * 32 + kernel.shape[1] // 2 * 2 * channels
    return drawn(rng, (kernel.shape[0], numbers // channels, channels), dtype)


@every_kernel
@pytest.mark.parametrize("dtype", TYPES)
def test_results(checker, row, rng, dtype):
    """Every tail, kernels with negative weights, sums that saturate."""
    for count in (*range(1, 70), 127, 129, 200, 257, 300):
        kernel = rng.standard_normal(rng.integers(1, 8, 2).tolist())
        if rng.random() < 0.5:
            kernel = np.abs(kernel)
        # Of one tap, a weight of few decimals would have sums half way.
        scale = rng.choice([0.5, 1.0, 3.0]) * (1 - rng.random() / 1000)
        kernel *= scale / np.abs(kernel).sum()
        count *= 2 if dtype == np.uint8 else 1
        pixels = pixels_for(rng, kernel, 1, count, dtype)
        check(checker, row, rng, pixels, kernel, 1, count, 0)


@every_kernel
@pytest.mark.parametrize("dtype", TYPES)
def test_channels(checker, row, rng, dtype):
    """Pairs of the same channel are some lanes apart."""
    for channels in (2, 4, 8):
        kernel = rng.random((3, int(rng.integers(1, 8))))
        kernel /= kernel.sum()
        pixels = pixels_for(rng, kernel, channels, 32 * channels, dtype)
        check(checker, row, rng, pixels, kernel, channels, 32 * channels, 0)


@every_kernel
@pytest.mark.parametrize("dtype", TYPES)
def test_extremes(checker, row, rng, dtype):
    """The largest sums of pixels of one value, where 32 bits are all but full."""
    for value in (np.iinfo(dtype).min, np.iinfo(dtype).max):
        for side in (1, 3, 5, 8):
            for sign in (1, -1):
                kernel = rng.random((side, side)) * sign
                kernel *= rng.choice([0.9999, 0.99999999]) / np.abs(kernel).sum()
                pixels = pixels_for(rng, kernel, 1, 130, dtype)
                pixels[...] = value
                check(checker, row, rng, pixels, kernel, 1, 130, 0)


@every_kernel
def test_open_results(checker, row, rng):
    """Sums that are half way, or next to it by what longer weights do not tell, are listed."""
    kernel = np.zeros((3, 3))
    size = row["lanes"] * 2
    for more in (-(2.0**-50), 0.0, 2.0**-50):
        kernel[1, 1] = 0.25 + more
        kernel[0, 0] = 2.0**-20
        pixels = np.zeros((3, 194, 1), np.uint16)
        for at in (1, 2, 33, 70, 160):
            pixels[1, at] = 2
            vectors = check(checker, row, rng, pixels, kernel, 1, 192, 1)
            assert vectors.tolist() == [(at - 1) // size * size]
            pixels[1, at] = 0
        kernel[1, 1] = 0.25 + 2.0**-22 * (1 if more > 0 else -1)
        pixels[1] = 2
        assert not len(check(checker, row, rng, pixels, kernel, 1, 192, 0))


@every_kernel
def test_open_bytes(checker, row, rng):
    """A sum half way in either of both rows lists the vector of its lane, and no other one."""
    kernel = np.zeros((3, 3))
    kernel[1, 1], kernel[0, 0] = 0.25, 2.0**-20
    for line in (1, 2):
        for at in (1, 2, 33, 70, 96):
            pixels = np.zeros((4, 98, 1), np.uint8)
            pixels[line, at] = 2
            vectors = check(checker, row, rng, pixels, kernel, 1, 192, 1)
            assert vectors.tolist() == [(at - 1) // row["lanes"] * row["lanes"] * 2]
    kernel[1, 1] += 2.0**-22
    pixels = np.full((4, 98, 1), 2, np.uint8)
    assert not len(check(checker, row, rng, pixels, kernel, 1, 192, 0))


@every_rows
def test_rows_of_bytes(checker, row, rng):
    """Two rows become pairs, at every length."""
    for count in (*range(70), 131):
        first, second = rng.integers(0, 256, (2, 1, count), np.uint8)
        call = Call(checker, row, rng)
        call.put("first", first, 0)
        call.put("second", second, 0)
        call.put("dst", np.full((1, 2 * count), 0x5555, np.uint16), 0, writable=True)
        made = call.run(count=count)[0]
        np.testing.assert_array_equal(made, np.stack([first[0], second[0]], 1).ravel())


@every_copy
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_pairs(checker, row, rng, channels):
    """Pixels become pairs and pixels again, at every length."""
    for width in (*range(1, 36), 100):
        pixels = rng.integers(0, 1 << 16, (width + width % 2, channels), np.uint16)
        pairs = in_pairs(pixels)
        count = width * channels
        call = Call(checker, row, rng)
        call.put("src", pixels.reshape(1, -1)[:, :count], 0)
        call.put("dst", np.zeros((1, pairs.size), np.uint16), 0, writable=True)
        made = call.run(count=count, channels=channels, back=0)[0]
        known = in_pairs(np.arange(pixels.size).reshape(pixels.shape)) < count
        np.testing.assert_array_equal(made[known], pairs[known])
        call = Call(checker, row, rng)
        call.put("src", pairs.reshape(1, -1), 0)
        call.put("dst", np.zeros((1, count), np.uint16), 0, writable=True)
        made = call.run(count=count, channels=channels, back=1)[0]
        np.testing.assert_array_equal(made, pixels.ravel()[:count])

"""Scales of activations from samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pplconv import quant
from pplconv.quant.histogram import Histogram

F32, S8, U8 = np.float32, np.int8, np.uint8
METHODS = ["minmax", "percentile", "mse"]
FINITE = st.floats(-1e6, 1e6, width=32)


def covered(scale, zero):
    """Give the range of real numbers that the integers of a type represent."""
    info = np.iinfo(zero.dtype)
    return (info.min - int(zero)) * float(scale), (info.max - int(zero)) * float(scale)


@given(
    st.lists(arrays.arrays(F32, st.integers(1, 30), elements=FINITE), min_size=1, max_size=5),
    st.sampled_from([U8, S8]),
    st.booleans(),
)
def test_minmax_covers_all_numbers(samples, dtype, symmetric):
    scale, zero = quant.observe(samples, dtype=dtype, symmetric=symmetric)
    assert scale.dtype == F32 and zero.dtype == dtype
    low, high = covered(scale, zero)
    numbers = np.concatenate(samples).astype(float)
    # Rounding extends the range by half a step at each end.
    assert low - 0.501 * scale <= min(numbers.min(), 0)
    assert max(numbers.max(), 0) <= high + 0.501 * scale
    steps = 254 if symmetric else 255
    span = 2 * np.abs(numbers).max() if symmetric else max(numbers.max(), 0) - min(numbers.min(), 0)
    assert scale == F32(max(span / steps, float(np.finfo(F32).tiny)) if span else 1.0)
    if symmetric:
        assert zero == (0 if dtype is S8 else 128)


@pytest.mark.parametrize("method", METHODS)
def test_arrays_one_by_one_are_one_array(rng, method):
    x = rng.standard_normal((6, 50, 7)).astype(F32)
    x[2, 3, 4] = 40
    whole = quant.observe(x, method)
    assert quant.observe(list(x), method) == whole
    assert quant.observe((part for part in x[::-1]), method) == whole
    assert quant.observe([x[0], x[1:3, :10], x[1:3, 10:], x[3:]], method) == whole
    assert quant.observe(x.astype(np.float64), method) == whole


@given(
    st.lists(
        arrays.arrays(F32, st.integers(1, 20), elements=st.floats(-(2.0**100), 2.0**100, width=32)),
        min_size=1,
        max_size=4,
    ),
    st.randoms(use_true_random=False),
)
def test_bins_do_not_depend_on_the_order(parts, random):
    one, other = Histogram(), Histogram()
    for part in parts:
        one.add(part)
    random.shuffle(parts)
    for part in parts:
        other.add(part)
    assert one.reach == other.reach >= max(np.abs(np.concatenate(parts)).max(), 2.0**-150)
    for ours, theirs in zip(one.filled(), other.filled(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert one.filled()[1].sum() == sum(part.size for part in parts)
    middles, counts = one.filled()
    numbers = np.sort(np.concatenate(parts)).astype(float)
    assert np.abs(np.repeat(middles, counts) - numbers).max() <= one.reach / 8192


def test_percentiles_are_numpy_s(rng):
    x = (rng.standard_normal(200_000) * 3 + 1).astype(F32)
    for percentile in (99.0, 99.9, 99.99, 100.0):
        scale, zero = quant.observe(x, "percentile", percentile=percentile)
        low, high = covered(scale, zero)
        wanted = np.percentile(x, [100 - percentile, percentile])
        # The width of a bin, and half a step for the rounded zero point.
        assert np.abs(np.array([low, high]) - wanted).max() <= 32 / 8192 + 0.51 * scale + 0.02
    assert quant.observe(x, "percentile", percentile=100) == quant.observe(x)


def test_few_large_numbers_do_not_decide_a_percentile(rng):
    x = rng.uniform(0, 1, 100_000).astype(F32)
    x[:5] = 1000
    assert quant.observe(x)[0] > 3
    scale, zero = quant.observe(x, "percentile")
    assert 0.99 / 255 < scale < 1.2 / 255 and zero == 0


def error(x, scale, zero):
    back = quant.dequantize(quant.quantize(x, scale, zero), scale, zero)
    return float(np.square(back.astype(float) - x).sum())


@pytest.mark.parametrize("dtype", [U8, S8])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.standard_normal(20_000),
        lambda rng: rng.laplace(size=20_000),
        lambda rng: np.maximum(rng.standard_normal(20_000), 0),
        lambda rng: -rng.exponential(size=20_000),
        lambda rng: np.concatenate([rng.uniform(-1, 1, 20_000), [50.0]]),
    ],
    ids=["normal", "laplace", "relu", "negative", "one far away"],
)
def test_mse_has_the_least_error(rng, draw, symmetric, dtype):
    x = draw(rng).astype(F32)
    kind = {"dtype": dtype, "symmetric": symmetric}
    scale, zero = quant.observe(x, "mse", **kind)
    least = error(x, scale, zero)
    assert least <= error(x, *quant.observe(x, **kind))
    for percentile in (99.0, 99.9, 99.99, 99.999):
        others = quant.observe(x, "percentile", percentile=percentile, **kind)
        assert least <= 1.03 * error(x, *others)
    # Nearby scales are not better, within the precision of the bins.
    for factor in (0.9, 0.95, 1.05, 1.1):
        assert least <= 1.03 * error(x, F32(scale * factor), zero)


@pytest.mark.parametrize("method", METHODS)
def test_zeros(method):
    assert quant.observe(np.zeros(5, F32), method) == (1.0, 0)
    assert quant.observe(np.zeros(5, F32), method, dtype=S8) == (1.0, -128)
    # Zeros beside other numbers do not change their scale.
    assert quant.observe([np.zeros(5, F32), np.array([2.55], F32)], method)[0] == pytest.approx(
        0.01, rel=0.01
    )


@pytest.mark.parametrize("method", METHODS)
def test_zero_is_one_of_the_numbers(rng, method):
    for shift in (5, -5, 0):
        x = rng.uniform(shift - 1, shift + 1, 1000).astype(F32)
        for dtype in (U8, S8):
            scale, zero = quant.observe(x, method, dtype=dtype)
            low, high = covered(scale, zero)
            assert low <= 0 <= high
            assert zero == {5: np.iinfo(dtype).min, -5: np.iinfo(dtype).max}.get(shift, zero)


@pytest.mark.parametrize(
    ("x", "arguments", "error", "name"),
    [
        ([1.0, np.nan], {}, ValueError, "x"),
        ([1.0, np.inf], {}, ValueError, "x"),
        ([-np.inf], {}, ValueError, "x"),
        (np.array([1e300]), {}, ValueError, "x"),
        (np.zeros((0, 3)), {}, ValueError, "x"),
        ([], {}, ValueError, "x"),
        (np.ones(3, int), {}, TypeError, "x"),
        ("numbers", {}, TypeError, "x"),
        (None, {}, TypeError, "x"),
        ([1.0], {"method": "max"}, ValueError, "method"),
        ([1.0], {"percentile": 101}, ValueError, "percentile"),
        ([1.0], {"percentile": 50}, ValueError, "percentile"),
        ([1.0], {"percentile": "99"}, TypeError, "percentile"),
        ([1.0], {"dtype": np.int16}, ValueError, "dtype"),
    ],
)
def test_errors_name_the_argument(x, arguments, error, name):
    with pytest.raises(error, match=rf"^{name}\b"):
        quant.observe(x, **arguments)

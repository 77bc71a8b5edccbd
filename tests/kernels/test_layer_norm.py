"""Layer normalization: tails, scale and offset or none, large means, and rows of NaN."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.kernel_table import DTYPES, computed, computed_lanes_of, every_row, symbol
from tests.kernels.kernel_values import draw
from tests.kernels.packing_case import PackingCall

every_kernel = pytest.mark.parametrize("row", every_row("layer_norm"), ids=symbol)
EPSILON = 1e-5
WRONG = ("mean", "precision", "variance", "count", "squares", "tail", "epsilon", "root")


def layer_norm(checker, row, rng, x, scale=None, offset=None, *, in_place=False) -> np.ndarray:
    """Run the kernel on copies."""
    call = PackingCall(checker, row, rng)
    call.place_rows(x, in_place=in_place)
    for name, values in (("scale", scale), ("offset", offset)):
        if values is None:
            call.values[name] = 0
        else:
            call.place_input(name, values.shape, (call.dtype.itemsize,))[...] = values
    call.place_bytes("epsilon", np.float64(EPSILON).tobytes())
    return call.run(x.shape)


# More than the additions that a summand passes through: at most 22 in the kernel (8 in a chain, 3
# of chains, 4 of lanes, 7 of blocks and the division), 29 in NumPy (15 in a chain, 3 of chains, 7
# in the remainder, 4 of blocks).
ADDITIONS = 32


def normalized(x, scale, offset) -> tuple[np.ndarray, np.ndarray]:
    """Give the expected result and the bound of the rounding errors.

    Each operation has a relative error of ``unit``. The error of a sum is proportional to the sum
    of absolute values, so the error of a small mean is not small. It shifts all differences and
    adds its square to the variance; the first-order terms cancel.
    """
    wide = x.astype(np.longdouble)
    arithmetic = computed(x.dtype)
    # If longdouble is no wider than the arithmetic, the expected result has the same error.
    unit = (np.finfo(arithmetic).eps + np.finfo(np.longdouble).eps) / np.longdouble(2)
    mean = wide.mean(axis=1, keepdims=True)
    variance = wide.var(axis=1, keepdims=True) + np.longdouble(EPSILON)
    deviation = np.sqrt(variance)
    normal = (wide - mean) / deviation
    mean_error = (ADDITIONS * np.abs(wide).mean(axis=1, keepdims=True) + np.abs(mean)) * unit
    # Errors of the squared differences and of their sum; the root halves them.
    root_error = ((ADDITIONS + 3) * unit + mean_error**2 / variance) / 2
    # Errors of the difference, of the rounded factor and of their product.
    error = mean_error / deviation + np.abs(normal) * (root_error + 3 * unit)
    scale = 1 if scale is None else scale.astype(np.longdouble)
    offset = 0 if offset is None else offset.astype(np.longdouble)
    expected = normal * scale + offset
    error = (error + unit * np.abs(normal)) * np.abs(scale) + unit * np.abs(expected)
    # Rounding of the stored result; products of errors are far below one percent.
    stored = np.finfo(x.dtype)
    return expected, 1.01 * error + stored.eps / 2 * np.abs(expected) + stored.smallest_subnormal


def assert_close(row, got, x, scale=None, offset=None) -> None:
    """Fail if an element's error exceeds the bound."""
    expected, allowed = normalized(x, scale, offset)
    error = np.abs(got - expected)
    assert (error <= allowed).all(), f"{row['symbol']}: {float((error / allowed).max())}"


def plainly(x, wrong) -> np.ndarray:
    """Normalize in NumPy, in the type of a kernel's arithmetic, with one mistake or none."""
    a = x.astype(computed(x.dtype))
    n = a.shape[1]
    mean = (a[:, :-1] if wrong == "mean" else a).sum(axis=1, keepdims=True) / n
    if wrong == "precision":
        mean = mean.astype(np.float32 if a.dtype == np.float64 else np.float16).astype(a.dtype)
    moved = a - mean
    variance = (moved[:, :-1] if wrong == "variance" else moved) ** 2
    variance = variance.sum(axis=1, keepdims=True) / (n - 1 if wrong == "count" else n)
    if wrong == "squares":
        variance = (a**2).mean(axis=1, keepdims=True) - mean**2
    if wrong == "tail":  # lanes beyond the last element are zeros, less the mean
        variance += mean**2 / n
    epsilon = 0 if wrong == "epsilon" else EPSILON
    if wrong == "root":
        return (moved / (np.sqrt(variance) + epsilon)).astype(x.dtype)
    return (moved * (1 / np.sqrt(variance + epsilon))).astype(x.dtype)


def spread_around(rng, mean, spread, columns, dtype) -> np.ndarray:
    return (draw(rng, "random", (3, columns), np.dtype(np.float64)) * spread + mean).astype(dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("wrong", WRONG)
def test_the_bound_finds_what_is_wrong(rng, dtype, wrong):
    """Each mistake exceeds the bound on inputs like the kernels'; correct results never do."""
    dtype = np.dtype(dtype)
    far = {"float16": (30, 0.05), "float32": (100, 0.01), "float64": (1e5, 0.01)}[dtype.name]
    found = 0
    for mean, spread in (far, (0.5, 1), (3, 0.01)) * 3:
        x = spread_around(rng, mean, spread, 100, dtype)
        expected, allowed = normalized(x, None, None)
        with np.errstate(invalid="ignore"):
            found += not (np.abs(plainly(x, wrong) - expected) <= allowed).all()
        assert (np.abs(plainly(x, None) - expected) <= allowed).all()
    assert found


@every_kernel
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("moved", [False, True])
def test_tails(checker, row, scaled, moved, rng):
    dtype = DTYPES[row["dtype"]]
    lanes = computed_lanes_of(row)
    more = [vectors * lanes + i for vectors in (3, 7, 8, 9, 12, 13, 64, 65) for i in (-1, 0, 1)]
    for columns in (*range(1, 2 * lanes + 4), *more):
        x = draw(rng, "random", (int(rng.integers(1, 4)), columns), dtype) + dtype.type(0.5)
        scale = draw(rng, "random", (columns,), dtype) if scaled else None
        offset = draw(rng, "random", (columns,), dtype) if moved else None
        for in_place in (False, True):
            got = layer_norm(checker, row, rng, x, scale, offset, in_place=in_place)
            assert_close(row, got, x, scale, offset)


@every_kernel
def test_means_near_zero(checker, row, rng):
    """The error of a mean near zero is not small; elements at zero, near the mean, show it."""
    dtype = DTYPES[row["dtype"]]
    for columns in (2, 3, 7, 60, 130):
        x = spread_around(rng, 0, 1, columns, np.float64)
        x -= x.mean(axis=1, keepdims=True)
        x[:, int(rng.integers(0, columns))] = 0
        x = x.astype(dtype)
        assert_close(row, layer_norm(checker, row, rng, x), x)


@every_kernel
def test_small_variances(checker, row, rng):
    """Epsilon is similar to the variance, or much larger; the mean is larger than both."""
    dtype = DTYPES[row["dtype"]]
    for spread in (1e-2, 3e-3, 1e-6):
        x = spread_around(rng, 3, spread, 130, dtype)
        assert_close(row, layer_norm(checker, row, rng, x), x)


@every_kernel
def test_large_means(checker, row, rng):
    """A variance from squares less the square of the mean would be zero, or negative."""
    dtype = DTYPES[row["dtype"]]
    mean = {"f16": 30, "f32": 3000, "f64": 1e7}[row["dtype"]]
    x = spread_around(rng, mean, 1, 700, dtype)
    assert_close(row, layer_norm(checker, row, rng, x), x)


@every_kernel
def test_equal_elements(checker, row, rng):
    """The result is the offset."""
    dtype = DTYPES[row["dtype"]]
    x = np.full((2, 100), 2, dtype)
    offset = draw(rng, "random", (100,), dtype)
    got = layer_norm(checker, row, rng, x, np.full(100, 3, dtype), offset)
    np.testing.assert_array_equal(got, np.stack([offset, offset]))


@every_kernel
def test_rows_without_a_result(checker, row, rng):
    """NaN and infinities make their row NaN, and no other row."""
    dtype = DTYPES[row["dtype"]]
    for columns in (1, 5, 130):
        x = draw(rng, "random", (4, columns), dtype)
        for i, strange in enumerate((np.nan, np.inf, -np.inf)):
            x[i, int(rng.integers(0, columns))] = strange
        got = layer_norm(checker, row, rng, x)
        assert np.isnan(got[:3]).all()
        assert np.isfinite(got[3]).all()

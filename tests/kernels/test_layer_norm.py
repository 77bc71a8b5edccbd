"""Layer normalization: tails, scale and offset or none, large means, and rows of NaN."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_table import DTYPES, every_row, symbol
from kernel_values import draw
from packing_case import PackingCall

every_kernel = pytest.mark.parametrize("row", every_row("layer_norm"), ids=symbol)
EPSILON = 1e-5


def layer_norm(checker, row, rng, x, scale=None, offset=None, *, in_place=False) -> np.ndarray:
    """Run the kernel on copies."""
    call = PackingCall(checker, row, rng)
    size = call.dtype.itemsize
    src_rs, dst_rs = ((x.shape[1] + int(rng.integers(0, 4))) * size for _ in range(2))
    dst = call.place_output("dst", x.shape, (dst_rs, size))
    if in_place:
        dst[...] = x
        src_rs, call.values["src"] = dst_rs, call.values["dst"]
    else:
        call.place_input("src", x.shape, (src_rs, size))[...] = x
    for name, values in (("scale", scale), ("offset", offset)):
        if values is None:
            call.values[name] = 0
        else:
            call.place_input(name, values.shape, (size,))[...] = values
    call.place_bytes("epsilon", np.float64(EPSILON).tobytes())
    shape = {"rows": x.shape[0], "columns": x.shape[1]}
    call.values |= {"src_rs": src_rs, "dst_rs": dst_rs, **shape}
    return call.run(x.shape)


def assert_close(row, got, x, scale=None, offset=None) -> None:
    """Compare with a wider type; the mean is rounded to the type of the arithmetic."""
    wide = x.astype(np.longdouble)
    mean = wide.mean(axis=1, keepdims=True)
    deviation = np.sqrt(wide.var(axis=1, keepdims=True) + EPSILON)
    normal = (wide - mean) / deviation
    scale = 1 if scale is None else scale.astype(np.longdouble)
    offset = 0 if offset is None else offset.astype(np.longdouble)
    expected = normal * scale + offset
    eps = np.finfo(np.float32 if x.dtype == np.float16 else x.dtype).eps
    moved = np.abs(mean) / deviation + np.abs(normal)
    allowed = 8 * eps * (moved * np.abs(scale) + np.abs(offset))
    allowed = allowed + np.finfo(x.dtype).eps * np.abs(expected)
    if x.dtype == np.float16:
        allowed = allowed + np.finfo(x.dtype).smallest_subnormal
    error = np.abs(got - expected)
    assert (error <= allowed).all(), f"{row['symbol']}: {float((error / allowed).max())}"


@every_kernel
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("moved", [False, True])
def test_tails(checker, row, scaled, moved, rng):
    dtype = DTYPES[row["dtype"]]
    lanes = row["vector_bytes"] // (8 if row["dtype"] == "f64" else 4)
    more = [vectors * lanes + i for vectors in (3, 7, 8, 9, 64, 65) for i in (-1, 0, 1)]
    for columns in (*range(1, 2 * lanes + 4), *more):
        x = draw(rng, "random", (int(rng.integers(1, 4)), columns), dtype) + dtype.type(0.5)
        scale = draw(rng, "random", (columns,), dtype) if scaled else None
        offset = draw(rng, "random", (columns,), dtype) if moved else None
        for in_place in (False, True):
            got = layer_norm(checker, row, rng, x, scale, offset, in_place=in_place)
            assert_close(row, got, x, scale, offset)


@every_kernel
def test_large_means(checker, row, rng):
    """A variance from squares less the square of the mean would be zero, or negative."""
    dtype = DTYPES[row["dtype"]]
    mean = {"f16": 30, "f32": 3000, "f64": 1e7}[row["dtype"]]
    x = (draw(rng, "random", (3, 700), np.dtype(np.float64)) + mean).astype(dtype)
    assert_close(row, layer_norm(checker, row, rng, x), x)


@every_kernel
def test_equal_elements(checker, row, rng):
    """Nothing is left but the offset."""
    dtype = DTYPES[row["dtype"]]
    x = np.full((2, 100), 2, dtype)
    offset = draw(rng, "random", (100,), dtype)
    got = layer_norm(checker, row, rng, x, np.full(100, 3, dtype), offset)
    np.testing.assert_array_equal(got, np.stack([offset, offset]))


@every_kernel
def test_rows_without_a_result(checker, row, rng):
    """NaN and infinities spoil their row, and no other."""
    dtype = DTYPES[row["dtype"]]
    for columns in (1, 5, 130):
        x = draw(rng, "random", (4, columns), dtype)
        for i, strange in enumerate((np.nan, np.inf, -np.inf)):
            x[i, int(rng.integers(0, columns))] = strange
        got = layer_norm(checker, row, rng, x)
        assert np.isnan(got[:3]).all()
        assert np.isfinite(got[3]).all()


@every_kernel
@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_nothing_to_do(checker, row, shape):
    values = {"rows": shape[0], "columns": shape[1], "src_rs": 0, "dst_rs": 0}
    checker.call(row, values, shape)

"""`qmatmul` and `matmul_integer` against the contract, bit for bit."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pplconv
from tests import quantized_reference as reference
from tests.api.buffers import untouched

F32, S8, U8, S32 = np.float32, np.int8, np.uint8, np.int32


def rows(values) -> np.ndarray:
    """See numbers of the rows of one matrix as a column."""
    values = np.asarray(values)
    return values[:, np.newaxis] if values.ndim == 1 and values.size != 1 else values


def sums(a, b, a_zero=0, b_zero=0) -> np.ndarray:
    """Give the exact sums, by 64-bit integers."""
    moved = a.astype(np.int64) - rows(a_zero).astype(np.int64)
    return np.matmul(moved, b.astype(np.int64) - np.asarray(b_zero, np.int64))


def integers(rng, dtype, shape=()):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


BATCHES = [((), ()), ((2,), ()), ((), (3,)), ((2,), (2,)), ((4, 1), (3,)), ((2, 3), (1, 3)),
           ((0,), ()), ((1,), (1, 1))]  # fmt: skip
TYPES = st.sampled_from([U8, S8])


@st.composite
def products(draw):
    """Draw shapes, types, and which numbers there is one of for each row and column."""
    a_batch, b_batch = draw(st.sampled_from(BATCHES))
    m, k, n = (draw(st.sampled_from([1, 2, 3, 5, 7, 8, 16, 17, 33, 64, 70])) for _ in range(3))
    k, m = draw(st.sampled_from([k, k, k, 0])), draw(st.sampled_from([m, m, m, 0]))
    full = draw(st.booleans())  # numbers of rows and columns as (..., M, 1) and (..., 1, N)
    each = {name: draw(st.sampled_from([False, False, True])) for name in ("a", "b", "y")}
    return (
        (*a_batch, m, k), (*b_batch, k, n), draw(TYPES), draw(TYPES), full, each,
        draw(st.integers(0, 2**32 - 1)),
    )  # fmt: skip


def row_shape(shape, each, full):
    if not each:
        return ()
    return (*shape[:-1], 1) if full or len(shape) > 2 else (shape[-2],)


def column_shape(shape, each, full):
    if not each:
        return ()
    return (*shape[:-2], 1, shape[-1]) if full or len(shape) > 2 else (shape[-1],)


@given(products())
def test_sums(drawn):
    a_shape, b_shape, a_type, b_type, full, each, seed = drawn
    rng = np.random.default_rng(seed)
    a, b = integers(rng, a_type, a_shape), integers(rng, b_type, b_shape)
    a_zero = integers(rng, a_type, row_shape(a_shape, each["a"], full))
    b_zero = integers(rng, b_type, column_shape(b_shape, each["b"], full))
    expected = sums(a, b, a_zero, b_zero)
    with untouched(a, b):
        y = pplconv.matmul_integer(a, b, a_zero, b_zero)
    assert y.dtype == S32
    np.testing.assert_array_equal(y, expected)
    out = np.empty(expected.shape, S32)
    assert pplconv.matmul_integer(a, b, a_zero, b_zero, threads=2, out=out) is out
    np.testing.assert_array_equal(out, expected)


@given(
    products(),
    st.sampled_from(["uint8", "int8", "uint8", "int8", "float32", "int32"]),
    st.sampled_from([None, "relu", "relu6", ("clip", -1.5, 2.25)]),
    st.sampled_from([None, "int32", "float32"]),
    st.booleans(),
)
def test_outputs(drawn, out_dtype, activation, bias, powers):
    a_shape, b_shape, a_type, b_type, full, each, seed = drawn
    rng = np.random.default_rng(seed)
    n = b_shape[-1]
    y_shape = (*np.broadcast_shapes(a_shape[:-2], b_shape[:-2]), a_shape[-2], n)

    def scale(shape):
        exponents = rng.integers(-6, 1, shape) if powers else rng.uniform(-6, 1, shape)
        return np.exp2(exponents).astype(F32)

    a, b = integers(rng, a_type, a_shape), integers(rng, b_type, b_shape)
    of_a, of_b = row_shape(a_shape, each["a"], full), column_shape(b_shape, each["b"], full)
    a_scale, b_scale = scale(of_a), scale(of_b)
    a_zero, b_zero = integers(rng, a_type, of_a), integers(rng, b_type, of_b)
    exact = sums(a, b, a_zero, b_zero)
    offset = None
    if bias == "int32":
        offset = rng.integers(-5000, 5001, n).astype(S32)
        exact = exact + offset
    elif bias == "float32" and not each["a"] and b_scale.size in (1, n):
        offset = (rng.standard_normal(n) * 100).astype(F32)
        exact = exact + reference.float_bias(offset, a_scale, b_scale.reshape(-1))
    y_scale, y_zero = None, None
    if out_dtype in reference.RANGES:
        of_y = row_shape(y_shape, each["y"], full)
        y_scale = scale(of_y) * F32(64)
        y_zero = integers(rng, out_dtype, of_y)
    if out_dtype == "int32":
        activation = None
    by_rows = 1.0 if y_scale is None else rows(y_scale)
    expected = reference.outputs(
        exact,
        reference.Output(
            out_dtype,
            reference.multiplier(rows(a_scale), b_scale, by_rows),
            0 if y_zero is None else rows(y_zero).astype(int),
            by_rows,
            activation,
        ),
    )
    y = pplconv.qmatmul(
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero, offset, activation=activation,
        out_dtype=out_dtype, threads=1,
    )  # fmt: skip
    assert y.dtype == expected.dtype
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    ("a", "b"), [((5,), (5, 3)), ((4, 5), (5,)), ((5,), (5,)), ((2, 4, 5), (5,))]
)
def test_vectors(rng, a, b):
    a, b = integers(rng, U8, a), integers(rng, S8, b)
    expected = np.matmul(a.astype(np.int64) - 7, b.astype(np.int64) - 3)
    y = pplconv.matmul_integer(a, b, 7, 3)
    assert isinstance(y, np.ndarray) and y.shape == expected.shape
    np.testing.assert_array_equal(y, expected)


def test_strided_operands(rng):
    a, b = integers(rng, U8, (9, 6)).T, integers(rng, S8, (20, 14))[::2, ::-2][:9]
    np.testing.assert_array_equal(pplconv.matmul_integer(a, b[:9], 1), sums(a, b[:9], 1))


GOOD = {
    "a": np.ones((4, 5), U8), "a_scale": 0.5, "a_zero_point": 3, "b": np.ones((5, 6), S8),
    "b_scale": 0.25, "b_zero_point": 0, "y_scale": 0.5, "y_zero_point": U8(3),
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "error", "name"),
    [
        ({"a": np.ones((4, 5), F32)}, TypeError, "a"),
        ({"b": np.ones((5, 6), np.int16)}, TypeError, "b"),
        ({"a": U8(3)}, ValueError, "a"),
        ({"b": np.ones((4, 6), S8)}, ValueError, "b"),
        ({"a": np.ones((2, 4, 5), U8), "b": np.ones((3, 5, 6), S8)}, ValueError, "b"),
        ({"a_scale": 0}, ValueError, "a_scale"),
        ({"a_scale": np.ones(5)}, ValueError, "a_scale"),
        ({"a_scale": None}, TypeError, "a_scale"),
        ({"b_scale": -1.0}, ValueError, "b_scale"),
        ({"b_scale": np.ones(4)}, ValueError, "b_scale"),
        ({"y_scale": np.nan}, ValueError, "y_scale"),
        ({"y_scale": None}, TypeError, "y_scale"),
        ({"y_scale": np.ones(6)}, ValueError, "y_scale"),
        ({"a_zero_point": 256}, ValueError, "a_zero_point"),
        ({"a_zero_point": [0] * 5}, ValueError, "a_zero_point"),
        ({"a_zero_point": S8(1)}, TypeError, "a_zero_point"),
        ({"b_zero_point": 128}, ValueError, "b_zero_point"),
        ({"b_zero_point": [0] * 5}, ValueError, "b_zero_point"),
        ({"y_zero_point": 256, "out_dtype": U8}, ValueError, "y_zero_point"),
        ({"y_zero_point": S8(1), "out_dtype": U8}, TypeError, "y_zero_point"),
        ({"out_dtype": np.int16}, ValueError, "out_dtype"),
        ({"out_dtype": S32}, ValueError, "y_scale"),
        ({"out_dtype": F32, "y_scale": None}, ValueError, "y_zero_point"),
        ({"bias": np.zeros(4, S32)}, ValueError, "bias"),
        ({"bias": np.zeros(6)}, TypeError, "bias"),
        ({"bias": np.zeros(6, F32), "a_scale": np.ones(4)}, TypeError, "bias"),
        ({"activation": "sigmoid"}, ValueError, "activation"),
        ({"a_scale": 1e-30, "b_scale": 1e-30}, ValueError, "b_scale"),
        ({"threads": 0}, ValueError, "threads"),
        ({"out": np.zeros((4, 5), U8)}, ValueError, "out"),
        ({"out": np.zeros((4, 6), S8)}, TypeError, "out"),
        ({"out": np.zeros((6, 4), U8).T}, ValueError, "out"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(changes, error, name):
    arguments = {**GOOD, **changes}
    out = arguments.setdefault("out", np.full((4, 6), 42, U8))
    with untouched(out), pytest.raises(error) as caught:
        pplconv.qmatmul(**arguments)
    assert re.search(rf"(^|\W){name}\b", str(caught.value)), str(caught.value)


def test_a_good_call_is_one():
    # -10 * 0.25 is a tie, which goes to -2.
    assert pplconv.qmatmul(**GOOD).tolist() == [[1] * 6] * 4


def test_sums_that_could_leave_int32():
    b = np.full((66400, 2), 127, S8)
    b[:, 0] = 1
    with pytest.raises(ValueError, match=r"\bb: .* channel 1 .* int32"):
        pplconv.matmul_integer(np.zeros((1, 66400), U8), b)
    rows_of_zeros = np.array([128, 0], U8)
    a = np.zeros((2, 66400), U8)
    assert pplconv.matmul_integer(a, b, 128)[0, 0] == -128 * 66400
    with pytest.raises(ValueError, match=r"\bb: .* int32"):
        pplconv.matmul_integer(a, b, rows_of_zeros)

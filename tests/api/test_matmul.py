"""`matmul`: NumPy's shapes, any strides, every epilogue, and nothing outside the operands."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pplconv
from pplconv import planner
from pplconv.ops.matrices import product_of

DTYPES = ["float16", "float32", "float64"]
Pair = namedtuple("Pair", ["name", "slope"])
EPS = {"float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}


def check(result, expected, dtype, k):
    """Hold a result to the bound of sums of `k` numbers of about 1, rounded once."""
    assert result.dtype == dtype
    assert result.shape == expected.shape
    if expected.size:
        scale = max(float(np.abs(expected).max()), 3.0 * max(k, 1) ** 0.5)
        error = float(np.abs(result.astype(np.float64) - expected).max())
        assert error <= EPS[str(np.dtype(dtype))] * (2 + k**0.5) * scale


def drawn(rng, shape, dtype):
    """A random array in one of many orders."""
    how = int(rng.integers(0, 7))
    plain = rng.standard_normal(shape).astype(dtype)
    if len(shape) < 2 or how < 2:
        return plain if how else np.repeat(plain, 3, axis=-1)[..., ::3]
    if how == 2:
        return np.ascontiguousarray(plain.swapaxes(-1, -2)).swapaxes(-1, -2)
    if how == 3:  # rows with gaps
        return np.concatenate([plain, plain], axis=-1)[..., : shape[-1]]
    if how == 4:  # a transposed matrix with gaps
        wide = np.concatenate([plain, plain], axis=-2).swapaxes(-1, -2)
        return np.ascontiguousarray(wide).swapaxes(-1, -2)[..., : shape[-2], :]
    if how == 5:  # the batch lies inside the rows
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(plain, -2, 0)), 0, -2)
    return np.ascontiguousarray(plain[..., ::-1])[..., ::-1]


sizes = st.sampled_from([1, 1, 2, 3, 5, 8, 13, 16, 17, 31, 33, 64, 100])


@given(
    st.sampled_from(DTYPES), sizes, sizes, sizes,
    st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.booleans()), max_size=3),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_any_shape_and_strides(dtype, m, n, k, batch, seed):
    rng = np.random.default_rng(seed)
    a = drawn(rng, (*(size if both else 1 for size, both, _ in batch), m, k), dtype)
    b = drawn(rng, (*(size if both else 1 for size, _, both in batch), k, n), dtype)
    keywords = {}
    expected = np.matmul(a.astype(np.float64), b.astype(np.float64))
    if seed % 3 == 0:
        keywords["bias"] = rng.standard_normal(n).astype(dtype)
        expected = expected + keywords["bias"]
    if seed % 5 < 2:
        keywords["residual"] = drawn(rng, expected.shape, dtype)
        expected = expected + keywords["residual"].astype(np.float64)
    if seed % 7 < 3:
        slope = rng.uniform(0.1, 0.9, n).astype(dtype)
        keywords["activation"], factor = [
            ("relu", 0.0), (("leaky_relu", 0.25), 0.25), (("prelu", slope), slope.astype(float)),
        ][seed % 7]  # fmt: skip
        expected = np.where(expected < 0, factor * expected, expected)
    check(pplconv.matmul(a, b, threads=1 + seed % 3, **keywords), expected, dtype, k)


@pytest.mark.parametrize(
    "shapes",
    [
        ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((5, 2, 3), (3,)), ((3,), (5, 3, 4)),
        ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((1, 2, 3), (5, 3, 4)),
        ((2, 1, 2, 3), (5, 3, 4)), ((2, 1, 2, 3), (1, 5, 3, 4)), ((2, 5, 2, 3), (5, 3, 4)),
        ((2, 1, 3, 2, 3), (5, 1, 3, 4)), ((2, 3, 1, 2, 3), (2, 1, 5, 3, 4)),
        ((0, 3), (3, 4)), ((2, 3), (3, 0)), ((2, 0), (0, 4)), ((0, 2, 3), (3, 4)), ((0,), (0,)),
        ((0,), (0, 2)), ((5, 2, 0), (0, 4)),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("dtype", DTYPES)
def test_shapes_are_numpys(shapes, dtype, rng):
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    expected = np.matmul(a.astype(np.float64), b.astype(np.float64))
    check(pplconv.matmul(a, b), np.asarray(expected), dtype, a.shape[-1])
    n = b.shape[-1] if b.ndim > 1 else 1
    bias = rng.standard_normal(n).astype(dtype)
    with_bias = expected + (bias if b.ndim > 1 else bias[0])
    check(pplconv.matmul(a, b, bias=bias), np.asarray(with_bias), dtype, a.shape[-1])


@pytest.mark.parametrize("left", DTYPES)
@pytest.mark.parametrize("right", DTYPES)
def test_result_types_are_numpys(left, right, rng):
    a, b = rng.standard_normal((4, 5)).astype(left), rng.standard_normal((5, 6)).astype(right)
    wanted = np.promote_types(left, right)
    check(pplconv.matmul(a, b), a.astype(float) @ b.astype(float), wanted, 5)


def test_lists_and_byte_orders(rng):
    a, b = rng.standard_normal((4, 5)), rng.standard_normal((5, 6))
    np.testing.assert_allclose(pplconv.matmul(a.tolist(), b.tolist()), a @ b, rtol=1e-12)
    assert pplconv.matmul(a.tolist(), b.astype(np.float32)).dtype == np.float32
    swapped = a.astype(a.dtype.newbyteorder())
    np.testing.assert_allclose(pplconv.matmul(swapped, b), a @ b, rtol=1e-12)
    odd = np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(a.dtype).reshape(a.shape)
    np.testing.assert_allclose(pplconv.matmul(odd, b), a @ b, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 70, 900), (37, 129, 300), (200, 8, 64), (64, 1000, 33)])
def test_one_path_one_order_of_sums(dtype, shape, rng):
    """Pointwise convolution, Linear and matmul in every order of operands: the same bits."""
    m, n, k = shape
    a, w = (rng.standard_normal(s).astype(dtype) for s in ((m, k), (n, k)))
    b = np.ascontiguousarray(w.T)
    expected = pplconv.matmul(a, b, threads=1)
    results = {
        "two threads": pplconv.matmul(a, b, threads=2),
        "five threads": pplconv.matmul(a, b, threads=5),
        "b transposed": pplconv.matmul(a, w.T),
        "a transposed": pplconv.matmul(np.asfortranarray(a), b),
        "both": pplconv.matmul(np.asfortranarray(a), w.T, threads=3),
        "with a bias": pplconv.matmul(a, b, bias=np.zeros(n, dtype)),
        "Linear": pplconv.Linear(w)(a),
        "NHWC": pplconv.conv2d(
            a.reshape(1, 1, m, k), w.reshape(n, k, 1, 1), layout="NHWC", algorithm="pointwise"
        ),
        "NCHW": pplconv.conv2d(b.reshape(1, k, 1, n), a.reshape(m, k, 1, 1), algorithm="pointwise"),
    }
    for name, result in results.items():
        assert result.tobytes() == expected.tobytes(), name


def test_both_ways_to_see_a_product_are_taken():
    """The cheapest plan packs the operand of few rows, unless a bias forbids to swap operands."""

    def chosen(may_swap):
        found = product_of(
            (2, 512),
            (512, 1),
            (512, 512),
            (512, 1),
            "f32",
            ("f32",),
            may_swap=may_swap,
            may_read=False,
        )
        index, _, _ = planner.make_cheapest_plan([o.problem for o in found.options], threads=1)
        return found.options[index].swapped

    assert chosen(True)
    assert not chosen(False)


def test_prelus_with_other_slopes_are_not_mixed_up(rng):
    """They share a plan; the one that comes first must not leave its slopes in it."""
    a, b = rng.standard_normal((3, 40)).astype("f4"), rng.standard_normal((40, 600)).astype("f4")
    exact = a.astype(np.float64) @ b.astype(np.float64)
    for slope in (0.25, 0.5, np.linspace(0.1, 0.9, 600, dtype="f4"), 0.75):
        result = pplconv.matmul(a, b, activation=("prelu", slope))
        check(result, np.where(exact < 0, slope * exact, exact), "float32", 40)
    vector = pplconv.matmul(a[0], b, activation=("prelu", np.linspace(0, 1, 600, dtype="f4")))
    expected = np.where(exact[0] < 0, np.linspace(0, 1, 600) * exact[0], exact[0])
    check(vector, expected, "float32", 40)
    column = pplconv.matmul(a, b[:, 0], activation=("prelu", np.full(1, 0.5, "f4")))
    check(column, np.where(exact[:, 0] < 0, 0.5 * exact[:, 0], exact[:, 0]), "float32", 40)


@pytest.mark.parametrize("form", [list, Pair._make], ids=["list", "named tuple"])
@pytest.mark.parametrize("m", [1, 5])
def test_slopes_belong_to_columns_in_any_sequence(form, m, rng):
    """Packing `a` would read them by rows, and beyond their end."""
    a, b = rng.standard_normal((m, 512)), rng.standard_normal((512, 40))
    exact, slopes = a @ b, np.linspace(0.1, 0.9, 40)
    result = pplconv.matmul(a, b, activation=form(["prelu", slopes]), threads=1)
    check(result, np.where(exact < 0, slopes * exact, exact), "float64", 512)


def bytes_apart(shape, at=1):
    """Empty or not, with strides of 5 bytes and an odd address."""
    memory = np.zeros(1000, np.uint8)
    return np.ndarray(shape, np.float32, memory, at, (5,) * len(shape))


@pytest.mark.parametrize(
    ("a", "b"), [((1, 1), (1, 4)), ((0, 3), (3, 4)), ((2, 3), (3, 0)), ((0, 2, 3), (0, 3, 4))]
)
def test_strides_that_a_copy_keeps(a, b):
    """NumPy's copy of an empty array is the array, and strides of one element are anything."""
    expected = np.zeros((*a[:-1], b[-1]), np.float32)
    for at in (0, 1):
        np.testing.assert_array_equal(
            pplconv.matmul(bytes_apart(a, at), np.zeros(b, "f4")), expected
        )
        np.testing.assert_array_equal(
            pplconv.matmul(np.zeros(a, "f4"), bytes_apart(b, at)), expected
        )


def test_slopes_are_checked_where_there_is_nothing_to_compute(rng):
    a, b = np.zeros((0, 3), "f4"), np.zeros((3, 4), "f4")
    for _ in range(2):  # the second time the plan is known
        assert pplconv.matmul(a, b, activation=("prelu", np.ones(4))).shape == (0, 4)
        with pytest.raises(ValueError, match=r"^activation: .* needs slopes of shape \(4,\)"):
            pplconv.matmul(a, b, activation=("prelu", np.ones(3)))


def test_infinities_and_nan_stay_in_their_row_and_column(rng):
    a, b = rng.standard_normal((30, 40)).astype("f4"), rng.standard_normal((40, 50)).astype("f4")
    a[3, 7], b[5, 11] = np.nan, np.inf
    for left in (a, np.asfortranarray(a)):
        for right in (b, np.asfortranarray(b)):
            finite = np.isfinite(pplconv.matmul(left, right))
            expected = np.ones((30, 50), bool)
            expected[3], expected[:, 11] = False, False
            np.testing.assert_array_equal(finite, expected)


A, B = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)


@pytest.mark.parametrize(
    ("name", "a", "b", "keywords"),
    [
        ("a", np.ones((2, 3), int), B, {}),
        ("a", np.float32(1), B, {}),
        ("a", np.ones((2, 3), complex), B, {}),
        ("b", A, np.ones((3, 4), int), {}),
        ("b", A, np.ones((4, 4), np.float32), {}),
        ("b", A, np.ones(4, np.float32), {}),
        ("b", np.ones((2, 0), np.float32), B, {}),
        ("b", A, np.float32(1), {}),
        ("b", A, np.float32(1), {"activation": ("prelu", np.ones(4))}),
        ("b", np.ones((2, 2, 3), np.float32), np.ones((3, 3, 4), np.float32), {}),
        ("bias", A, B, {"bias": np.ones(3, np.float32)}),
        ("bias", A, B, {"bias": np.ones(4)}),
        ("residual", A, B, {"residual": np.ones((2, 3), np.float32)}),
        ("residual", A, B, {"residual": np.ones((2, 4))}),
        ("activation", A, B, {"activation": "softmax"}),
        ("activation", A, B, {"activation": ("prelu", np.ones(3))}),
        ("activation", A, B, {"activation": ("clip", False, True)}),
        ("threads", A, B, {"threads": 0}),
        ("threads", A, B, {"threads": True}),
    ],
)  # fmt: skip
def test_errors_name_the_argument_and_write_nothing(name, a, b, keywords):
    out = np.full((2, 4), 7, np.float32)
    pplconv.matmul(A, B, activation=("clip", 0, 1), threads=1)  # equal keys are no excuse
    with pytest.raises((TypeError, ValueError), match=rf"^{name}\b"):
        pplconv.matmul(a, b, out=out, **keywords)
    assert (out == 7).all()


@pytest.mark.parametrize(
    "out",
    [
        np.ones((2, 5), np.float32),
        np.ones((2, 4)),
        np.ones((2, 4), np.float32, order="F"),
        [[0] * 4] * 2,
    ],
    ids=["shape", "dtype", "order", "list"],
)
def test_out_is_checked(out):
    with pytest.raises((TypeError, ValueError), match=r"^out must"):
        pplconv.matmul(A, B, out=out)


@pytest.mark.parametrize("step", [1, 2, -1, -2])
@pytest.mark.parametrize("where", ["before", "first", "last", "behind"])
def test_out_beside_or_inside_an_operand_with_strides(step, where):
    """Of an operand with gaps, or backwards, all of its extent counts, and nothing else does."""
    memory = np.zeros(256, np.float32)
    first = 64 if step > 0 else 192
    a = np.lib.stride_tricks.as_strided(memory[first:], (8, 8), (32 * step, 4 * step))
    corners = [a[i:, j:].ctypes.data for i in (0, -1) for j in (0, -1)]
    begin, end = ((edge - memory.ctypes.data) // 4 for edge in (min(corners), max(corners) + 4))
    at = {"before": begin - 16, "first": begin - 15, "last": end - 1, "behind": end}[where]
    out = memory[at : at + 16].reshape(8, 2)
    b = np.ones((8, 2), np.float32)
    if where in ("before", "behind"):
        assert pplconv.matmul(a, b, out=out) is out
    else:
        with pytest.raises(ValueError, match=r"^out must not overlap a"):
            pplconv.matmul(a, b, out=out)


def test_out_between_the_rows_of_an_operand():
    """They share an extent and no element."""
    memory = np.arange(64, dtype=np.float32)
    a, out = memory.reshape(4, 16)[:, :4], memory[4:12].reshape(4, 2)
    b = np.ones((4, 2), np.float32)
    expected = a.copy() @ b
    pplconv.matmul(a, b, out=out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("name", ["a", "b"])
def test_out_may_not_overlap_what_is_not_aligned(name):
    memory = np.zeros(100, np.uint8)
    arrays = {key: np.ones((4, 4), np.float32) for key in ("a", "b")}
    arrays[name] = memory[1:65].view(np.float32).reshape(4, 4)
    out = memory[:64].view(np.float32).reshape(4, 4)
    with pytest.raises(ValueError, match=f"^out must not overlap {name}"):
        pplconv.matmul(**arrays, out=out)
    assert not memory.any()


def test_huge_shapes_are_refused():
    row = np.broadcast_to(np.float32(1), (2**31, 1))
    with pytest.raises((ValueError, MemoryError)):
        pplconv.matmul(row, np.broadcast_to(np.float32(1), (1, 2**31)))


@pytest.mark.parametrize("threads", [1, np.int64(1)])
def test_an_activation_that_begins_with_a_number_is_refused_by_value(threads):
    """Also where arguments are objects, whose numbers are read before all else."""
    one = np.ones((1, 1), np.float32)
    with pytest.raises(ValueError, match=r"^activation must be .*got \(0\.1, 'prelu'\)"):
        pplconv.matmul(one, one, activation=(0.1, "prelu"), threads=threads)

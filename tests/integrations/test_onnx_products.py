"""Replaced products and quantized operators against onnxruntime and the evaluator's own."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from pplconv.integrations import onnx_reference
from pplconv.integrations.onnx_reference import make_conv, operators
from tests.integrations.one_node import counted, evaluated, model_of
from tests.network.quantizing import drawn_weights

needs_onnxruntime = pytest.mark.unemulated("onnxruntime crashes there when it is imported")
FLOATS = (np.float16, np.float32, np.float64)


def ours(model, feeds, **settings):
    return evaluated(model, feeds, *operators(**settings))


def theirs(model, feeds):
    import onnxruntime  # not at the top: it crashes in the emulator, where others are imported

    inferred = onnx.shape_inference.infer_shapes(model)
    session = onnxruntime.InferenceSession(
        inferred.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (y,) = session.run(None, feeds)
    return y


own = evaluated


@pytest.fixture
def calls(monkeypatch):
    return counted(
        monkeypatch,
        lambda name, keywords: (name, keywords.get("threads")),
        *("matmul", "conv2d_integer", "qconv2d", "matmul_integer", "qmatmul"),
    )


def near(got, want, a, b):
    """Compare within the rounding of both sums, and of alpha, beta and C after them."""
    assert got.shape == want.shape and got.dtype == want.dtype
    terms, eps = a.shape[-1] + 4, float(np.finfo(got.dtype).eps)
    largest = np.abs(a).max(initial=1) * np.abs(b).max(initial=1) * terms
    assert np.abs(got.astype(np.float64) - want).max(initial=0) <= terms * eps * largest * 4


SHAPES = [((5, 7), (7, 3)), ((2, 3, 5, 7), (3, 7, 4)), ((7,), (7, 3)), ((4, 7), (7,)), ((7,), (7,))]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_matmul(rng, calls, shapes, dtype):
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    model = model_of("MatMul", {"a": a, "b": b})
    y = ours(model, {"a": a, "b": b}, threads=1)
    near(y, own(model, {"a": a, "b": b}), a, b)
    assert calls == [("matmul", 1)]


def test_matmul_of_other_types_is_the_evaluators(calls):
    a = np.arange(6, dtype=np.int32).reshape(2, 3)
    model = model_of("MatMul", {"a": a, "b": a.T})
    assert ours(model, {"a": a, "b": a.T}).tolist() == (a @ a.T).tolist()
    assert calls == []


@needs_onnxruntime
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "factors", [{}, {"alpha": 0.5}, {"alpha": 1.5, "beta": 0.25}, {"beta": 0.0}]
)
@pytest.mark.parametrize("c_shape", [None, (4,), (1, 4), (5, 1), (5, 4), (1,), ()], ids=str)
@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1), (1, 1)], ids=str)
def test_gemm(rng, calls, transposed, c_shape, factors, dtype):
    a, b = rng.standard_normal((5, 7)).astype(dtype), rng.standard_normal((7, 4)).astype(dtype)
    a, b = a.T.copy() if transposed[0] else a, b.T.copy() if transposed[1] else b
    feeds = {"a": a, "b": b}
    if c_shape is not None:
        feeds["c"] = np.asarray(rng.standard_normal(c_shape)).astype(dtype)
    model = model_of("Gemm", feeds, transA=transposed[0], transB=transposed[1], **factors)
    y = ours(model, feeds)
    near(y, theirs(model, feeds), a.T if transposed[0] else a, b)
    assert calls == [("matmul", None)]


def test_gemm_of_the_first_opsets(rng):
    feeds = {"a": np.ones((2, 3), np.float32), "b": np.ones((3, 4), np.float32)}
    feeds["c"] = rng.standard_normal((1, 4)).astype(np.float32)
    model = model_of("Gemm", feeds, opset=6, broadcast=1)
    assert np.array_equal(ours(model, feeds), own(model, feeds))


# Bytes: the sums are exact, so results are those of onnxruntime, bit for bit ---------------------


def draw(rng, shape, dtype):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


@needs_onnxruntime
@pytest.mark.parametrize("w_zero", [None, np.array(5, np.uint8), np.array([7], np.uint8)], ids=str)
@pytest.mark.parametrize("x_zero", [None, np.array(130, np.uint8)], ids=str)
@pytest.mark.parametrize(
    "attributes",
    [{}, {"pads": [1, 0, 2, 1], "strides": [2, 1]}, {"auto_pad": "SAME_UPPER"}],
    ids=lambda value: next(iter(value), "plain"),
)
def test_conv_integer(rng, calls, attributes, x_zero, w_zero):
    feeds = {"x": draw(rng, (2, 3, 8, 9), np.uint8), "w": draw(rng, (4, 3, 3, 2), np.uint8)}
    if x_zero is None and w_zero is not None:
        x_zero = np.array(0, np.uint8)  # an input in the middle cannot be left out by its name
    for name, zero in (("x_zero", x_zero), ("w_zero", w_zero)):
        if zero is not None:
            feeds[name] = zero
    model = model_of("ConvInteger", feeds, **attributes)
    y = ours(model, feeds, threads=1)
    want = theirs(model, feeds)
    assert y.dtype == np.int32 and y.tobytes() == want.tobytes()
    assert calls == [("conv2d_integer", 1)]


def test_convolutions_of_one_dimension_are_the_evaluators(rng, calls):
    feeds = {"x": draw(rng, (1, 3, 8), np.uint8), "w": draw(rng, (4, 3, 3), np.uint8)}
    model = model_of("ConvInteger", feeds)
    assert ours(model, feeds).tobytes() == own(model, feeds).tobytes()
    assert calls == []


@needs_onnxruntime
@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("shape", [(), (1,)], ids=["scalars", "arrays"])
@pytest.mark.parametrize("channels", [False, True], ids=["one scale", "scales"])
@pytest.mark.parametrize(
    "types", [("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")], ids=str
)
def test_qlinear_conv(rng, calls, types, channels, shape, group):
    x_type, w_type = map(np.dtype, types)
    feeds = {
        "x": draw(rng, (1, 6, 8, 9), x_type),
        "x_scale": np.full(shape, 0.5, np.float32),
        "x_zero": np.full(shape, 3, x_type),
        "w": drawn_weights(rng, w_type, (6, 6 // group, 3, 3)),
        "w_scale": np.full(shape, 0.25, np.float32),
        "w_zero": np.full(shape, 0, w_type),
        "y_scale": np.full(shape, 37.3, np.float32),
        "y_zero": np.full(shape, 5, x_type),
        "b": rng.integers(-1000, 1000, 6).astype(np.int32),
    }
    if channels:
        feeds["w_scale"] = rng.uniform(0.1, 0.4, 6).astype(np.float32)
        feeds["w_zero"] = np.zeros(6, w_type)
    model = model_of("QLinearConv", feeds, group=group, pads=[1, 1, 1, 1])
    y = ours(model, feeds)
    want = theirs(model, {**feeds})
    # Both round x_scale * w_scale / y_scale to float32 once, in orders that may differ.
    assert y.dtype == x_type and np.abs(y.astype(int) - want).max() <= 1
    assert np.mean(y != want) < 0.01
    assert calls == [("qconv2d", None)]


@needs_onnxruntime
@pytest.mark.parametrize("shapes", SHAPES[:2], ids=str)
@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_matmul_integer(rng, calls, zeros, shapes):
    feeds = {"a": draw(rng, shapes[0], np.uint8), "b": drawn_weights(rng, np.int8, shapes[1])}
    feeds |= dict([("a_zero", np.array(9, np.uint8)), ("b_zero", np.array([-3], np.int8))][:zeros])
    model = model_of("MatMulInteger", feeds)
    y = ours(model, feeds)
    assert y.dtype == np.int32 and y.tobytes() == own(model, feeds).tobytes()
    assert y.tobytes() == theirs(model, feeds).tobytes()
    assert calls == [("matmul_integer", None)]


@needs_onnxruntime
@pytest.mark.parametrize("shapes", SHAPES[:2], ids=str)
def test_qlinear_matmul(rng, calls, shapes):
    feeds = {
        "a": draw(rng, shapes[0], np.uint8),
        "a_scale": np.array([0.5], np.float32),
        "a_zero": np.array([128], np.uint8),
        "b": drawn_weights(rng, np.int8, shapes[1]),
        "b_scale": np.array(0.25, np.float32),
        "b_zero": np.array(0, np.int8),
        "y_scale": np.array(41.7, np.float32),
        "y_zero": np.array(120, np.uint8),
    }
    model = model_of("QLinearMatMul", feeds)
    y = ours(model, feeds)
    want = theirs(model, feeds)
    assert y.dtype == np.uint8 and np.abs(y.astype(int) - want).max() <= 1
    assert np.mean(y != want) < 0.01
    assert calls == [("qmatmul", None)]


def test_all_operators_are_given_with_their_settings():
    made = operators(threads=3, algorithm="im2col", tolerance=0.0)
    assert [each.__name__ for each in made] == [
        name for name in ("Conv", "ConvTranspose", "ConvInteger", "QLinearConv")
    ] + ["MatMul", "Gemm", "MatMulInteger", "QLinearMatMul"]
    for each in made:
        base = getattr(onnx_reference, each.__name__)
        assert issubclass(each, base) and each.threads == 3 and base.threads is None
    assert made[0].tolerance == 0 and made[2].algorithm == "im2col"
    assert make_conv(threads=2).threads == 2


def test_wrong_kernel_shapes_are_refused(rng):
    feeds = {"x": draw(rng, (1, 3, 8, 8), np.uint8), "w": draw(rng, (4, 3, 3, 3), np.uint8)}
    with pytest.raises(ValueError, match="kernel_shape"):
        ours(model_of("ConvInteger", feeds, kernel_shape=[2, 2]), feeds)

"""Dynamic quantization: zero points and scales that the network computes, in loops."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest

from pplconv.network.session import InferenceSession
from tests.network.quantizing import S8, U8, Quantized, folded, kinds, only
from tests.network.running import (
    alike,
    by_onnxruntime,
    compare_models,
    copies,
    needs_onnxruntime,
    on_host,
    same,
    session_of,
    step_kinds,
)
from tests.reference import conv2d_reference

FLOAT, INT32 = onnx.TensorProto.FLOAT, np.dtype(np.int32)


def in_loops(g: Quantized, *outputs: str) -> list[np.ndarray]:
    """Outputs of sessions of one thread and of two, which are the same bits, and not in Python."""
    sessions = [session_of(g, *outputs, threads=threads) for threads in (1, 2)]
    got = alike(sessions, g.feed)
    assert not on_host(sessions[0])
    return got


# DynamicQuantizeLinear

TINY = float(np.finfo(np.float32).tiny)
NUMBERS = {
    "both signs": lambda rng, shape: rng.standard_normal(shape),
    "above zero": lambda rng, shape: rng.random(shape) * 1e4 + 3e4,
    "below zero": lambda rng, shape: -rng.random(shape) - 1,
    "ties": lambda rng, shape: rng.integers(0, 511, shape) / 2,
    "ties of the zero point": lambda rng, shape: np.resize([-0.5, 254.5, 3, 7.5], shape),
    "zeros": lambda rng, shape: np.zeros(shape),
    "one number": lambda rng, shape: np.full(shape, -2.0),
    "small": lambda rng, shape: rng.standard_normal(shape) * 1e-30,
    # A scale that is just normal, and a difference that is no number of float32.
    "least scale": lambda rng, shape: rng.choice([0, 1, 2], shape) * 255 * TINY,
    "infinite scale": lambda rng, shape: rng.choice([-3e38, 0, 1, 3e38], shape),
    "largest": lambda rng, shape: rng.choice([0, 3.4028234e38], shape),
}


@pytest.mark.parametrize("numbers", sorted(NUMBERS))
@pytest.mark.parametrize("shape", [(5,), (3, 0), (3, 7, 11), (2, 3, 40, 41), (1, 16411)])
@needs_onnxruntime
def test_integers_scale_and_zero_point(numbers, shape):
    """As onnxruntime has them, bit by bit."""
    g = Quantized()
    x = g.input(*shape)
    g.feed[x] = NUMBERS[numbers](g.rng, shape).astype(np.float32)
    outputs = g.DynamicQuantizeLinear(x, outputs=3)
    model = g.model(*outputs)
    for output, dtype in zip(model.graph.output, (U8, np.float32, U8), strict=True):
        output.type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    sessions = [InferenceSession(model, threads=threads) for threads in (1, 2)]
    same(alike(sessions, g.feed), by_onnxruntime(model, g.feed))


@pytest.mark.parametrize("largest", [190 * TINY, TINY, 1e-40, 1e-45])
def test_ranges_without_a_normal_scale(largest):
    """Loops flush denormals: the integers are zero points of the scale 1, as those of zeros."""
    g = Quantized()
    x = g.input(3, 7)
    g.feed[x] = np.linspace(-largest / 3, largest, 21, dtype=np.float32).reshape(3, 7)
    model = g.model(*g.DynamicQuantizeLinear(x, outputs=3))
    for output, dtype in zip(model.graph.output, (U8, np.float32, U8), strict=True):
        output.type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    y, scale, zero = InferenceSession(model, threads=1).run(None, g.feed)
    assert scale == 1 and zero == 0
    np.testing.assert_array_equal(y, np.zeros((3, 7), U8))


# Sums with a zero point that is an input

# Channels in and out, groups, kernel, and attributes; each is another kind of loops.
CASES = {
    "pointwise": (24, 40, 1, (1, 1), {}),
    "border": (16, 24, 1, (3, 3), {"pads": [1, 2, 0, 1]}),
    "strides": (6, 10, 1, (3, 2), {"pads": [1, 1, 1, 1], "strides": [2, 1]}),
    "dilations": (8, 16, 1, (3, 3), {"pads": [2, 2, 2, 2], "dilations": [2, 2]}),
    "groups": (16, 24, 4, (3, 3), {"pads": [1, 0, 2, 1]}),
    "depthwise": (32, 32, 32, (3, 3), {"pads": [1, 1, 1, 1]}),
    "depthwise of two": (8, 16, 8, (5, 3), {"pads": [2, 1, 2, 1], "strides": [2, 2]}),
    "wide": (64, 64, 1, (3, 3), {"pads": [1, 1, 1, 1]}),
}


def centred(g: Quantized, w: str, zeros: str | None) -> np.ndarray:
    """Weights less their zero points, in float64."""
    array = g.array(w).astype(np.float64)
    if zeros is None:
        return array
    zero = g.array(zeros).astype(np.float64)
    return array - zero.reshape(-1, *[1] * (array.ndim - 1))


@pytest.mark.parametrize("case", sorted(CASES))
@pytest.mark.parametrize("x_type", [U8, S8])
@pytest.mark.parametrize(("w_type", "zeros"), [(S8, "none"), (S8, "each"), (U8, "one")])
def test_convolutions(case, x_type, w_type, zeros):
    """Exact, whatever zero point comes: it is the value of padding, too."""
    channels, results, groups, kernel, own = CASES[case]
    g = Quantized(dtype=INT32)
    x = g.integers(2, channels, 11, 13, dtype=x_type)
    at = g.input(dtype=x_type)
    w = g.integers(results, channels // groups, *kernel, dtype=w_type, known=True)
    how = {
        "none": None, "each": g.constant(g.rng.integers(-9, 9, results), S8),
        "one": g.constant(131, U8),
    }[zeros]  # fmt: skip
    y = g.ConvInteger(x, w, at, *([how] if how else []), group=groups, **own)
    sessions = [session_of(g, y, threads=threads) for threads in (1, 2)]
    assert kinds(folded(g, y)) == {"QuantizedConv": 1}
    top, left, bottom, right = own.get("pads", [0] * 4)
    limits = np.iinfo(x_type)
    for zero in (limits.min, limits.max, 0, 77):
        g.feed[at] = np.array(zero, x_type)
        expected = conv2d_reference(
            g.feed[x].astype(np.float64) - zero, centred(g, w, how),
            stride=tuple(own.get("strides", (1, 1))), padding=((top, bottom), (left, right)),
            dilation=tuple(own.get("dilations", (1, 1))), groups=groups,
        )  # fmt: skip
        same(alike(sessions, g.feed), [expected.astype(INT32)])
    assert not on_host(sessions[0])


@pytest.mark.parametrize("shape", [(5, 24), (2, 7, 24), (2, 3, 1, 24)])
@pytest.mark.parametrize("x_type", [U8, S8])
@pytest.mark.parametrize("each", [False, True])
def test_matrices(shape, x_type, each):
    g = Quantized(dtype=INT32)
    x, at = g.integers(*shape, dtype=x_type), g.input(1, dtype=x_type)
    w = g.integers(24, 17, dtype=S8, known=True)
    zeros = g.rng.integers(-9, 9, 17 if each else ())
    y = g.MatMulInteger(x, w, at, g.constant(zeros, S8))
    g.feed[at] = np.array([100], x_type)
    expected = (g.feed[x].astype(np.int64) - 100) @ (g.array(w).astype(np.int64) - zeros)
    same(in_loops(g, y), [expected.astype(INT32)])


def test_calls_at_once_have_their_own_zero_points():
    """Of a session, and of one that travelled with its programs."""
    g = Quantized(dtype=INT32)
    x, at = g.integers(6, 24), g.input(dtype=U8)
    w = g.integers(24, 9, dtype=S8, known=True)
    g.feed[at] = np.array(0, U8)
    session = session_of(g, g.MatMulInteger(x, w, at))
    session.run(None, g.feed)
    for one in (session, *copies(session)):
        with ThreadPoolExecutor(4) as pool:
            zeros = [np.array(zero, U8) for zero in range(0, 256, 5)]
            found = pool.map(lambda zero, one=one: one.run(None, {**g.feed, at: zero}), zeros)
            for zero, got in zip(zeros, found, strict=True):
                sums = (g.feed[x].astype(np.int64) - int(zero)) @ g.array(w).astype(np.int64)
                same(got, [sums.astype(INT32)])


def test_sums_beyond_int32_stay():
    """Loops of integers are for sums that fit whatever zero point comes; others are exact, too."""
    g = Quantized(dtype=INT32)
    x, at = g.integers(2, 70000), g.input(dtype=U8)
    g.feed[at] = np.array(0, U8)
    y = g.MatMulInteger(x, g.constant(np.full((70000, 3), 127), S8), at)
    found = kinds(folded(g, y))
    assert found["MatMul"] == 1 and "QuantizedLinear" not in found
    wrapped = (g.feed[x].astype(np.int64).sum(1, keepdims=True) * [[127] * 3]).astype(np.int32)
    session = session_of(g, y)
    same(session.run(None, g.feed), [wrapped])
    assert not on_host(session)


# Scales behind the sums, as `quantize_dynamic` of onnxruntime writes them


def dynamic(g: Quantized, x: str, operator: str, w: str, scale: str, *more: str, **own: object):
    """A product of dynamically quantized numbers, dequantized."""
    q, unit, zero = g.DynamicQuantizeLinear(x, outputs=3)
    sums = g.Cast(getattr(g, operator)(q, w, zero, *more, **own), to=FLOAT)
    return g.Mul(sums, g.Mul(unit, scale))


@pytest.mark.parametrize("scales", [(), (1,), (12, 1, 1), (1, 12, 1, 1), (1, 1, 1, 9)])
@needs_onnxruntime
def test_scales_of_convolutions(scales):
    """One for all, or one a channel, goes into the store; others stay behind it."""
    g = Quantized()
    w = g.integers(12, 8, 3, 3, dtype=S8, known=True)
    scale = g.constant(g.rng.uniform(0.001, 0.01, scales))
    y = dynamic(g, g.input(2, 8, 9, 9), "ConvInteger", w, scale, pads=[1] * 4)
    y = g.Relu(g.Add(y, g.random(1, 12, 1, 1)))
    inside = scales != (1, 1, 1, 9)
    assert only(folded(g, y)).outputs[0].dtype.numpy() == (np.float32 if inside else INT32)
    session = compare_models(g.model(y), g.feed)
    assert not on_host(session)
    assert ("Add+Relu" if inside else "Cast+Mul+Add+Relu") in step_kinds(session, g.feed)


@pytest.mark.parametrize("scales", [(), (1, 1), (6,), (1, 6), (4, 1)])
@needs_onnxruntime
def test_scales_of_matrices(scales):
    g = Quantized()
    w = g.integers(16, 6, dtype=S8, known=True)
    scale = g.constant(g.rng.uniform(0.001, 0.01, scales))
    y = dynamic(g, g.input(3, 4, 16), "MatMulInteger", w, scale)
    inside = scales != (4, 1)
    node = only(folded(g, y), "QuantizedLinear")
    assert node.outputs[0].dtype.numpy() == (np.float32 if inside else INT32)
    assert not on_host(compare_models(g.model(y), g.feed))


@needs_onnxruntime
def test_known_scales_and_other_readers():
    """A known scale is a constant of the store; sums that others read stay integers."""
    g = Quantized()
    w, known = g.integers(6, 4, dtype=S8, known=True), g.constant(0.01)
    x, at = g.integers(3, 6), g.constant(99, U8)
    alone = g.Mul(known, g.Cast(g.MatMulInteger(x, w, at), to=FLOAT))
    assert only(folded(g, alone), "QuantizedLinear").inputs[3].const_value is not None
    assert not on_host(compare_models(g.model(alone), g.feed))
    sums = g.Cast(g.MatMulInteger(x, w, at), to=FLOAT)
    both = g.Mul(known, sums), g.Relu(sums)
    assert only(folded(g, *both), "QuantizedLinear").outputs[0].dtype.numpy() == INT32
    assert not on_host(compare_models(g.model(*both), g.feed))


@needs_onnxruntime
def test_products_in_a_row():
    """One array read by two convolutions, a product of rows, and bytes that nobody else reads."""
    g = Quantized()
    x = g.input(1, 8, 12, 10, free=True)
    q, unit, zero = g.DynamicQuantizeLinear(x, outputs=3)
    parts = []
    for kernel in (1, 3):
        w = g.integers(8, 8, kernel, kernel, dtype=S8, known=True)
        sums = g.ConvInteger(q, w, zero, pads=[kernel // 2] * 4)
        parts.append(g.Mul(g.Cast(sums, to=FLOAT), g.Mul(unit, g.constant(0.003))))
    y = g.HardSwish(g.Add(*parts))
    w = g.integers(8, 8, 3, 3, dtype=U8, known=True)
    y = dynamic(g, y, "ConvInteger", w, g.constant(0.01), g.constant(128, U8), strides=[2, 2])
    rows = g.GlobalAveragePool(y)
    z = dynamic(g, g.Flatten(rows), "MatMulInteger", g.integers(8, 5, known=True), g.constant(0.1))
    # A number at the edge between two integers may fall on either side.
    got, expected = (
        run(g.model(z), g.feed)
        for run in (lambda m, f: InferenceSession(m, threads=1).run(None, f), by_onnxruntime)
    )
    scale = np.abs(expected[0]).max()
    np.testing.assert_allclose(got[0], expected[0], rtol=0, atol=0.02 * scale)
    in_loops(g, z)


@needs_onnxruntime
def test_what_quantize_dynamic_writes(tmp_path):
    """A small network by onnxruntime's own tool: no product runs in Python."""
    tool = pytest.importorskip("onnxruntime.quantization")
    g = Quantized(opset=17)
    y = g.Relu(g.conv(g.input(2, 3, 20, 18), 16, (3, 3, 3), pads=[1] * 4, strides=[2, 2]))
    y = g.Relu(g.conv(y, 16, (1, 3, 3), pads=[1] * 4, group=16))
    y = g.Add(y, g.conv(y, 16, (16, 1, 1)))
    y = g.Add(g.MatMul(g.Flatten(g.GlobalAveragePool(y)), g.random(16, 7)), g.random(7))
    for name, per_channel in (("one", False), ("each", True)):
        source, written = (str(tmp_path / f"{name}_{kind}.onnx") for kind in ("float", "dynamic"))
        onnx.save(g.model(y), source)
        tool.quantize_dynamic(source, written, per_channel=per_channel)
        model = onnx.load(written)
        integers = [node for node in model.graph.node if node.op_type.endswith("Integer")]
        assert len(integers) == 4
        session = InferenceSession(written, threads=1)
        (got,), (expected,) = session.run(None, g.feed), by_onnxruntime(model, g.feed)
        np.testing.assert_allclose(got, expected, rtol=0, atol=0.02 * np.abs(expected).max())
        steps = session.plan_for(g.feed).steps
        assert not [step.kind for step in steps if step.host]
        assert sum(step.kind.startswith("Quantized") for step in steps) == 4

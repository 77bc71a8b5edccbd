"""Products whose weights keep their zero points, so that they stay bytes: the same sums."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest

from pplconv import planner
from pplconv.arguments import checks
from pplconv.memory.dtypes import DTYPES
from pplconv.network.operators import integer_products
from pplconv.network.session import InferenceSession
from pplconv.numerics import default_permission, numerics_of
from pplconv.ops.prepared import PackedWeights, Prepared
from pplconv.ops.program import Program
from pplconv.ops.quantized.rescaling import Rescaling
from tests.levels import allowed_isas
from tests.network.quantizing import S8, U8, Quantized, exact, folded, only
from tests.network.running import (
    alike,
    by_onnxruntime,
    copies,
    needs_onnxruntime,
    on_host,
    same,
    session_of,
    step_kinds,
)
from tests.reference import conv2d_reference

FLOAT, INT32 = onnx.TensorProto.FLOAT, np.dtype(np.int32)
WINDOWS = "WindowSums"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights keep zero points wherever they can, whatever it costs."""
    monkeypatch.setattr(integer_products, "SUM_CYCLES", -math.inf)


def at_every_level(
    g: Quantized, monkeypatch: pytest.MonkeyPatch, *outputs: str
) -> list[np.ndarray]:
    """Outputs, the same bits at every level and for each team; all sum windows in one step."""
    results = []
    for cap in allowed_isas():
        monkeypatch.setenv("PPLCONV_MAX_ISA", cap)
        sessions = [session_of(g, *outputs, threads=threads) for threads in (1, 3)]
        results.append(alike(sessions, g.feed))
        assert not on_host(sessions[0])
        assert step_kinds(sessions[0], g.feed).count(WINDOWS) == 1
    for found in results[1:]:
        same(found, results[0])
    return results[0]


def zero_points(g: Quantized, dtype: np.dtype, count: int | None) -> np.ndarray:
    """Zero points of weights, any of the type; one of them is at each end."""
    limits = np.iinfo(dtype)
    zeros = g.rng.integers(limits.min, limits.max + 1, () if count is None else count)
    if count is None:
        return np.asarray(limits.max - 3, dtype)
    zeros[[0, -1]] = limits.min, limits.max
    return zeros.astype(dtype)


# Rows, K and columns: around groups of four, vectors, tiles and panels.
SIZES = [(1, 2, 1), (1, 64, 33), (5, 3, 2), (7, 130, 17), (40, 66, 50), (33, 4, 129), (64, 257, 64)]


@pytest.mark.narrow
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(("x_type", "w_type"), [(U8, U8), (S8, U8), (U8, S8), (S8, S8)])
def test_sums_of_matrices(kept, monkeypatch, size, x_type, w_type):
    """Exact for any zero points: known and computed ones of the input, one and one a column."""
    m, k, n = size
    for each in (False, True):
        g = Quantized(dtype=INT32)
        x, at = g.integers(m, k, dtype=x_type), g.input(dtype=x_type)
        limits = np.iinfo(w_type)
        full = g.rng.integers(limits.min, limits.max + 1, (k, n))
        full[0], full[-1] = limits.min, limits.max
        w = g.constant(full, w_type)
        zeros = zero_points(g, w_type, n if each and n > 1 else None)
        known = int(g.rng.integers(np.iinfo(x_type).min, np.iinfo(x_type).max))
        g.feed[at] = np.array(np.iinfo(x_type).max - 1, x_type)
        for zero, value in ((at, int(g.feed[at])), (g.constant(known, x_type), known)):
            y = g.MatMulInteger(x, w, zero, g.constant(zeros, w_type))
            got = at_every_level(g, monkeypatch, y)
            left = g.feed[x].astype(np.int64) - value
            right = g.array(w).astype(np.int64) - zeros.astype(np.int64)
            same(got, [(left @ right).astype(INT32)])


@pytest.mark.narrow
@needs_onnxruntime
def test_sums_beside_onnxruntime(kept, monkeypatch):
    g = Quantized(dtype=INT32)
    x, at = g.integers(2, 9, 70), g.input(dtype=U8)
    g.feed[at] = np.array(119, U8)
    w = g.integers(70, 45, dtype=U8, known=True)
    y = g.MatMulInteger(x, w, at, g.constant(7, U8))
    same(at_every_level(g, monkeypatch, y), by_onnxruntime(g.model(y), g.feed))


# Channels in and out, kernel, and attributes.
CASES = {
    "pointwise": (24, 40, (1, 1), {}),
    "one channel": (1, 20, (3, 3), {"pads": [1, 1, 1, 1]}),
    "one result": (20, 1, (3, 3), {"pads": [1, 1, 1, 1]}),
    "border": (16, 24, (3, 3), {"pads": [1, 2, 0, 1]}),
    "strides": (6, 70, (3, 2), {"pads": [1, 1, 1, 1], "strides": [2, 1]}),
    "dilations": (8, 16, (3, 3), {"pads": [2, 2, 2, 2], "dilations": [2, 2]}),
    "wide": (64, 64, (3, 3), {"pads": [1, 1, 1, 1]}),
}


@pytest.mark.narrow
@pytest.mark.parametrize("case", sorted(CASES))
@pytest.mark.parametrize("x_type", [U8, S8])
def test_sums_of_convolutions(kept, monkeypatch, case, x_type):
    """Padding counts as the zero point in the sums of windows, too."""
    channels, results, kernel, own = CASES[case]
    g = Quantized(dtype=INT32)
    x, at = g.integers(2, channels, 11, 13, dtype=x_type), g.input(dtype=x_type)
    w = g.integers(results, channels, *kernel, dtype=U8, known=True)
    g.feed[at] = np.array(77, x_type)
    top, left, bottom, right = own.get("pads", [0] * 4)
    for zero, value in ((at, 77), (g.constant(-3 % 128, x_type), 125)):
        y = g.ConvInteger(x, w, zero, g.constant(2, U8), **own)
        got = at_every_level(g, monkeypatch, y)
        expected = conv2d_reference(
            g.feed[x].astype(np.float64) - value, g.array(w).astype(np.float64) - 2,
            stride=tuple(own.get("strides", (1, 1))), padding=((top, bottom), (left, right)),
            dilation=tuple(own.get("dilations", (1, 1))),
        )  # fmt: skip
        same(got, [expected.astype(INT32)])


def quantized_linear(dtype: np.dtype, end: str) -> tuple[Quantized, str]:
    """A product of quantized numbers with something after the sums, and its output."""
    g = Quantized()
    x = g.pair(g.input(11, 60), 0.05, 3, dtype)
    w = g.kernel(60, 37, axis=1, zero=g.rng.integers(0, 256, 37), dtype=U8)
    y = g.MatMul(x, w)
    if end == "float":
        return g, y
    if end == "residual":
        y = g.Add(y, g.pair(g.input(11, 37), 0.04, 5, dtype))
    elif end == "gate":
        y = g.HardSwish(y)
    elif end == "clamp":
        y = g.Relu(y)
    return g, g.q(y, 0.06, 9, dtype)


@pytest.mark.narrow
@pytest.mark.parametrize("dtype", [U8, S8], ids=str)
@pytest.mark.parametrize("end", ["float", "bytes", "residual", "gate", "clamp"])
def test_what_follows_the_sums(kept, monkeypatch, dtype, end):
    """By the contract of rounding, bit by bit, and the same bits as products of words."""
    g, y = quantized_linear(dtype, end)
    prepared = folded(g, y)
    assert only(prepared, "QuantizedLinear").inputs[1].const_value.numpy().dtype == np.int16
    got = at_every_level(g, monkeypatch, y)
    same(got, exact(prepared, g.feed))
    monkeypatch.setattr(integer_products, "SUM_CYCLES", math.inf)
    words = session_of(g, y)
    same(words.run(None, g.feed), got)
    assert WINDOWS not in step_kinds(words, g.feed)


@pytest.mark.narrow
@pytest.mark.parametrize("dtype", [U8, S8], ids=str)
@pytest.mark.parametrize("residual", [False, True])
def test_quantized_convolutions(kept, monkeypatch, dtype, residual):
    g = Quantized()
    how = 0.05, 3, dtype
    w = g.kernel(24, 16, 3, 3, zero=g.rng.integers(0, 256, 24), dtype=U8)
    x = g.image(2, 16, 9, 8, how=how)
    y = g.Conv(x, w, g.random(24), pads=[1, 1, 0, 1])
    if residual:
        y = g.Add(y, g.image(2, 24, 8, 8, how=how))
    y = g.q(g.Relu(y), 0.06, 9, dtype)
    same(at_every_level(g, monkeypatch, y), exact(folded(g, y), g.feed))


@pytest.mark.narrow
@needs_onnxruntime
def test_dynamic_quantization(kept, monkeypatch):
    """A scale and a zero point that the network computes; onnxruntime gives the same numbers."""
    g = Quantized()
    q, unit, zero = g.DynamicQuantizeLinear(g.input(7, 90), outputs=3)
    w = g.integers(90, 35, dtype=U8, known=True)
    sums = g.Cast(g.MatMulInteger(q, w, zero, g.constant(99, U8)), to=FLOAT)
    y = g.Mul(sums, g.Mul(unit, g.constant(0.01)))
    got = at_every_level(g, monkeypatch, y)
    same(got, by_onnxruntime(g.model(y), g.feed))


@pytest.mark.narrow
def test_sparse_bytes(kept, monkeypatch):
    """Weights that are zeros only because they keep zero points may be left out."""
    g = Quantized(dtype=INT32)
    x = g.integers(64, 512)
    w = np.where(g.rng.random((512, 512)) < 0.96, 128, g.rng.integers(0, 256, (512, 512)))
    w[:2] = [[0], [255]]
    y = g.MatMulInteger(x, g.constant(w, U8), g.constant(9, U8), g.constant(0, U8))
    got = at_every_level(g, monkeypatch, y)
    same(got, [((g.feed[x].astype(np.int64) - 9) @ w).astype(INT32)])


def test_turns_of_a_scan(kept):
    """Windows of each turn are summed in it."""
    rng = np.random.default_rng(5)
    w, x = (rng.integers(0, 256, shape).astype(np.uint8) for shape in ((20, 30), (7, 5, 20)))
    make, types = onnx.helper, onnx.TensorProto
    body = make.make_graph(
        [make.make_node("MatMulInteger", ["row", "w", "", "zero"], ["sums"])], "body",
        [make.make_tensor_value_info("row", types.UINT8, (5, 20))],
        [make.make_tensor_value_info("sums", types.INT32, (5, 30))],
        [onnx.numpy_helper.from_array(w, "w"), onnx.numpy_helper.from_array(np.uint8(3), "zero")],
    )  # fmt: skip
    graph = make.make_graph(
        [make.make_node("Scan", ["x"], ["y"], body=body, num_scan_inputs=1)], "scan",
        [make.make_tensor_value_info("x", types.UINT8, x.shape)],
        [make.make_tensor_value_info("y", types.INT32, (7, 5, 30))],
    )  # fmt: skip
    opset = [make.make_opsetid("", 17)]
    model = make.make_model(graph, opset_imports=opset, ir_version=8)
    session = InferenceSession(model, threads=1)
    (got,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(got, x.astype(np.int32) @ (w.astype(np.int32) - 3))


def test_sessions_that_travel(kept):
    g = Quantized(dtype=INT32)
    x, at = g.integers(6, 24), g.input(dtype=U8)
    g.feed[at] = np.array(200, U8)
    y = g.MatMulInteger(x, g.integers(24, 9, dtype=U8, known=True), at, g.constant(1, U8))
    session = session_of(g, y)
    expected = session.run(None, g.feed)
    for one in copies(session):
        same(one.run(None, g.feed), expected)
        assert WINDOWS in step_kinds(one, g.feed)


def test_results_that_are_parts_of_others(kept):
    """Pixels of a join lie apart: their products are of words, and the same."""
    g = Quantized(dtype=INT32)
    x = g.integers(1, 8, 5, 6)
    parts = [
        g.ConvInteger(x, g.integers(n, 8, 1, 1, dtype=U8, known=True), "", g.constant(9, U8))
        for n in (4, 12)
    ]
    session = session_of(g, g.Concat(*parts, axis=1))
    weights = [node.inputs[1].const_value.numpy().astype(np.float64)
               for node in folded(g, *parts).model.graph]  # fmt: skip
    expected = [np.einsum("bchw,oc->bohw", g.feed[x].astype(np.float64), w[:, :, 0, 0])
                for w in weights]  # fmt: skip
    same(session.run(None, g.feed), [np.concatenate(expected, 1).astype(INT32)])


@pytest.mark.parametrize(("m", "k"), [(0, 8), (3, 0)])
def test_empty_products(kept, m, k):
    g = Quantized(dtype=INT32)
    x = g.integers(m, k)
    y = g.MatMulInteger(x, g.integers(k, 5, dtype=U8, known=True), "", g.constant(1, U8))
    same(session_of(g, y).run(None, g.feed), [np.zeros((m, 5), INT32)])


@pytest.mark.narrow
@pytest.mark.parametrize("cap", allowed_isas())
def test_where_it_pays(monkeypatch, cap):
    """Of large products where the CPU has instructions for bytes.

    Portable C is about as fast either way.
    """
    monkeypatch.setenv("PPLCONV_MAX_ISA", cap)
    g = Quantized(dtype=INT32)
    found = []
    for k, n in ((1024, 1024), (4, 3)):
        x = g.integers(64, k)
        w = g.integers(k, n, dtype=U8, known=True)
        session = session_of(g, g.MatMulInteger(x, w, "", g.constant(5, U8)))
        found.append(WINDOWS in step_kinds(session, g.feed))
    levels = {planner.best_isa(numerics_of("u8", one)) for one in ("u8", "u8t", "u8m")}
    words = planner.best_isa(numerics_of("u8", "s16"))
    assert not found[1]
    if levels - {None, "portable"}:
        assert found[0]
    elif words != "portable":
        assert not found[0]


def test_weights_that_suit():
    """Channels of more than 256 values, and groups, keep none."""
    g = Quantized()
    geometry = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}
    store = integer_products.Store(INT32, np.zeros(2, np.int32), None)

    def found(weight: np.ndarray, groups: int = 1) -> integer_products.Product | None:
        own = {**geometry, "groups": groups}
        return integer_products.in_bytes(
            integer_products.Product(weight, ("w",), own, 0, store, "", "")
        )

    weight = g.rng.integers(-60, 60, (2, 8, 1, 1)).astype(np.int16)
    weight[0, :2, 0, 0] = -250, 5
    weight[1, :2, 0, 0] = 100, 200
    product = found(weight)
    assert product is not None
    assert product.weight.dtype == np.int8
    np.testing.assert_array_equal(product.weight_zeros, [122, -73])
    np.testing.assert_array_equal(product.weight - product.weight_zeros.reshape(2, 1, 1, 1), weight)
    assert found(weight, groups=2) is None
    assert found(weight.clip(-128, 127).astype(np.int8)) is None
    weight[0, 0] = -251
    assert found(weight) is None


def prepared_product(g: Quantized) -> tuple[Prepared, dict[str, object], np.ndarray]:
    """A product of 6 rows of 8 by 3 columns, and its places without what finishes the sums."""
    weight = g.rng.integers(-128, 128, (3, 8, 1, 1)).astype(np.int8)
    problem = checks.make_problem(
        (1, 1, 6, 8), weight.shape, "u8", stride=1, padding=0, dilation=1, groups=1, layout="NHWC",
        permitted=default_permission("u8"),
    )  # fmt: skip
    plan, fields = planner.make_plan(problem, threads=1)
    prepared = Prepared(problem, plan, fields, 1)
    packed = PackedWeights(prepared, weight.astype(DTYPES[plan.numerics.weights]))
    places = {"x": ("external", 0, 0, 48), "y": ("external", 1, 0, 18), "weights": packed}
    return prepared, places, weight


def test_programs_that_are_refused():
    g = Quantized()
    prepared, places, weight = prepared_product(g)
    ones = np.ones(3, np.float32)
    none = Rescaling(prepared, weight, np.zeros(3, np.int32), 0, ones)
    kept = Rescaling(
        prepared, weight, np.zeros(3, np.int32), 0, ones, weight_zeros=np.arange(3, dtype=np.int32)
    )
    sums = ("external", 2, 0, 24)

    def program(rescaling: Rescaling, **more: object) -> Program:
        own = {**places, "rescaling": rescaling, **more}
        return Program([(prepared, own)], 0, [48, 18, 24], 1, 1)

    program(none)
    program(kept, window_sums=sums)
    for rescaling, more in ((none, {"window_sums": sums}), (kept, {})):
        with pytest.raises(ValueError, match="windows are summed where weights keep zero points"):
            program(rescaling, **more)
    with pytest.raises(ValueError, match="takes 24 bytes"):
        program(kept, window_sums=("external", 2, 0, 20))
    with pytest.raises(ValueError, match="zero point of weights for each output channel"):
        Rescaling(prepared, weight, np.zeros(3, np.int32), 0, ones, weight_zeros=np.zeros(2))


def test_windows_are_summed_once_for_all_products_of_an_input(kept):
    """Of one zero point; and not for windows of another size."""
    g = Quantized(dtype=INT32)
    x, at = g.integers(2, 12, 6, 5), g.input(dtype=U8)
    g.feed[at] = np.array(31, U8)
    steps = [("", 0, 1), ("", 0, 1), (at, 31, 1), (g.constant(31, U8), 31, 1), ("", 0, 3)]
    ys, expected = [], []
    for n, (zero, value, size) in enumerate(steps, 5):
        w = g.integers(n, 12, size, size, dtype=U8, known=True)
        ys.append(g.ConvInteger(x, w, zero, g.constant(3 * n, U8)))
        left, right = g.feed[x].astype(np.float64) - value, g.array(w).astype(np.float64) - 3 * n
        expected.append(conv2d_reference(left, right).astype(INT32))
    session = session_of(g, *ys)
    same(session.run(None, g.feed), expected)
    assert step_kinds(session, g.feed).count(WINDOWS) == 4

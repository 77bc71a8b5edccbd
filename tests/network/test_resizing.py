"""Sizes, coordinates and values of Resize and Upsample beside onnxruntime, and what is refused."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import onnx
import pytest

from pplconv.network.resizing import MOST_TAPS, axes_resized, taps
from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph
from tests.network.models import model_of
from tests.network.running import by_onnxruntime, check, needs_onnxruntime, on_host

NEAREST = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
WHERE = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric", "align_corners"]


def line(length: int) -> np.ndarray:
    return np.arange(length, dtype=np.float32).reshape(1, 1, 1, length)


def resized(x: np.ndarray, opset: int = 19, **attributes: Any) -> np.ndarray:
    """Run one Resize, by ``scales`` or ``sizes`` of the last dimensions."""
    g = Graph(opset=opset)
    name = g.input(*x.shape)
    own: list[str] = []
    for key, dtype in (("scales", np.float32), ("sizes", np.int64)):
        if key in attributes:
            given = [*x.shape] if key == "sizes" else [1] * x.ndim
            last = attributes.pop(key)
            given[-len(last) :] = last
            own = [*[""] * (key == "sizes"), g.constant(given, dtype)]
    y = InferenceSession(g.model(g.Resize(name, "", *own, **attributes)), threads=1)
    return np.asarray(y.run(None, {name: x})[0])


def table_model(where: str, nearest: str, by_scales: bool) -> Any:
    import onnxruntime

    node = onnx.helper.make_node(
        "Resize", ["x", "", "s"] if by_scales else ["x", "", "", "s"], ["y"],
        coordinate_transformation_mode=where, nearest_mode=nearest,
    )  # fmt: skip
    sizes = np.float32 if by_scales else np.int64
    inputs = {"x": (np.float32, [None] * 4), "s": (sizes, [4])}
    return onnxruntime.InferenceSession(model_of([node], inputs, opset=19).SerializeToString())


@needs_onnxruntime
@pytest.mark.parametrize("by_scales", [False, True])
@pytest.mark.parametrize("nearest", NEAREST)
@pytest.mark.parametrize("where", WHERE)
def test_nearest_pixels(where, nearest, by_scales, rng):
    session = table_model(where, nearest, by_scales)
    attributes = {"coordinate_transformation_mode": where, "nearest_mode": nearest}
    for _ in range(60):
        inputs, outputs = (int(n) for n in rng.integers(1, 130, 2))
        scale = rng.choice([outputs / inputs, rng.uniform(1 / inputs, 4), rng.integers(2, 40) / 10])
        given = np.ones(4, np.float32 if by_scales else np.int64)
        given[3] = max(scale, 1.001 / inputs) if by_scales else outputs
        x = line(inputs)
        expected = session.run(None, {"x": x, "s": given})[0].reshape(-1)
        axis = axes_resized(
            x.shape, given if by_scales else None, None if by_scales else given, attributes
        )[3]
        assert axis.outputs == len(expected), (inputs, given[3])
        np.testing.assert_array_equal(
            taps(axis, attributes).at[:, 0], expected, str((inputs, given[3]))
        )


@pytest.mark.parametrize("outputs", [18, 36, 72])
def test_a_coordinate_that_is_a_pixel(outputs):
    y = resized(
        line(14), sizes=[outputs], coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )
    np.testing.assert_array_equal(y.reshape(-1), [i * 14 // outputs for i in range(outputs)])


@pytest.mark.parametrize("nearest", NEAREST)
@pytest.mark.parametrize(("inputs", "outputs"), [(2, 50), (50, 2), (9, 33), (31, 91)])
def test_aligned_corners(inputs, outputs, nearest):
    y = resized(
        line(inputs), sizes=[outputs], coordinate_transformation_mode="align_corners",
        nearest_mode=nearest,
    )  # fmt: skip
    last, steps = inputs - 1, outputs - 1
    expected = {
        "floor": [i * last // steps for i in range(outputs)],
        "ceil": [-(-i * last // steps) for i in range(outputs)],
        "round_prefer_floor": [-((steps - 2 * i * last) // (2 * steps)) for i in range(outputs)],
        "round_prefer_ceil": [(2 * i * last + steps) // (2 * steps) for i in range(outputs)],
    }
    np.testing.assert_array_equal(y.reshape(-1), expected[nearest])


@needs_onnxruntime
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("opset", [7, 8, 9, 10])
def test_old_opsets(opset, mode, rng):
    for _ in range(3):
        scales = rng.choice([1, 1.3, 1.7, 2, 2.5, 3, *([0.4, 0.7] if opset == 10 else [])], 2)
        g = Graph(opset=opset)
        x = g.input(2, 3, 5, 7)
        if opset < 9:
            y = g.Upsample(x, scales=[1.0, 1.0, *scales], mode=mode)
        else:
            factors = g.constant([1, 1, *scales])
            y = (g.Upsample if opset == 9 else g.Resize)(x, factors, mode=mode)
        check(g.model(y), g.feed, expected=by_onnxruntime)


def test_old_resize_leaves_out_pixels_as_it_did():
    # Axes that become smaller take the next pixel, larger ones the one before.
    g = Graph(opset=10)
    x = g.input(1, 1, 4, 4)
    y = g.Resize(x, g.constant([1, 1, 0.7, 1.7]))
    array = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    got = InferenceSession(g.model(y)).run(None, {x: array})[0]
    np.testing.assert_array_equal(got, array[:, :, [0, 2]][..., [0, 0, 1, 1, 2, 2]])


@pytest.mark.parametrize(
    ("size", "scale", "expected"), [(10, 1.3, 13), (10, 0.7, 7), (30, 0.1, 3), (29, 57 / 29, 57)]
)
@pytest.mark.parametrize("rank", [1, 3, 4])
def test_sizes_from_scales(rank, size, scale, expected):
    assert resized(np.zeros((1,) * (rank - 1) + (size,), np.float32), scales=[scale]).shape[-1] == (
        expected
    )


def test_sizes_go_on_into_what_follows(g):
    # ONNX's inference says 12, and so does the file.
    x = g.input(1, 2, 10, 10)
    y = g.Resize(x, "", g.constant([1, 1, 1.3, 1.3]), mode="linear")
    z = g.Concat(y, g.random(1, 2, 13, 13), axis=1)
    model = g.model(z, g.Relu(y))
    for value, channels in zip(model.graph.output, (4, 2), strict=True):
        for size in (1, channels, 12, 12):
            value.type.tensor_type.shape.dim.add().dim_value = size
    got = InferenceSession(model, threads=1).run(None, g.feed)
    assert [each.shape for each in got] == [(1, 4, 13, 13), (1, 2, 13, 13)]
    np.testing.assert_array_equal(got[1], np.maximum(got[0][:, :2], 0))


@needs_onnxruntime
@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_kept_aspect_ratio(policy, rng):
    for _ in range(6):
        g = Graph(opset=18)
        shape = [1, 2, *(int(n) for n in rng.integers(1, 20, 2))]
        sizes = g.constant(rng.integers(1, 40, 2), np.int64)
        y = g.Resize(
            g.input(*shape), "", "", sizes, axes=[2, 3], keep_aspect_ratio_policy=policy,
            mode=str(rng.choice(["nearest", "linear"])),
        )  # fmt: skip
        check(g.model(y), g.feed, expected=by_onnxruntime)


def test_an_aspect_ratio_that_leaves_nothing():
    # 17 by 1 in one pixel of height: the width is rounded to none.
    g = Graph(opset=18)
    y = g.Resize(
        g.input(1, 2, 17, 1), "", "", g.constant([1, 1], np.int64), axes=[2, 3],
        keep_aspect_ratio_policy="not_larger",
    )  # fmt: skip
    session = InferenceSession(g.model(y), threads=1)
    assert session.run(None, g.feed)[0].shape == (1, 2, 1, 0) and not on_host(session)


@needs_onnxruntime
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int8, np.int32])
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_all_types_and_dimensions(rank, dtype, rng):
    for mode in ["nearest"] + ["linear"] * (rank > 1) + ["cubic"] * (rank == 2):
        if mode == "cubic" and dtype != np.float32:
            continue
        g = Graph(opset=19, dtype=dtype)
        x = g.input(*(int(n) for n in rng.integers(2, 7, rank)))
        g.feed[x] = (rng.standard_normal(g.feed[x].shape) * 40).astype(dtype)
        scales = rng.choice([0.6, 1.3, 1.7, 2.5], rank).astype(np.float32)
        if rank > 3 and mode == "linear":
            scales[:2] = 1
        where = str(rng.choice(WHERE))
        scales = g.constant(scales, np.float32)
        y = g.Resize(x, "", scales, mode=mode, coordinate_transformation_mode=where)
        got = InferenceSession(g.model(y), threads=1).run(None, g.feed)[0]
        expected = by_onnxruntime(g.model(y), g.feed)[0]
        assert got.shape == expected.shape and got.dtype == dtype
        np.testing.assert_allclose(got, expected, rtol=0, atol=0 if dtype != np.float32 else 1e-4)


@needs_onnxruntime
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int32])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("where", WHERE)
def test_antialias(where, mode, dtype, rng):
    """Of integers to the last bit."""
    for rank in (2, 4, 5)[: 3 if mode == "linear" else 2]:
        g = Graph(opset=19, dtype=dtype)
        x = g.input(*[1, 2, 1][: rank - 2], *(int(n) for n in rng.integers(1, 12, 2)))
        g.feed[x] = np.abs(rng.standard_normal(g.feed[x].shape) * 40).astype(dtype)
        given = np.ones(rank, np.float32)
        given[-2:] = rng.choice([0.25, 0.3, 0.7, 1, 1.5], 2)
        if rng.random() < 0.5:
            sizes = [*g.feed[x].shape[:-2], *rng.integers(1, 14, 2)]
            names = ["", "", g.constant(sizes, np.int64)]
        else:
            names = ["", g.constant(np.maximum(given, 1 / np.array(g.feed[x].shape)), np.float32)]
        y = g.Resize(
            x, *names, mode=mode, antialias=1, coordinate_transformation_mode=where,
            exclude_outside=int(rng.integers(2)), cubic_coeff_a=float(rng.choice([-0.5, -0.75])),
        )  # fmt: skip
        check(g.model(y), g.feed, expected=by_onnxruntime)


@needs_onnxruntime
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialias_leaves_axes_that_keep_their_size(mode, dtype, rng):
    """Though their scales are not one."""
    keep = "keep_aspect_ratio_policy"
    for shape, given, how in (
        ((1, 1, 3, 6), [1, 1, 1.3, 0.5], {}),
        ((1, 2, 6, 3), [1, 1, 0.5, 1.3], {}),
        ((4, 8), [9, 7], {keep: "not_larger"}),
        ((11, 12), [12, 5], {keep: "not_smaller"}),
    ):
        g = Graph(opset=19, dtype=dtype)
        x = g.input(*shape)
        g.feed[x] = rng.integers(0, 200, shape).astype(dtype)
        numbers = g.constant(given, np.int64 if how else np.float32)
        names = ["", "", numbers] if how else ["", numbers]
        y = g.Resize(x, *names, mode=mode, antialias=1, **how)
        check(g.model(y), g.feed, expected=by_onnxruntime)


def test_antialias_of_signed_bytes():
    """Negative ones stay negative: onnxruntime has zero in their place."""
    x = np.array([-100, -50, -20, -5, 5, 20, 50, 100], np.int8).reshape(1, 1, 1, 8)
    g = Graph(opset=19, dtype=np.int8)
    name = g.input(*x.shape)
    g.feed[name] = x
    y = g.Resize(name, "", "", g.constant([1, 1, 1, 4], np.int64), mode="linear", antialias=1)
    got = InferenceSession(g.model(y), threads=1).run(None, g.feed)[0].reshape(-1)
    # Triangles four pixels wide; what lies beyond the border is the border's.
    wide = (
        np.array([-100, -50, -20]) @ [4, 3, 1] / 8,
        np.array([-50, -20, -5, 5]) @ [1, 3, 3, 1] / 8,
    )
    np.testing.assert_array_equal(got[:2], np.rint(wide))
    np.testing.assert_array_equal(got[2:], -got[1::-1])


@needs_onnxruntime
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_antialias_of_long_axes(dtype, rng):
    """Also where few outputs have many taps, which must not take time for each."""
    for inputs, outputs in ((300, 2), (2000, 3), (5, 600)):
        g = Graph(opset=19, dtype=dtype)
        x = g.input(1, 2, 3, inputs)
        g.feed[x] = np.abs(rng.standard_normal(g.feed[x].shape) * 40).astype(dtype)
        sizes = g.constant([1, 2, 3, outputs], np.int64)
        y = g.Resize(x, "", "", sizes, mode="linear", antialias=1)
        check(g.model(y), g.feed, expected=by_onnxruntime)
    long = np.full((1, 1, 1, 1 << 21), 3, np.float32)
    g = Graph(opset=19)
    x = g.input(*long.shape)
    g.feed[x] = long
    y = g.Resize(x, "", "", g.constant([1, 1, 1, 1], np.int64), mode="linear", antialias=1)
    (got,) = InferenceSession(g.model(y), threads=1).run(None, g.feed)
    np.testing.assert_allclose(got, 3, rtol=1e-5)


@needs_onnxruntime
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_region_that_is_cut_out(mode, rng):
    g = Graph(opset=13)
    x = g.input(1, 2, 5, 6)
    roi = g.constant([0, 0, *rng.uniform(-0.2, 0.4, 2), 1, 1, *rng.uniform(0.6, 1.2, 2)])
    y = g.Resize(
        x, roi, "", g.constant([1, 2, 7, 9], np.int64), mode=mode, extrapolation_value=7.0,
        coordinate_transformation_mode="tf_crop_and_resize",
    )  # fmt: skip
    check(g.model(y), g.feed, expected=by_onnxruntime, allowed=1e-4)


def test_scales_of_other_dimensions():
    # Three channels by 1.3 are three again, and not the same three.
    x = np.arange(3, dtype=np.float32).reshape(1, 3, 1, 1) + np.zeros((1, 3, 2, 2), np.float32)
    y = resized(
        x, scales=[1.3, 2, 2], coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )
    np.testing.assert_array_equal(y[0, :, 0, 0], [0, 0, 1])


def test_the_last_pixel_may_be_infinite():
    x = line(4)
    x[..., 3] = math.inf
    y = resized(x, scales=[2], mode="linear").reshape(-1)
    np.testing.assert_array_equal(y[[0, 4, 6, 7]], [0, 1.75, math.inf, math.inf])


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(
    "sizes", [{"scales": [4e9]}, {"sizes": [1 << 31]}, {"scales": [1e30]}, {"sizes": [1 << 40]}]
)
def test_a_huge_size_is_refused_before_it_is_allocated(sizes, mode):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"Resize.*at most \d+ are supported"):
            resized(line(1), mode=mode, **sizes)
        # Coordinates alone would be gigabytes.
        assert tracemalloc.get_traced_memory()[1] < 1 << 25
    finally:
        tracemalloc.stop()


def test_the_longest_axis():
    where = "asymmetric"
    y = resized(
        line(2), sizes=[MOST_TAPS], coordinate_transformation_mode=where, nearest_mode="floor"
    )
    assert y.shape[-1] == MOST_TAPS and np.count_nonzero(y) == MOST_TAPS // 2


@pytest.mark.parametrize("scale", [0, -1, math.inf, math.nan])
def test_scales_that_are_none(scale):
    with pytest.raises(ValueError, match="is not above zero and finite"):
        resized(line(3), scales=[scale])


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"sizes": [0]}, "not above zero"),
        ({"sizes": [-3]}, "not above zero"),
        ({"scales": [2], "keep_aspect_ratio_policy": "not_larger"}, "keep_aspect_ratio_policy"),
        ({"sizes": [2], "axes": [3, 3, 2, 1]}, "Axis 3"),
        ({"sizes": [2], "axes": [4]}, "axis"),
        ({"sizes": [2], "mode": "sinc"}, "mode"),
        ({"sizes": [2], "nearest_mode": "simple"}, "nearest_mode"),
        ({"sizes": [2], "coordinate_transformation_mode": "centre"}, "coordinate_transformation"),
    ],
)
def test_what_contradicts(attributes, message):
    with pytest.raises(ValueError, match=message):
        resized(line(3), **attributes)

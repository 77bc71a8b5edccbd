"""`conv3d` and `Conv3d` against float64 sums over taps."""

from __future__ import annotations

import io
import pickle
import threading

import ml_dtypes
import numpy as np
import pytest

import pplconv
from pplconv import runtime, sharing
from tests.api.buffers import guarded
from tests.api.volume_reference import assert_sums, convolved
from tests.reference import activate

F32 = np.float32
PLAIN = {"stride": (1, 1, 1), "padding": ((0, 0),) * 3, "dilation": (1, 1, 1), "groups": 1}
LAYOUTS = ["NCDHW", "NDHWC"]


def last(x, layout):
    """Give (N, C, ...) in a layout, as a view."""
    return x if layout == "NCDHW" or x is None else np.moveaxis(x, 1, -1)


def first(y, layout):
    """Give (N, C, ...) of a layout."""
    return y if layout == "NCDHW" else np.moveaxis(y, -1, 1)


def numbers(rng, *shape, dtype=F32):
    return rng.standard_normal(shape).astype(dtype)


def drawn(rng, dtype=F32, *, depthwise=False):
    """Draw operands and a geometry whose output is not empty."""
    while True:
        groups = int(rng.choice([1, 1, 2, 3])) if not depthwise else int(rng.integers(2, 9))
        group = 1 if depthwise else int(rng.integers(1, 6))
        own = int(rng.integers(1, 3 if depthwise else 6))
        kernel = rng.integers(1, 4, 3).tolist()
        size = rng.integers(1, 9, 3).tolist()
        geometry = {
            "stride": tuple(rng.integers(1, 4, 3).tolist()),
            "padding": tuple(map(tuple, rng.integers(0, 4, (3, 2)).tolist())),
            "dilation": tuple(rng.integers(1, 4, 3).tolist()),
            "groups": groups,
        }
        spans = [(k - 1) * d + 1 for k, d in zip(kernel, geometry["dilation"], strict=True)]
        padded = [n + sum(s) for n, s in zip(size, geometry["padding"], strict=True)]
        if all(n >= k for n, k in zip(padded, spans, strict=True)):
            break
    x = numbers(rng, int(rng.integers(1, 4)), groups * group, *size, dtype=dtype)
    w = numbers(rng, groups * own, group, *kernel, dtype=dtype)
    return x, w, numbers(rng, len(w), dtype=dtype), geometry


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("depthwise", [False, True], ids=["groups", "depthwise"])
@pytest.mark.parametrize("dtype", [F32, np.float64])
@pytest.mark.parametrize("number", range(6))
def test_random_volumes(layout, depthwise, dtype, number, rng):
    """Views of other layouts are inputs with gaps."""
    x, w, b, geometry = drawn(rng, dtype, depthwise=depthwise)
    y = pplconv.conv3d(last(x, layout), w, b, layout=layout, tolerance=0, **geometry)
    assert_sums(convolved, first(y, layout), x, w, b, **geometry)
    conv = pplconv.Conv3d(w, b, layout=layout, tolerance=0, **geometry)
    for _ in range(2):
        y = conv(last(x, layout))
        assert_sums(convolved, first(y, layout), x, w, b, **geometry)
    # One volume, without the batch.
    y = conv(last(x, layout)[0])
    assert_sums(convolved, first(y[np.newaxis], layout), x[:1], w, b, **geometry)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_winograd_stays_within_the_stated_bound(layout, rng):
    x, w = numbers(rng, 2, 16, 6, 20, 18), numbers(rng, 24, 16, 3, 3, 3)
    geometry = {**PLAIN, "padding": ((1, 1),) * 3}
    conv = pplconv.Conv3d(w, padding=1, layout=layout, tolerance=1e-4)
    plan = conv.plan_for(last(x, layout).shape)
    y = conv(last(x, layout))
    assert_sums(convolved, first(y, layout), x, w, stated=plan.error_bound, **geometry)


@pytest.mark.parametrize("depthwise", [False, True], ids=["dense", "depthwise"])
def test_float16_is_rounded_once(depthwise, rng):
    """Beside sums of float16 numbers in float64: half a unit in the last place, and float32's."""
    groups = 6 if depthwise else 1
    x, w = numbers(rng, 1, 6, 5, 8, 9, dtype="e"), numbers(rng, 6, 6 // groups, 3, 3, 3, dtype="e")
    geometry = {**PLAIN, "groups": groups}
    y = pplconv.conv3d(x, w, groups=groups, precision="fp32")
    assert_sums(convolved, y, x, w, **geometry)


@pytest.mark.narrow
@pytest.mark.parametrize("depthwise", [False, True], ids=["dense", "depthwise"])
def test_bfloat16_is_rounded_once(depthwise, rng):
    brain, groups = ml_dtypes.bfloat16, 6 if depthwise else 1
    x = numbers(rng, 1, 6, 5, 8, 9, dtype=brain)
    w = numbers(rng, 6, 6 // groups, 3, 3, 3, dtype=brain)
    y = pplconv.conv3d(x, w, groups=groups, precision="fp32")
    geometry = {**PLAIN, "groups": groups}
    expected = convolved(x, w, **geometry)
    magnitudes = convolved(np.abs(x.astype("d")), np.abs(w.astype("d")), **geometry)
    # Sums of at most 162 products in float32; then half a unit of 8 bits.
    error = 170 * 2.0**-24 * magnitudes
    assert y.dtype == brain
    assert np.all(np.abs(y.astype("d") - expected) <= error + 2.0**-8 * (np.abs(expected) + error))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize(
    ("kernel", "changes"),
    [
        ((1, 1, 1), {}),
        ((3, 1, 1), {"padding": ((2, 1), (0, 0), (0, 0)), "dilation": (2, 3, 1)}),
        ((3, 1, 1), {"stride": (2, 1, 1)}),
        ((1, 1, 3), {"padding": ((0, 0), (0, 0), (1, 2)), "stride": (1, 1, 2)}),
        ((2, 1, 1), {"padding": ((0, 0), (1, 0), (0, 0))}),
        ((1, 1, 1), {"stride": (2, 1, 3)}),
    ],
    ids=str,
)
def test_axes_without_a_kernel(kernel, changes, groups, layout, rng):
    """Depths, rows or pixels become one axis, where the kernel has one tap."""
    x, w = numbers(rng, 2, 4, 5, 4, 6), numbers(rng, 4, 4 // groups, *kernel)
    geometry = {**PLAIN, **changes, "groups": groups}
    conv = pplconv.Conv3d(w, layout=layout, tolerance=0, **geometry)
    assert np.array_equal(conv.weight, w) and conv.kernel_size == kernel
    for y in (
        pplconv.conv3d(last(x, layout), w, layout=layout, tolerance=0, **geometry),
        conv(last(x, layout)),
        pickle.loads(pickle.dumps(conv))(last(x, layout)),
    ):
        assert_sums(convolved, first(y, layout), x, w, **geometry)


def test_axes_without_a_kernel_are_one_image():
    for kernel, padding, pixels in (
        ((3, 1, 1), (1, 0, 0), "ih9iw64oc6oh9ow64kh3kw1"),
        ((1, 1, 3), 0, "ih72iw8oc6oh72ow6kh1kw3"),
    ):
        conv = pplconv.Conv3d(np.ones((6, 4, *kernel), F32), padding=padding)
        (part,) = conv.plan_for((1, 4, 9, 8, 8)).parts
        assert pixels in part.problem, part.problem


@pytest.mark.parametrize("mode", ["reflect", "circular"])
def test_padding_modes_of_one_image(mode, rng):
    x, w = numbers(rng, 1, 3, 4, 6, 5), numbers(rng, 4, 3, 3, 1, 1)
    wide = np.pad(
        x, [(0, 0), (0, 0), (2, 1), (0, 0), (0, 0)], "wrap" if mode == "circular" else mode
    )
    y = pplconv.conv3d(x, w, padding=((2, 1), (0, 0), (0, 0)), padding_mode=mode, tolerance=0)
    assert_sums(convolved, y, wide, w, **PLAIN)


@pytest.mark.parametrize(
    ("padding", "stride", "sides"),
    [
        ("valid", 2, ((0, 0), (0, 0), (0, 0))),
        ("same", 1, ((1, 1), (0, 1), (2, 2))),
        ("same_upper", (2, 1, 3), ((1, 1), (0, 1), (1, 2))),
        ("same_lower", (2, 1, 3), ((1, 1), (1, 0), (2, 1))),
        (2, 1, ((2, 2),) * 3),
        ((0, 1, 2), 1, ((0, 0), (1, 1), (2, 2))),
        ([[1, 0], [0, 2], [3, 0]], 1, ((1, 0), (0, 2), (3, 0))),
        (np.array([2, 1, 0]), 1, ((2, 2), (1, 1), (0, 0))),
    ],
    ids=str,
)
def test_forms_of_padding(padding, stride, sides, rng):
    x, w = numbers(rng, 1, 2, 7, 6, 8), numbers(rng, 3, 2, 3, 2, 5)
    steps = (stride,) * 3 if isinstance(stride, int) else stride
    geometry = {**PLAIN, "stride": steps, "padding": sides}
    for y in (
        pplconv.conv3d(x, w, None, stride, padding, tolerance=0),
        pplconv.Conv3d(w, None, stride, padding, tolerance=0)(x),
    ):
        assert_sums(convolved, y, x, w, **geometry)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("mode", "numpys"), [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")]
)
def test_padding_modes(mode, numpys, layout, rng):
    x, w = numbers(rng, 2, 3, 4, 6, 5), numbers(rng, 4, 3, 3, 3, 3)
    sides = ((2, 1), (1, 2), (0, 3))
    wide = np.pad(x, [(0, 0), (0, 0), *sides], mode=numpys)
    y = pplconv.conv3d(
        last(x, layout), w, padding=sides, padding_mode=mode, layout=layout, tolerance=0
    )
    assert_sums(convolved, first(y, layout), wide, w, **PLAIN)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize(
    "activation", ["relu", ("clip", -0.5, 0.5), ("leaky_relu", 0.25), "silu"], ids=str
)
def test_epilogues(activation, groups, rng):
    """Bias, residual and activation come once, where the taps are added one by one as well."""
    x, w, b = numbers(rng, 2, 4, 5, 6, 7), numbers(rng, 4, 4 // groups, 3, 2, 2), numbers(rng, 4)
    r = numbers(rng, 2, 4, 5, 5, 6)
    geometry = {**PLAIN, "padding": ((1, 1), (0, 0), (0, 0)), "groups": groups}
    expected = activate(convolved(x, w, b, r, **geometry), activation, x.dtype, "NCHW")
    common = {"padding": (1, 0, 0), "groups": groups, "activation": activation, "tolerance": 0}
    for y in (
        pplconv.conv3d(x, w, b, residual=r, **common),
        pplconv.Conv3d(w, b, **common)(x, r),
    ):
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


def test_slopes_of_channels(rng):
    x, w, slope = numbers(rng, 1, 2, 4, 5, 5), numbers(rng, 3, 2, 2, 2, 2), numbers(rng, 3)
    sums = convolved(x, w, **PLAIN)
    y = pplconv.conv3d(x, w, activation=("prelu", slope), tolerance=0)
    expected = np.where(sums < 0, sums * slope.reshape(3, 1, 1, 1), sums)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("groups", [1, 6])
@pytest.mark.parametrize("algorithm", ["auto", "im2col"])
def test_outputs_are_written_where_they_are(layout, groups, algorithm, rng):
    x = np.ascontiguousarray(last(numbers(rng, 2, 6, 5, 7, 6), layout))
    w, b = numbers(rng, 6, 6 // groups, 3, 3, 3), numbers(rng, 6)
    common = {"padding": 1, "groups": groups, "layout": layout}
    if algorithm != "auto" and groups == 1:
        common["algorithm"] = algorithm
    expected = pplconv.conv3d(x, w, b, **common)
    r = numbers(rng, *expected.shape)
    for call in (
        lambda *a, **k: pplconv.conv3d(x, w, b, **common, **k),
        lambda *a, **k: pplconv.Conv3d(w, b, **common)(x, **k),
    ):
        out = guarded(call, expected.shape, "float32", also=[x, w, b])
        np.testing.assert_array_equal(out, expected)
        out = guarded(call, expected.shape, "float32", also=[r], residual=r)
        np.testing.assert_allclose(out, expected + r, rtol=1e-4, atol=1e-4)


def test_large_volumes_are_computed_in_parts(rng, monkeypatch):
    """As small ones are, if a part has few bytes."""
    from pplconv.ops import volume_images

    x, w = numbers(rng, 3, 4, 9, 8, 8), numbers(rng, 4, 4, 3, 3, 3)
    geometry = {**PLAIN, "padding": ((1, 1),) * 3, "stride": (2, 1, 1)}
    for part in (1, 20_000, 60_000, 200_000):
        monkeypatch.setattr(volume_images, "PART_BYTES", part)
        for layout in LAYOUTS:
            y = pplconv.conv3d(
                last(x, layout), w, padding=1, stride=(2, 1, 1), layout=layout, tolerance=0
            )
            assert_sums(convolved, first(y, layout), x, w, **geometry)


def test_batches_of_nothing(rng):
    x, w = np.ones((0, 4, 5, 6, 7), F32), np.ones((6, 4, 3, 3, 3), F32)
    assert pplconv.conv3d(x, w).shape == (0, 6, 3, 4, 5)
    assert pplconv.Conv3d(w, groups=1)(x).shape == (0, 6, 3, 4, 5)
    with pytest.raises(TypeError, match=r"^bias must be float32"):
        pplconv.conv3d(x, w, np.ones(6))


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nonfinite_numbers_reach_their_windows_alone(value, groups, rng):
    x, w = numbers(rng, 1, 3, 6, 7, 8), numbers(rng, 3, 3 // groups, 3, 3, 3)
    geometry = {**PLAIN, "padding": ((1, 1),) * 3, "groups": groups}
    x[0, 1, 2, 3, 4] = value
    y = pplconv.conv3d(x, w, padding=1, groups=groups, tolerance=0)
    assert_sums(convolved, y, x, w, **geometry)
    # Padding, in depth as well, makes no NaN of an infinite weight.
    x[0, 1, 2, 3, 4], w[0, 0, 0, 0, 0] = 1, value
    for y in (
        pplconv.conv3d(x, w, padding=1, groups=groups, tolerance=0),
        pplconv.Conv3d(w, padding=1, groups=groups, tolerance=0)(x),
    ):
        assert_sums(convolved, y, x, w, **geometry)
    assert np.isfinite(y[0, 0, 0, 1:-1, 1:-1]).all()


def test_the_team_changes_no_bit(rng):
    x, w = numbers(rng, 2, 8, 5, 16, 16), numbers(rng, 8, 8, 3, 3, 3)
    expected = pplconv.conv3d(x, w, padding=1, threads=1)
    assert pplconv.conv3d(x, w, padding=1, threads=3).tobytes() == expected.tobytes()
    conv = pplconv.Conv3d(w, padding=1)
    with runtime.team(2):
        assert conv(x).tobytes() == expected.tobytes()
        assert conv.plan_for(x.shape).threads <= 2


def test_one_layer_serves_many_threads(rng):
    w, results = numbers(rng, 6, 4, 3, 3, 3), {}
    conv = pplconv.Conv3d(w, padding=1)
    inputs = [numbers(rng, 1, 4, 4 + n % 3, 9, 9) for n in range(6)]

    def work(number):
        results[number] = [conv(inputs[number]) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, x in enumerate(inputs):
        expected = pplconv.conv3d(x, w, padding=1)
        assert [y.tobytes() for y in results[number]] == [expected.tobytes()] * 5


class Own(pplconv.Conv3d):
    """A subclass with a constructor and an attribute of its own."""

    def __init__(self, size):
        super().__init__(np.ones((2, 1, size, 1, 1), F32), activation=("clip", 0, 9))
        self.mark = "own"


def test_layers_travel(rng):
    x, w, b = numbers(rng, 1, 4, 5, 6, 7), numbers(rng, 6, 2, 3, 1, 2), numbers(rng, 6)
    conv = pplconv.Conv3d(
        w, b, (2, 1, 1), "valid", groups=2, activation="silu", threads=1, search_seconds=0.25
    )
    y = conv(x)
    again = pickle.loads(pickle.dumps(conv))
    assert repr(again) == repr(conv) and again(x).tobytes() == y.tobytes()
    assert again.weight.tobytes() == w.tobytes() and not again.weight.flags.writeable
    own = pickle.loads(pickle.dumps(Own(3)))
    assert type(own) is Own and own.mark == "own" and own(np.ones((1, 4, 1, 1), F32)).max() == 3


def test_layers_travel_prepared(rng):
    x, w = numbers(rng, 1, 4, 5, 6, 7), numbers(rng, 6, 4, 3, 3, 3)
    conv = pplconv.Conv3d(w, padding=1)
    y = conv(x)
    arrived = pickle.loads(pickle.dumps(sharing.prepared(conv, threads=1), protocol=5)).model()
    # Layers of images that lack a tap have arrived with their packed weights.
    assert arrived._layers.keys() == conv._layers.keys() and len(conv._layers) == 3
    assert arrived(x).tobytes() == y.tobytes() and arrived.plan_for(x.shape).threads == 1


def test_attributes(rng):
    w, b = numbers(rng, 6, 2, 3, 1, 5), numbers(rng, 6)
    conv = pplconv.Conv3d(w, b, 2, (1, 0, 2), (1, 2, 1), 2, layout="NDHWC", algorithm="im2col")
    assert conv.weight.shape == conv.weight_shape == (6, 2, 3, 1, 5)
    assert np.array_equal(conv.weight, w) and np.array_equal(conv.bias, b)
    assert (conv.in_channels, conv.out_channels, conv.kernel_size) == (4, 6, (3, 1, 5))
    assert (conv.stride, conv.dilation, conv.groups) == ((2, 2, 2), (1, 2, 1), 2)
    assert conv.padding == ((1, 1), (0, 0), (2, 2)) and conv.dtype == F32
    assert repr(conv).startswith(
        "Conv3d(<float32 array of shape (6, 2, 3, 1, 5)>, bias=<float32 array of shape (6,)>, "
        "stride=(2, 2, 2), padding=((1, 1), (0, 0), (2, 2)), dilation=(1, 2, 1), groups=2, "
    )
    for name in ("weight", "stride", "threads", "activation"):
        with pytest.raises(AttributeError):
            setattr(conv, name, None)
    w[...] = 0
    assert conv.weight.any()


def test_plans(rng):
    w = numbers(rng, 6, 4, 3, 3, 3)
    conv = pplconv.Conv3d(w, padding=1, input_shape=(1, 4, 9, 8, 8))
    plan = conv.plan_for((4, 9, 8, 8))
    assert plan == conv.plan_for((1, 4, 9, 8, 8))
    # The first and the last depth lack a tap, and so do their weights.
    assert [part.problem.count("ic12") for part in plan.parts].count(1) == 1
    assert len(plan.parts) == 3 and {"ic8", "ic12"} == {
        part.problem.split("ih")[0].split("g1")[1] for part in plan.parts
    }
    assert "volumes mb1g1ic4oc6id9od9kd3sd1pd1dd0" in str(plan) and "taps as channels" in str(plan)
    assert plan.error_bound == max(part.error_bound for part in plan.parts)
    assert plan.packed_weight_bytes >= w.nbytes
    shown = io.StringIO()
    plan.show(file=shown)
    assert shown.getvalue().startswith("volumes mb1g1ic4oc6")
    single = pplconv.Conv3d(w[:, :1], groups=6).plan_for((1, 6, 9, 8, 8))
    assert single.way == "a sum over the taps" and len(single.parts) == 3
    assert {part.algorithm for part in single.parts} == {"depthwise"}


def test_lists():
    y = pplconv.conv3d([[[[1, 2]], [[3, 4]]]], np.ones((1, 1, 2, 1, 2)))
    assert y.tolist() == [[[[10]]]] and y.dtype == np.float64

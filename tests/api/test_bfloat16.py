"""Arrays of bfloat16: what they may be mixed with, what comes out, and how near it is."""

from __future__ import annotations

import importlib.util
import pickle
import sys

import numpy as np
import pytest

import pplconv
from blocks import in_blocks, lanes_of_no_channel, out_of_blocks
from brain_exporter import Exporter
from buffers import GuardedOutput, untouched
from levels import allowed_isas
from pplconv import sharing
from pplconv.numerics import BRAIN_KINDS
from reference import conv2d_reference

ml_dtypes = pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.narrow

BF16 = np.dtype(ml_dtypes.bfloat16)
ROUNDING = 2.0**-8  # half a unit in the last place
SHAPES = {
    "3x3": ((2, 21, 13, 11), (35, 21, 3, 3), {"padding": 1}),
    "1x1": ((1, 70, 9, 7), (33, 70, 1, 1), {}),
    "stride": ((1, 9, 17, 15), (18, 9, 5, 3), {"stride": (2, 3), "padding": (2, 1)}),
    "groups": ((2, 24, 8, 9), (36, 8, 3, 3), {"padding": 1, "groups": 3}),
    "depthwise": ((1, 37, 14, 12), (37, 1, 3, 3), {"padding": 1, "groups": 37, "stride": 2}),
    "dilation": ((1, 5, 12, 14), (6, 5, 3, 3), {"dilation": 2, "padding": 2}),
}
ACTIVATIONS = [None, "relu", ("clip", -0.5, 0.75), ("leaky_relu", 0.1), "silu"]
CAPS = allowed_isas()
# Levels that have instructions for products of bfloat16.
MULTIPLY = {"avx512bf16", "amx", "bf16"}
every_cap = pytest.mark.parametrize("cap", CAPS)


def draw(rng, *shape, dtype=BF16):
    return rng.standard_normal(shape, np.float32).astype(BF16).astype(dtype)


def allowed_up_to(cap):
    return CAPS[: CAPS.index(cap) + 1]


def team(cap):
    """A team of its own for each cap: functions keep plans, and do not ask for the cap again."""
    return CAPS.index(cap) + 1


def wide(*arrays):
    return [None if array is None else array.astype(np.float64) for array in arrays]


def activated(y, activation):
    if activation == "relu":
        return np.maximum(y, 0)
    if activation == "silu":
        return y / (1 + np.exp(-y))
    if activation is None:
        return y
    if activation[0] == "clip":
        return np.clip(y, *activation[1:])
    return np.where(y < 0, activation[1] * y, y)


def assert_near(y, plan, sums, added=0.0, activation=None):
    """One rounding to bfloat16, of what float32 sums and an epilogue in float32 make."""
    assert y.dtype == BF16 and y.shape == sums.shape
    y, exact = y.astype(np.float64), activated(sums + added, activation)
    if activation is None and not np.any(added):
        assert np.abs(y - exact).max() <= plan.error_bound * np.abs(exact).max()
    scale = np.abs(sums).max()
    before = 2 * (plan.error_bound - ROUNDING) * scale
    before += 2.0**-21 * (scale + np.abs(added).max())
    limit = ROUNDING * np.abs(exact) + before
    assert (np.abs(y - exact) <= limit).all(), (np.abs(y - exact) / limit).max()


@pytest.fixture
def small(rng):
    """Operands of a small convolution."""
    return {"input": draw(rng, 2, 8, 9, 7), "weight": draw(rng, 16, 8, 3, 3)}


# Convolution -------------------------------------------------------------------------------------


@every_cap
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NCHWc"])
@pytest.mark.parametrize("name", SHAPES)
def test_against_float64(name, layout, cap, rng, monkeypatch):
    """Bias, residual and an activation are part of what is rounded once."""
    monkeypatch.setenv("PPLCONV_MAX_ISA", cap)
    shape, filters, parameters = SHAPES[name]
    x, w, b = draw(rng, *shape), draw(rng, *filters), draw(rng, filters[0])
    wide_x, wide_w = wide(x, w)
    sums = conv2d_reference(wide_x, wide_w, None, **parameters)
    residual = draw(rng, *sums.shape)
    added = (b.reshape(-1, 1, 1) + residual.astype(np.float32)).astype(np.float64)

    def laid(array):
        if layout == "NCHWc":
            return in_blocks(array, 16)
        return np.ascontiguousarray(array.transpose(0, 2, 3, 1)) if layout == "NHWC" else array

    def unlaid(array):
        if layout == "NCHWc":
            assert not lanes_of_no_channel(array, filters[0]).view(np.uint16).any()
            return out_of_blocks(array, filters[0])
        return array.transpose(0, 3, 1, 2) if layout == "NHWC" else array

    plain = pplconv.Conv2d(w, **parameters, layout=layout)
    assert_near(unlaid(plain(laid(x))), plain.plan_for(laid(x).shape), sums)
    for activation in ACTIVATIONS:
        arrays = {"input": laid(x), "residual": laid(residual)}
        conv = pplconv.Conv2d(w, b, **parameters, layout=layout, activation=activation, threads=2)
        output = GuardedOutput(arrays["residual"].shape, BF16)
        with untouched(w, b, *arrays.values()):
            assert conv(**arrays, out=output.array) is output.array
        output.assert_margins_intact()
        again = pplconv.conv2d(
            **arrays, weight=w, bias=b, **parameters, layout=layout, activation=activation,
            threads=team(cap),
        )  # fmt: skip
        assert again.dtype == BF16 and again.tobytes() == output.array.tobytes()
        plan = conv.plan_for(arrays["input"].shape)
        assert_near(unlaid(again), plan, sums, added, activation)


@every_cap
@pytest.mark.parametrize("name", SHAPES)
def test_in_float32_it_is_one_rounding(name, cap, rng, monkeypatch):
    """The result is that of float32 arrays with the same numbers, rounded, to the bit."""
    monkeypatch.setenv("PPLCONV_MAX_ISA", cap)
    shape, filters, parameters = SHAPES[name]
    x, w, b = draw(rng, *shape), draw(rng, *filters), draw(rng, filters[0])
    for algorithm in ("im2col", "direct"):
        options = {**parameters, "algorithm": algorithm, "precision": "fp32"}
        conv = pplconv.Conv2d(w, b, **options)
        floats = pplconv.Conv2d(w.astype(np.float32), b.astype(np.float32), **options)
        assert conv.plan_for(shape).bits == floats.plan_for(shape).bits
        assert conv.plan_for(shape).compute == "f32"
        assert conv(x).tobytes() == floats(x.astype(np.float32)).astype(BF16).tobytes()


@every_cap
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("word", ["bf16", "low", "low_bf16"])
def test_floats_in_bfloat16(word, name, cap, rng, monkeypatch):
    """Products of rounded operands and float32 sums, or else float32; its bound holds."""
    monkeypatch.setenv("PPLCONV_MAX_ISA", cap)
    shape, filters, parameters = SHAPES[name]
    x, w = (rng.standard_normal(size, np.float32) for size in (shape, filters))
    conv = pplconv.Conv2d(w, **parameters, precision=word)
    plan, y = conv.plan_for(shape), conv(x)
    assert y.dtype == np.float32
    if word == "low_bf16" and name != "depthwise":
        assert (plan.compute in BRAIN_KINDS) == bool(set(allowed_up_to(cap)) & MULTIPLY)
    exact = conv2d_reference(*wide(x, w), None, **parameters)
    assert np.abs(y - exact).max() <= plan.error_bound * np.abs(exact).max()
    if plan.compute in BRAIN_KINDS:
        x, w = x.astype(BF16), w.astype(BF16)
        exact = conv2d_reference(*wide(x, w), None, **parameters)
        assert np.abs(y - exact).max() <= 2.0**-17 * np.abs(exact).max()


def test_depthwise_convolution_may_be_computed_in_float32(rng):
    shape, filters, parameters = SHAPES["depthwise"]
    conv = pplconv.Conv2d(draw(rng, *filters), **parameters, precision="low_bf16")
    assert conv.plan_for(shape).algorithm == "depthwise"
    assert conv.plan_for(shape).compute == "f32"


@every_cap
@pytest.mark.parametrize("algorithm", ["auto", "im2col", "direct"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_what_is_not_finite_reaches_its_own_windows(layout, algorithm, cap, rng, monkeypatch):
    monkeypatch.setenv("PPLCONV_MAX_ISA", cap)
    x, w = draw(rng, 1, 6, 9, 8), draw(rng, 12, 6, 3, 3)
    x[0, 2, 4, 4], x[0, 1, 0, 0], w[3, 1, 0, 2], w[7, 5, 1, 1] = np.inf, np.nan, -np.inf, np.nan
    exact = conv2d_reference(*wide(x, w), None, padding=1)
    if layout == "NHWC":
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    parameters = {"padding": 1, "layout": layout, "algorithm": algorithm, "threads": team(cap)}
    y = pplconv.conv2d(x, w, **parameters)
    assert pplconv.Conv2d(w, **parameters)(x).tobytes() == y.tobytes()
    y = y.astype(np.float64)
    y = y.transpose(0, 3, 1, 2) if layout == "NHWC" else y
    odd = ~np.isfinite(exact)
    assert odd.any() and not odd.all()
    np.testing.assert_array_equal(y[odd], exact[odd])
    np.testing.assert_allclose(y[~odd], exact[~odd], rtol=ROUNDING, atol=1e-4)


def test_large_numbers_are_no_infinities(rng):
    """Their exponent is that of an infinite half; the border of `im2col` is looked at again."""
    x, w = draw(rng, 1, 3, 6, 6), draw(rng, 4, 3, 3, 3)
    w[1, 1, 1, 1] = 2.0**123
    exact = conv2d_reference(*wide(x, w), None, padding=1)
    for call in (pplconv.conv2d, lambda x, w, **more: pplconv.Conv2d(w, **more)(x)):
        y = call(x, w, padding=1, algorithm="im2col").astype(np.float64)
        np.testing.assert_allclose(y, exact, rtol=ROUNDING, atol=1e-4)


def test_integers_are_exact_up_to_256(rng):
    x = rng.integers(-2, 3, (1, 16, 8, 8)).astype(BF16)
    w = rng.integers(-1, 2, (8, 16, 3, 3)).astype(BF16)
    exact = conv2d_reference(*wide(x, w), None, padding=1)
    assert 20 < np.abs(exact).max() <= 256
    np.testing.assert_array_equal(pplconv.conv2d(x, w, padding=1).astype(np.float64), exact)


def test_infinity_begins_where_the_type_ends():
    largest = np.array(ml_dtypes.finfo(BF16).max, BF16).reshape(1, 1, 1, 1)
    one = np.ones((1, 1, 1, 1), BF16)
    assert pplconv.conv2d(largest, one) == largest
    assert pplconv.conv2d(largest, one, residual=largest) == np.inf


# Arrays and tensors ------------------------------------------------------------------------------


def test_arrays_with_gaps_and_single_images(small):
    expected = pplconv.conv2d(**small)
    x = np.zeros((2, 8, 18, 14), BF16)
    x[:, :, ::2, ::2] = small["input"]
    strided = {"input": x[:, :, ::2, ::2], "weight": np.asfortranarray(small["weight"])}
    assert pplconv.conv2d(**strided).tobytes() == expected.tobytes()
    single = pplconv.conv2d(small["input"][0], small["weight"])
    assert single.shape == expected.shape[1:] and single.tobytes() == expected[0].tobytes()
    assert pplconv.conv2d(small["input"][:0], small["weight"]).shape == (0, *expected.shape[1:])


def test_lists_of_numbers_take_the_type(small):
    bias = [0.5] * 16
    expected = pplconv.conv2d(**small, bias=np.array(bias, BF16))
    assert pplconv.conv2d(**small, bias=bias).tobytes() == expected.tobytes()
    listed = pplconv.conv2d(small["input"], small["weight"].tolist(), bias)
    assert listed.tobytes() == expected.tobytes()
    layer = pplconv.Conv2d(small["weight"], bias)
    assert layer(small["input"].tolist()).tobytes() == expected.tobytes()


def test_slopes_of_the_same_type(small, rng):
    slope = draw(rng, 16)
    expected = pplconv.conv2d(**small, activation=("prelu", slope.astype(np.float32)))
    y = pplconv.conv2d(**small, activation=("prelu", slope))
    assert y.tobytes() == expected.tobytes()


class Tensor(Exporter):
    """An exporter that NumPy asks first, in vain, as PyTorch's tensors are."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Got unsupported ScalarType BFloat16")


@pytest.mark.parametrize("kind", [Exporter, Tensor])
def test_exporters_are_taken(kind, small, rng):
    arrays = {**small, "bias": draw(rng, 16), "residual": draw(rng, 2, 16, 7, 5)}
    expected = pplconv.conv2d(**arrays)
    tensors = {name: kind(array.view(np.uint16)) for name, array in arrays.items()}
    y = pplconv.conv2d(**tensors)
    assert y.dtype == BF16 and y.tobytes() == expected.tobytes()
    layer = pplconv.Conv2d(tensors["weight"], tensors["bias"])
    assert layer.dtype == BF16 and layer.weight.tobytes() == small["weight"].tobytes()
    y = layer(tensors["input"], tensors["residual"])
    assert y.tobytes() == expected.tobytes()
    a, b = draw(rng, 5, 7), draw(rng, 7, 3)
    product = pplconv.matmul(*(kind(array.view(np.uint16)) for array in (a, b)))
    assert product.tobytes() == pplconv.matmul(a, b).tobytes()


@pytest.mark.parametrize("kind", [Exporter, Tensor])
def test_exporters_need_the_type(kind, small, monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match=r"input is bfloat16.* ml_dtypes: install it"):
        pplconv.conv2d(kind(small["input"].view(np.uint16)), np.ones((16, 8, 3, 3), np.float32))


@pytest.mark.parametrize("kind", [Exporter, Tensor])
def test_tensors_elsewhere_are_refused(kind, small):
    tensor = kind(small["input"].view(np.uint16), device=2)
    with pytest.raises(TypeError, match="input must be in CPU memory"):
        pplconv.conv2d(tensor, small["weight"])


# The real ones, where they are installed; all that they do is stood in for above.
if importlib.util.find_spec("torch"):
    import torch

    def test_tensors_of_pytorch_are_taken(small):
        expected = pplconv.conv2d(**small)
        tensors = {
            name: torch.nn.Parameter(torch.from_numpy(array.astype(np.float32)).bfloat16())
            for name, array in small.items()
        }
        assert pplconv.conv2d(**tensors).tobytes() == expected.tobytes()
        assert pplconv.Conv2d(tensors["weight"])(tensors["input"]).tobytes() == expected.tobytes()


# What is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_types_are_not_mixed(dtype, small, rng):
    x, w = small.values()
    advice = r": use .astype\(ml_dtypes.bfloat16\)"
    with pytest.raises(TypeError, match=f"weight must be bfloat16 like input, got {dtype}{advice}"):
        pplconv.conv2d(x, w.astype(dtype))
    with pytest.raises(TypeError, match=f"weight must be {dtype} like input, got bfloat16"):
        pplconv.conv2d(x.astype(dtype), w)
    with pytest.raises(TypeError, match=f"bias must be bfloat16 like input, got {dtype}{advice}"):
        pplconv.conv2d(x, w, np.ones(16, dtype))
    layer = pplconv.Conv2d(w)
    with pytest.raises(TypeError, match=f"input must be bfloat16 like weight, got {dtype}{advice}"):
        layer(x.astype(dtype))
    with pytest.raises(TypeError, match=f"input must be {dtype} like weight, got bfloat16"):
        pplconv.Conv2d(w.astype(dtype))(x)
    other = np.ones((2, 16, 7, 5), dtype)
    with pytest.raises(TypeError, match=f"residual must be bfloat16 like input, got {dtype}"):
        layer(x, residual=other)
    with pytest.raises(TypeError, match=f"out must be bfloat16 in native byte order, got {dtype}"):
        layer(x, out=other)
    assert (other == 1).all()


def test_what_out_must_be(small):
    x, w = small.values()
    layer = pplconv.Conv2d(w)
    with pytest.raises(ValueError, match="out must have shape"):
        layer(x, out=np.empty((2, 16, 7, 6), BF16))
    with pytest.raises(ValueError, match="out must be C-contiguous"):
        layer(x, out=np.empty((2, 16, 5, 7), BF16).swapaxes(2, 3))
    read_only = np.empty((2, 16, 7, 5), BF16)
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="out must be writeable"):
        layer(x, out=read_only)
    square = draw(np.random.default_rng(0), 16, 16, 1, 1)
    with pytest.raises(ValueError, match="out must not overlap input"):
        pplconv.conv2d(out := np.ones((1, 16, 3, 3), BF16), square, out=out)
    with pytest.raises(ValueError, match="out must not overlap residual"):
        layer(x, residual=(out := np.ones((2, 16, 7, 5), BF16)), out=out)


def test_bits_are_no_numbers(small):
    bits = {name: array.view(np.uint16) for name, array in small.items()}
    with pytest.raises(TypeError, match="input must be float16, bfloat16, float32 or float64"):
        pplconv.conv2d(**bits)
    with pytest.raises(TypeError, match="masked"):
        pplconv.conv2d(np.ma.masked_array(small["input"]), small["weight"])


@pytest.mark.parametrize("word", ["fp16", "half"])
def test_words_that_say_nothing_about_it(word, small):
    with pytest.raises(ValueError, match="precision must be"):
        pplconv.conv2d(**small, precision=word)


def test_functions_that_do_not_take_it(small):
    for call in (
        lambda: pplconv.conv_transpose2d(small["input"], small["weight"][:8]),
        lambda: pplconv.ConvTranspose2d(small["weight"]),
        lambda: pplconv.to_blocked(small["input"], 4),
    ):
        with pytest.raises(TypeError, match=r"must be float16, float32 or float64.*bfloat16"):
            call()


# Prepared layers ---------------------------------------------------------------------------------


def test_pickles(small, rng):
    layer = pplconv.Conv2d(small["weight"], draw(rng, 16), activation="relu", precision="low")
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(layer, protocol))
        assert again.dtype == BF16 and again.precision == "low" and repr(again) == repr(layer)
        assert again(small["input"]).tobytes() == layer(small["input"]).tobytes()


@pytest.mark.parametrize("shape", [(2, 8, 9, 7), (1, 8, 5, 5)])
def test_other_processes(shape, rng):
    layer = pplconv.Conv2d(draw(rng, 16, 8, 3, 3), draw(rng, 16), padding=1)
    x = draw(rng, *shape)
    y = layer(x)
    assert sharing.prepared(layer, 1).model()(x).tobytes() == y.tobytes()


def test_weights_travel_out_of_band(rng):
    """Where they lie in memory that processes share, they are not copied."""
    layer = pplconv.Conv2d(draw(rng, 64, 64, 3, 3), draw(rng, 64), input_shape=(1, 64, 8, 8))
    buffers = []
    stream = pickle.dumps(sharing.prepared(layer, 1), 5, buffer_callback=buffers.append)
    assert len(stream) < 16384 < layer.weight.nbytes
    rooms = [pplconv.empty_aligned(buffer.raw().nbytes, np.uint8) for buffer in buffers]
    for room, buffer in zip(rooms, buffers, strict=True):
        room[...] = np.frombuffer(buffer.raw(), np.uint8)
    again = pickle.loads(stream, buffers=rooms).model()
    assert any(np.shares_memory(again.weight, room) for room in rooms)
    x = draw(rng, 1, 64, 8, 8)
    assert again(x).tobytes() == layer(x).tobytes()


def test_weights_are_copied_and_shown(small):
    weight = small["weight"].copy()
    layer = pplconv.Conv2d(weight, weight[:, 0, 0, 0])
    expected = layer(small["input"])
    weight[...] = 0
    assert layer(small["input"]).tobytes() == expected.tobytes()
    assert layer.weight.dtype == layer.bias.dtype == layer.dtype == BF16
    assert layer.weight.tobytes() == small["weight"].tobytes()
    with pytest.raises(ValueError, match="read-only"):
        layer.weight[...] = 0
    assert "<bfloat16 array of shape (16, 8, 3, 3)>" in repr(layer)


@pytest.mark.parametrize("search", ["measure", "exhaustive"])
def test_searches(search, small):
    layer = pplconv.Conv2d(small["weight"], search=search, search_seconds=0.05)
    y = layer(small["input"])
    sums = conv2d_reference(*wide(*small.values()), None)
    assert_near(y, layer.plan_for(small["input"].shape), sums)


# Products of matrices ----------------------------------------------------------------------------


@every_cap
@pytest.mark.parametrize("lead", [(), (1,), (7,), (2, 5), (0,)], ids=str)
@pytest.mark.parametrize("features", [(1, 1), (33, 17), (70, 129)], ids=str)
def test_linear(lead, features, cap, rng, monkeypatch):
    monkeypatch.setenv("PPLCONV_MAX_ISA", cap)
    k, n = features
    w, b = draw(rng, n, k), draw(rng, n)
    x, r = draw(rng, *lead, k), draw(rng, *lead, n)
    layer = pplconv.Linear(w, b, activation="relu")
    output = GuardedOutput(r.shape, BF16)
    assert layer(x, r, output.array) is output.array
    output.assert_margins_intact()
    assert output.array.tobytes() == layer(x, r).tobytes()
    exact_x, exact_w = wide(x, w)
    added = (b + r.astype(np.float32)).astype(np.float64)
    if r.size:
        sums = exact_x @ exact_w.T
        plain = pplconv.Linear(w)
        assert_near(plain(x), plain.plan_for(x.shape), sums)
        assert_near(output.array, layer.plan_for(x.shape), sums, added, "relu")
    again = pickle.loads(pickle.dumps(layer))
    assert again(x, r).tobytes() == output.array.tobytes()


# Sizes and strides of a and b, of which some have to be copied first.
PRODUCTS = {
    "rows": lambda rng: (draw(rng, 13, 37), draw(rng, 37, 18)),
    "transposed": lambda rng: (draw(rng, 37, 13).T, draw(rng, 18, 37).T),
    "a transposed": lambda rng: (draw(rng, 37, 13).T, draw(rng, 37, 18)),
    "b transposed": lambda rng: (draw(rng, 13, 37), draw(rng, 18, 37).T),
    "gaps": lambda rng: (draw(rng, 13, 80)[:, :37], draw(rng, 37, 50)[:, 9:27]),
    "steps": lambda rng: (draw(rng, 13, 74)[:, ::2], draw(rng, 37, 36)[:, ::-2]),
    "batch": lambda rng: (draw(rng, 3, 13, 37), draw(rng, 37, 18)),
    "batches": lambda rng: (draw(rng, 2, 1, 13, 37), draw(rng, 3, 37, 18)),
    "one row": lambda rng: (draw(rng, 37), draw(rng, 37, 18)),
    "one column": lambda rng: (draw(rng, 13, 37), draw(rng, 37)),
    "two vectors": lambda rng: (draw(rng, 37), draw(rng, 37)),
    "one k": lambda rng: (draw(rng, 13, 1), draw(rng, 1, 18)),
    "no k": lambda rng: (draw(rng, 13, 0), draw(rng, 0, 18)),
    "no row": lambda rng: (draw(rng, 0, 37), draw(rng, 37, 18)),
}


@every_cap
@pytest.mark.parametrize("name", PRODUCTS)
def test_matmul(name, cap, rng, monkeypatch):
    monkeypatch.setenv("PPLCONV_MAX_ISA", cap)
    a, b = PRODUCTS[name](rng)
    sums = np.matmul(*wide(a, b))
    y = pplconv.matmul(a, b, threads=team(cap))
    assert y.dtype == BF16 and y.shape == sums.shape
    np.testing.assert_allclose(y.astype(np.float64), sums, rtol=ROUNDING, atol=2e-5)
    residual = draw(rng, *sums.shape)
    columns = sums.shape[-1] if b.ndim > 1 else 1
    bias = draw(rng, columns)
    out = np.empty(sums.shape, BF16)
    result = pplconv.matmul(
        a, b, bias=bias, residual=residual, activation="relu", out=out, threads=team(cap)
    )
    assert result is out
    wide_bias, wide_residual = wide(bias, residual)
    exact = np.maximum(sums + (wide_bias if b.ndim > 1 else wide_bias[0]) + wide_residual, 0)
    np.testing.assert_allclose(out.astype(np.float64), exact, rtol=ROUNDING, atol=2e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_matmul_takes_the_wider_type(dtype, rng):
    a, b = draw(rng, 5, 7), rng.standard_normal((7, 6)).astype(dtype)
    for x, y in ((a, b), (b.T, a.T)):
        expected = pplconv.matmul(x.astype(dtype), y.astype(dtype))
        result = pplconv.matmul(x, y)
        assert result.dtype == dtype and result.tobytes() == expected.tobytes()


def test_matmul_has_no_common_type_with_half_precision(rng):
    a = draw(rng, 5, 7)
    with pytest.raises(TypeError, match="b must be bfloat16 like a, or float32, got float16"):
        pplconv.matmul(a, np.ones((7, 3), np.float16))
    with pytest.raises(TypeError, match="b must be float16 like a, or float32, got bfloat16"):
        pplconv.matmul(a.astype(np.float16), a.T)


def test_matmul_refuses_an_out_in_an_operand(rng):
    a = draw(rng, 7, 7)
    with pytest.raises(ValueError, match="out must not overlap a"):
        pplconv.matmul(a, draw(rng, 7, 7), out=a)
    with pytest.raises(ValueError, match="out must not overlap b"):
        pplconv.matmul(draw(rng, 7, 7), a.T, out=a)

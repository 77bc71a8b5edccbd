"""Convolutions of bfloat16 arrays: how near they come, what is not finite, prepared layers."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

import pplconv
from pplconv.numerics import BRAIN_KINDS
from tests.api.blocks import from_layout, lanes_of_no_channel, to_layout
from tests.api.brain_cases import BF16, CAPS, ROUNDING, assert_near, draw, every_cap, team, wide
from tests.api.buffers import guarded
from tests.api.test_half import SHAPES
from tests.brain_exporter import Exporter
from tests.reference import conv2d_reference

ml_dtypes = pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.narrow

ACTIVATIONS = [None, "relu", ("clip", -0.5, 0.75), ("leaky_relu", 0.1), "silu"]
# Levels that have instructions for products of bfloat16.
MULTIPLY = {"avx512bf16", "amx", "bf16"}


def allowed_up_to(cap):
    return CAPS[: CAPS.index(cap) + 1]


@pytest.fixture
def small(rng):
    """Operands of a small convolution."""
    return {"input": draw(rng, 2, 8, 9, 7), "weight": draw(rng, 16, 8, 3, 3)}


@pytest.mark.sampled(47)
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

    def unlaid(array):
        if layout == "NCHWc":
            assert not lanes_of_no_channel(array, filters[0]).view(np.uint16).any()
        return from_layout(array, layout, filters[0])

    arrays = {"input": to_layout(x, layout, 16), "residual": to_layout(residual, layout, 16)}
    plain = pplconv.Conv2d(w, **parameters, layout=layout)
    plan = plain.plan_for(arrays["input"].shape)
    assert_near(unlaid(plain(arrays["input"])), plan, sums)
    for activation in ACTIVATIONS:
        conv = pplconv.Conv2d(w, b, **parameters, layout=layout, activation=activation, threads=2)
        y = guarded(conv, arrays["residual"].shape, BF16, **arrays, also=[w, b])
        again = pplconv.conv2d(
            **arrays, weight=w, bias=b, **parameters, layout=layout, activation=activation,
            threads=team(cap),
        )  # fmt: skip
        assert again.dtype == BF16 and again.tobytes() == y.tobytes()
        plan = conv.plan_for(arrays["input"].shape)
        assert_near(unlaid(again), plan, sums, added, activation)


@every_cap
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("dtype", [BF16, np.dtype(np.float16)], ids=str)
def test_in_float32_it_is_one_rounding(dtype, name, cap, rng, monkeypatch):
    """The result is that of float32 arrays with the same numbers, rounded, to the bit."""
    monkeypatch.setenv("PPLCONV_MAX_ISA", cap)
    shape, filters, parameters = SHAPES[name]
    x, w, b = (draw(rng, *sizes, dtype=dtype) for sizes in (shape, filters, filters[:1]))
    for algorithm in ("im2col", "direct"):
        options = {**parameters, "algorithm": algorithm, "precision": "fp32"}
        conv = pplconv.Conv2d(w, b, **options)
        floats = pplconv.Conv2d(w.astype(np.float32), b.astype(np.float32), **options)
        assert conv.plan_for(shape).bits == floats.plan_for(shape).bits
        assert conv.plan_for(shape).compute == "f32"
        assert conv(x).tobytes() == floats(x.astype(np.float32)).astype(dtype).tobytes()


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
    x = to_layout(x, layout)
    parameters = {"padding": 1, "layout": layout, "algorithm": algorithm, "threads": team(cap)}
    y = pplconv.conv2d(x, w, **parameters)
    assert pplconv.Conv2d(w, **parameters)(x).tobytes() == y.tobytes()
    y = from_layout(y, layout).astype(np.float64)
    odd = ~np.isfinite(exact)
    assert odd.any() and not odd.all()
    np.testing.assert_array_equal(y[odd], exact[odd])
    np.testing.assert_allclose(y[~odd], exact[~odd], rtol=ROUNDING, atol=1e-4)


def test_large_numbers_are_no_infinities(rng):
    """2**123 has the exponent bits of float16's infinity; `im2col` must not take it for one."""
    x, w = draw(rng, 1, 3, 6, 6), draw(rng, 4, 3, 3, 3)
    w[1, 1, 1, 1] = 2.0**123
    exact = conv2d_reference(*wide(x, w), None, padding=1)
    for call in (pplconv.conv2d, lambda x, w, **more: pplconv.Conv2d(w, **more)(x)):
        y = call(x, w, padding=1, algorithm="im2col").astype(np.float64)
        np.testing.assert_allclose(y, exact, rtol=ROUNDING, atol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "largest", "limit"), [(BF16, (2, 1), 256), (np.float16, (3, 3), 2048)]
)
def test_integers_are_exact_up_to_the_digits_of_the_type(dtype, largest, limit, rng):
    x, w = (
        rng.integers(-most, most + 1, shape).astype(dtype)
        for most, shape in zip(largest, ((1, 16, 8, 8), (8, 16, 3, 3)), strict=True)
    )
    exact = conv2d_reference(*wide(x, w), None, padding=1)
    assert 20 < np.abs(exact).max() <= limit
    np.testing.assert_array_equal(pplconv.conv2d(x, w, padding=1).astype(np.float64), exact)


def test_infinity_begins_where_the_type_ends():
    largest = np.array(ml_dtypes.finfo(BF16).max, BF16).reshape(1, 1, 1, 1)
    one = np.ones((1, 1, 1, 1), BF16)
    assert pplconv.conv2d(largest, one) == largest
    assert pplconv.conv2d(largest, one, residual=largest) == np.inf


# Prepared layers ---------------------------------------------------------------------------------


def test_its_name_is_shown(small):
    layer = pplconv.Conv2d(small["weight"], small["weight"][:, 0, 0, 0])
    assert layer.weight.dtype == layer.bias.dtype == layer.dtype == BF16
    assert "<bfloat16 array of shape (16, 8, 3, 3)>" in repr(layer)


@pytest.mark.parametrize("search", ["measure", "exhaustive"])
def test_searches(search, small):
    layer = pplconv.Conv2d(small["weight"], search=search, search_seconds=0.05)
    y = layer(small["input"])
    sums = conv2d_reference(*wide(*small.values()), None)
    assert_near(y, layer.plan_for(small["input"].shape), sums)


# Arrays and tensors: what is taken, and what is refused -------------------------------------------


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


# The real libraries, where they are installed; the stand-ins above do all that they do.
if importlib.util.find_spec("torch"):
    import torch

    def test_tensors_of_pytorch_are_taken(small):
        expected = pplconv.conv2d(**small)
        tensors = {
            name: torch.nn.Parameter(torch.from_numpy(array.astype(np.float32)).bfloat16())
            for name, array in small.items()
        }
        layer = pplconv.Conv2d(tensors["weight"])
        for got in (pplconv.conv2d(**tensors), layer(tensors["input"])):
            assert got.dtype is torch.bfloat16
            assert got.view(torch.int16).numpy().tobytes() == expected.tobytes()


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

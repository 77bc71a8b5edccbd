"""Forms of ``padding=``, and ``padding_mode=``: `numpy.pad` and no padding are the reference."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pplconv
from pplconv.ops import extension
from tests.api.blocks import from_layout, to_layout
from tests.reference import assert_convolution, conv2d_reference, explicit_padding

# What NumPy calls each mode.
PADS = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
LAYOUTS = {"NCHW": 2, "NHWC": 1}


@pytest.fixture(params=["whole", "strips"])
def way(request, monkeypatch):
    """Small images are extended as a whole; here all, or none that has outputs inside."""
    monkeypatch.setattr(extension, "SMALL_BYTES", 0)
    monkeypatch.setattr(extension, "LARGEST_SHARE", 0.0 if request.param == "whole" else 1.0)
    # Plans that were kept know nothing of it.
    return request.param


def padded(x, sides, mode, layout):
    around = [(0, 0)] * x.ndim
    axis = LAYOUTS[layout] - 4 + x.ndim
    around[axis : axis + 2] = sides
    return np.pad(x, around, mode=PADS[mode])


def images(rng, shape, layout, dtype=np.float32):
    n, c, h, w = shape
    return rng.standard_normal((n, c, h, w) if layout == "NCHW" else (n, h, w, c)).astype(dtype)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", PADS)
def test_forms_of_padding(mode, layout, way, rng):
    """Numbers, pairs, sides and words, with strides, dilation and groups."""
    seen = 0
    for padding, stride, dilation, groups in product(
        (1, (2, 0), ((0, 3), (2, 1)), ((4, 0), (0, 5)), "same_upper", "same_lower"),
        (1, (2, 3)), (1, (2, 1)), (1, 2),
    ):  # fmt: skip
        x = images(rng, (2, 4, 11 + 2 * groups, 9), layout)
        w = rng.standard_normal((6, 4 // groups, 3, 2)).astype(np.float32)
        b = rng.standard_normal(6).astype(np.float32)
        size = x.shape[LAYOUTS[layout] : LAYOUTS[layout] + 2]
        pair = (stride, stride) if isinstance(stride, int) else stride
        apart = (dilation, dilation) if isinstance(dilation, int) else dilation
        sides = explicit_padding(padding, size, (3, 2), pair, apart)
        arguments = {"stride": stride, "dilation": dilation, "groups": groups, "layout": layout}
        conv = pplconv.Conv2d(
            w, b, padding=padding, padding_mode=mode, tolerance=0, **arguments
        )  # fmt: skip
        y = conv(x)
        assert_convolution(y, padded(x, sides, mode, layout), w, b, padding=0, **arguments)
        one = conv(x[0])
        assert one.shape == y.shape[1:]
        np.testing.assert_allclose(one, y[0], atol=1e-4)
        # A `Conv2d` says what it does; the function does the same.
        again = pplconv.conv2d(
            x, w, b, padding=padding, padding_mode=mode, threads=2, tolerance=0, **arguments
        )  # fmt: skip
        assert_convolution(again, padded(x, sides, mode, layout), w, b, padding=0, **arguments)
        seen += 1
    assert seen == 48


@given(
    st.sampled_from(list(PADS)), st.sampled_from(list(LAYOUTS)),
    st.tuples(*[st.integers(1, 12)] * 2), st.tuples(*[st.integers(1, 5)] * 2),
    st.tuples(*[st.integers(0, 7)] * 4),
    st.tuples(*[st.integers(1, 3)] * 4), st.booleans(), st.integers(0, 2**32 - 1),
)  # fmt: skip
@settings(max_examples=60)
def test_any_geometry(mode, layout, size, kernel, around, steps, strips, seed):
    rng = np.random.default_rng(seed)
    sides = around[:2], around[2:]
    stride, dilation = steps[:2], steps[2:]
    x = images(rng, (1, 3, *size), layout, np.float64)
    w = rng.standard_normal((2, 3, *kernel))
    arguments = {"stride": stride, "dilation": dilation, "layout": layout}
    most = {"reflect": [n - 1 for n in size], "circular": size, "replicate": (99, 99)}[mode]
    before = extension.SMALL_BYTES, extension.LARGEST_SHARE
    extension.SMALL_BYTES, extension.LARGEST_SHARE = (0, 1.0) if strips else before
    try:
        if any(max(pads) > limit for pads, limit in zip(sides, most, strict=True)):
            with pytest.raises(ValueError, match=r"padding|kernel"):
                pplconv.Conv2d(w, padding=sides, padding_mode=mode, **arguments)(x)
            return
        if any(
            n + sum(pads) < (k - 1) * d + 1
            for n, pads, k, d in zip(size, sides, kernel, dilation, strict=True)
        ):
            with pytest.raises(ValueError, match="the kernel spans"):
                pplconv.Conv2d(w, padding=sides, padding_mode=mode, **arguments)(x)
            return
        y = pplconv.Conv2d(w, padding=sides, padding_mode=mode, **arguments)(x)
    finally:
        extension.SMALL_BYTES, extension.LARGEST_SHARE = before
    expected = padded(x, sides, mode, layout)
    direct = pplconv.conv2d(expected, w, tolerance=0, **arguments)
    np.testing.assert_allclose(y, direct, atol=1e-4 * max(1, abs(direct).max()))


@pytest.mark.parametrize("mode", PADS)
def test_epilogue_and_out(mode, way, rng):
    x = images(rng, (2, 8, 20, 22), "NCHW")
    w = rng.standard_normal((8, 8, 3, 3)).astype(np.float32)
    slope = rng.random(8).astype(np.float32)
    residual = images(rng, (2, 8, 20, 22), "NCHW")
    wide = padded(x, ((1, 1), (1, 1)), mode, "NCHW")
    for activation in (None, "relu", ("prelu", slope), "silu"):
        conv = pplconv.Conv2d(
            w, padding=1, padding_mode=mode, activation=activation, tolerance=0
        )  # fmt: skip
        out = np.full((2, 8, 20, 22), np.nan, np.float32)
        assert conv(x, residual, out) is out
        assert_convolution(out, wide, w, residual=residual, activation=activation)
        np.testing.assert_array_equal(conv(x, residual), out)
        other = np.full_like(out, np.nan)
        pplconv.conv2d(x, w, padding=1, padding_mode=mode, activation=activation,
                       residual=residual, tolerance=0, out=other)  # fmt: skip
        assert_convolution(other, wide, w, residual=residual, activation=activation)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_types_and_teams(dtype, layout, way, rng):
    """The same bits for any number of threads."""
    x = images(rng, (1, 16, 40, 37), layout, dtype)
    w = rng.standard_normal((16, 16, 3, 3)).astype(dtype) / dtype(12)
    arguments = {"padding": 1, "padding_mode": "reflect", "layout": layout}
    found = [pplconv.Conv2d(w, threads=threads, **arguments)(x) for threads in (1, 2, 3, 7)]
    assert len({y.tobytes() for y in found}) == 1
    wide = padded(x, ((1, 1), (1, 1)), "reflect", layout)
    plain = pplconv.conv2d(wide, w, layout=layout, tolerance=0)
    limit = 2e-2 if dtype is np.float16 else 1e-4
    np.testing.assert_allclose(found[0].astype(float), plain.astype(float), atol=limit)


def test_blocks_of_channels(way, rng):
    x = rng.standard_normal((2, 12, 18, 17)).astype(np.float32)
    w = rng.standard_normal((10, 12, 3, 3)).astype(np.float32)
    for mode in PADS:
        conv = pplconv.Conv2d(w, padding=2, padding_mode=mode, layout="NCHWc", tolerance=0)
        y = conv(pplconv.to_blocked(x, 8))
        assert (y[:, -1, ..., 2:] == 0).all()
        wide = padded(x, ((2, 2), (2, 2)), mode, "NCHW")
        assert_convolution(pplconv.from_blocked(y, 10), wide, w)


def test_weights_that_are_not_finite(way, rng):
    x = images(rng, (1, 4, 20, 20), "NCHW")
    w = rng.standard_normal((4, 4, 3, 3)).astype(np.float32)
    w[1, 2, 0, 0], w[3, 0, 2, 1] = np.inf, np.nan
    y = pplconv.conv2d(x, w, padding=1, padding_mode="replicate", algorithm="im2col")
    assert_convolution(y, padded(x, ((1, 1), (1, 1)), "replicate", "NCHW"), w)
    conv = pplconv.Conv2d(w, padding=1, padding_mode="replicate", algorithm="im2col")
    np.testing.assert_array_equal(conv(x), y)


def test_one_object_for_images_of_many_sizes(way, rng):
    """An image may be as large as another one with its padding."""
    w = rng.standard_normal((2, 2, 3, 3)).astype(np.float32)
    conv = pplconv.Conv2d(w, padding=1, padding_mode="circular", tolerance=0)
    for size in (8, 10, 8, 12, 10, 10):
        x = images(rng, (1, 2, size, size), "NCHW")
        assert_convolution(conv(x), padded(x, ((1, 1), (1, 1)), "circular", "NCHW"), w)


@pytest.mark.parametrize("algorithm", ["winograd", "direct", "im2col", "depthwise"])
def test_every_algorithm(algorithm, way, rng):
    groups = 8 if algorithm == "depthwise" else 1
    x = images(rng, (1, 8, 30, 31), "NCHW")
    w = rng.standard_normal((8, 8 // groups, 3, 3)).astype(np.float32)
    conv = pplconv.Conv2d(
        w, padding=1, padding_mode="reflect", groups=groups, algorithm=algorithm, tolerance=1e-3
    )  # fmt: skip
    wide = padded(x, ((1, 1), (1, 1)), "reflect", "NCHW")
    expected = pplconv.conv2d(wide, w, groups=groups, tolerance=0)
    np.testing.assert_allclose(conv(x), expected, atol=1e-3)
    assert conv.plan_for(x.shape).algorithm == algorithm


def test_pickles(way, rng):
    x = images(rng, (1, 8, 24, 20), "NCHW")
    w = rng.standard_normal((8, 8, 3, 3)).astype(np.float32)
    conv = pplconv.Conv2d(w, padding=1, padding_mode="reflect", input_shape=x.shape)
    assert "padding_mode='reflect'" in repr(conv)
    again = pickle.loads(pickle.dumps(conv))
    assert again.padding_mode == "reflect"
    assert again(x).tobytes() == conv(x).tobytes()
    old = pickle.loads(pickle.dumps(pplconv.Conv2d(w)))
    assert old.padding_mode == "zeros"


def test_padding_that_no_output_sees(rng):
    """Strides may leave the last rows out; then there is nothing to do but what is done anyway."""
    x = images(rng, (1, 2, 9, 9), "NCHW")
    w = rng.standard_normal((2, 2, 1, 1)).astype(np.float32)
    conv = pplconv.Conv2d(w, stride=10, padding=((0, 1), (0, 1)), padding_mode="reflect")
    assert_convolution(conv(x), x, w, stride=10)


def test_empty_batches(way):
    w = np.ones((2, 3, 3, 3), np.float32)
    x = np.ones((0, 3, 20, 20), np.float32)
    assert pplconv.conv2d(x, w, padding=1, padding_mode="reflect").shape == (0, 2, 20, 20)
    assert pplconv.Conv2d(w, padding=1, padding_mode="reflect")(x).shape == (0, 2, 20, 20)


@pytest.mark.parametrize("mode", ["reflection", "symmetric", 3, None])
def test_other_modes_are_refused(mode):
    w = np.ones((1, 1, 3, 3), np.float32)
    with pytest.raises(ValueError, match="padding_mode must be one of zeros, reflect"):
        pplconv.Conv2d(w, padding=1, padding_mode=mode)
    with pytest.raises(ValueError, match="padding_mode must be one of zeros, reflect"):
        pplconv.conv2d(np.ones((1, 5, 5), np.float32), w, padding=1, padding_mode=mode)


@pytest.mark.parametrize(("mode", "most"), [("reflect", 4), ("circular", 5)])
def test_images_too_small_for_their_padding(mode, most):
    w = np.ones((1, 1, 3, 3), np.float32)
    x = np.ones((1, 1, 5, 9), np.float32)
    out = np.full((1, 1, 3 + 2 * (most + 1), 7), 7, np.float32)
    assert pplconv.conv2d(x, w, padding=(most, 0), padding_mode=mode).shape[2] == 3 + 2 * most
    with pytest.raises(ValueError, match=f"padding must be at most {most} for 5 rows of input"):
        pplconv.conv2d(x, w, padding=(most + 1, 0), padding_mode=mode, out=out)
    assert (out == 7).all()
    with pytest.raises(ValueError, match="padding must be at most"):
        pplconv.Conv2d(w, padding=(most + 1, 0), padding_mode=mode).plan_for(x.shape)


def test_quantized_convolutions_have_zeros_only(rng):
    conv = pplconv.Conv2d(
        rng.standard_normal((4, 4, 3, 3)).astype(np.float32), padding=1, padding_mode="reflect"
    )
    with pytest.raises(ValueError, match="padding_mode must be 'zeros'"):
        conv.quantize(rng.random((2, 4, 9, 9)).astype(np.float32))


# Every form of padding, over sizes where the halves differ ----------------------------------------


SIZES = (1, 4, 5, 7, 8)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("padding", ["valid", "same", "same_upper", "same_lower"])
def test_words(padding, layout, rng):
    """Each word pads as its rule says: the same bits as with the numbers written out."""
    uneven = 0
    for size, k, s, d in product(SIZES, (1, 2, 3, 4), (1, 2, 3), (1, 2)):
        if (padding == "same" and s > 1) or (padding == "valid" and size <= d * (k - 1)):
            continue
        # Other sizes across than down: neither axis may take the other's padding.
        image, kernel, stride, dilation = (size, 9), (k, 2), (s, 1), (d, 3)
        sides = explicit_padding(padding, image, kernel, stride, dilation)
        uneven += sides[0][0] != sides[0][1]
        x = to_layout(rng.standard_normal((1, 3, *image)).astype(np.float32), layout)
        w = rng.standard_normal((5, 3, *kernel)).astype(np.float32)
        arguments = {"stride": stride, "dilation": dilation, "layout": layout, "padding": padding}
        y = pplconv.conv2d(x, w, **arguments)
        assert_convolution(y, x, w, **arguments)
        explicit = pplconv.conv2d(x, w, **{**arguments, "padding": sides})
        assert y.tobytes() == explicit.tobytes()
        assert pplconv.Conv2d(w, **arguments)(x).tobytes() == explicit.tobytes()
    assert uneven >= (0 if padding == "valid" else 10)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("padding", "sides"),
    [
        (0, ((0, 0), (0, 0))),
        (2, ((2, 2), (2, 2))),
        ((1, 3), ((1, 1), (3, 3))),
        ([1, 3], ((1, 1), (3, 3))),
        ([(0, 2), (4, 1)], ((0, 2), (4, 1))),
        (((3, 0), (0, 0)), ((3, 0), (0, 0))),
        (((0, 0), (0, 5)), ((0, 0), (0, 5))),
        (np.int64(2), ((2, 2), (2, 2))),
    ],
)
def test_numbers(padding, sides, layout, rng):
    x = to_layout(rng.standard_normal((2, 4, 6, 7)), layout)
    w = rng.standard_normal((3, 4, 3, 2))
    y = pplconv.conv2d(x, w, padding=padding, layout=layout)
    assert_convolution(y, x, w, padding=sides, layout=layout)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_outputs_that_see_nothing_but_padding(layout, rng):
    """Padding may be larger than the kernel; such outputs are the bias, activated."""
    x = to_layout(rng.standard_normal((1, 2, 3, 4)).astype(np.float32), layout)
    w = rng.standard_normal((18, 2, 2, 2)).astype(np.float32)
    bias = rng.standard_normal(18).astype(np.float32)
    arguments = {"padding": ((7, 5), (40, 3)), "activation": "relu", "layout": layout}
    y = pplconv.conv2d(x, w, bias, **arguments)
    assert_convolution(y, x, w, bias, **arguments)
    np.testing.assert_array_equal(from_layout(y, layout)[0, :, 0, 0], np.maximum(bias, 0))
    assert conv2d_reference(x, w, bias, **arguments).shape == y.shape

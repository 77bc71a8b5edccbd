"""The reference against the definition, evaluated one multiplication at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.reference import (
    assert_convolution,
    conv2d_reference,
    error_bound,
    explicit_padding,
    pair,
)


def one_by_one(x, w, bias, stride, pads, dilation, groups, residual):
    """Convolve (N,C,H,W) with OIHW by seven loops over Python floats."""
    n_images, _, h, width = x.shape
    oc, icg, kh, kw = w.shape
    (top, bottom), (left, right) = pads
    oh = (h + top + bottom - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (width + left + right - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    y = np.empty((n_images, oc, oh, ow))
    for n in range(n_images):
        for o in range(oc):
            first_channel = o // (oc // groups) * icg
            for row in range(oh):
                for column in range(ow):
                    total = 0.0
                    for c in range(icg):
                        for i in range(kh):
                            for j in range(kw):
                                r = row * stride[0] + i * dilation[0] - top
                                q = column * stride[1] + j * dilation[1] - left
                                inside = 0 <= r < h and 0 <= q < width
                                if inside:
                                    value = float(x[n, first_channel + c, r, q])
                                    total += value * float(w[o, c, i, j])
                    total += 0.0 if bias is None else float(bias[o])
                    total += 0.0 if residual is None else float(residual[n, o, row, column])
                    y[n, o, row, column] = total
    return y


CASES = [
    # n, groups, icg, ocg, h, w, kh, kw, stride, padding, dilation
    (1, 1, 3, 2, 5, 6, 3, 3, 1, 1, 1),
    (2, 1, 2, 3, 7, 4, 3, 2, (2, 1), (1, 0), 1),
    (1, 2, 2, 2, 6, 6, 2, 3, 1, ((2, 0), (1, 3)), (2, 1)),
    (2, 3, 1, 2, 5, 5, 3, 3, 2, "same_upper", 1),
    (1, 1, 2, 2, 6, 5, 2, 2, (3, 2), "same_lower", 1),
    (1, 4, 1, 1, 5, 4, 2, 4, 1, "same", (1, 2)),
    (1, 1, 2, 1, 4, 4, 1, 1, 3, "valid", 1),
    (0, 1, 2, 2, 4, 4, 3, 3, 1, 0, 1),
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("special", [False, True])
def test_reference_is_the_definition(case, special, rng):
    n, groups, icg, ocg, h, w, kh, kw, stride, padding, dilation = case
    x = rng.standard_normal((n, groups * icg, h, w))
    weight = rng.standard_normal((groups * ocg, icg, kh, kw))
    bias = rng.standard_normal(groups * ocg)
    if special and x.size:
        x.flat[rng.integers(x.size)] = np.inf
        x.flat[rng.integers(x.size)] = np.nan
        weight.flat[rng.integers(weight.size)] = -np.inf
    stride, dilation = pair(stride), pair(dilation)
    pads = explicit_padding(padding, (h, w), (kh, kw), stride, dilation)
    plain = conv2d_reference(x, weight, None, stride, padding, dilation, groups)
    residual = rng.standard_normal(plain.shape)
    expected = one_by_one(x, weight, bias, stride, pads, dilation, groups, residual)

    parameters = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    actual = conv2d_reference(x, weight, bias, residual=residual, **parameters)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-13, atol=1e-13)

    nhwc = conv2d_reference(
        x.transpose(0, 2, 3, 1),
        weight,
        bias,
        residual=residual.transpose(0, 2, 3, 1),
        layout="NHWC",
        **parameters,
    )
    np.testing.assert_array_equal(nhwc.transpose(0, 3, 1, 2), actual)
    if n:
        single = conv2d_reference(x[0], weight, bias, residual=residual[0], **parameters)
        np.testing.assert_array_equal(single, actual[0])


@pytest.mark.parametrize(
    ("padding", "size", "k", "s", "d", "expected"),
    [
        ("valid", 5, 3, 1, 1, (0, 0)),
        ("same", 5, 4, 1, 1, (1, 2)),  # torch.nn.functional.conv2d(padding="same")
        ("same", 5, 3, 1, 2, (2, 2)),
        ("same_upper", 5, 4, 1, 1, (1, 2)),  # ONNX Conv, auto_pad = SAME_UPPER
        ("same_lower", 5, 4, 1, 1, (2, 1)),
        ("same_upper", 224, 7, 2, 1, (2, 3)),
        ("same_lower", 224, 7, 2, 1, (3, 2)),
        ("same_upper", 4, 1, 3, 1, (0, 0)),
        (2, 5, 3, 1, 1, (2, 2)),
    ],
)
def test_padding_rules(padding, size, k, s, d, expected):
    vertical, horizontal = explicit_padding(padding, (size, size), (k, k), (s, s), (d, d))
    assert vertical == horizontal == expected


def test_activations():
    x = np.array([[[-2.0, -0.25, 0.5, 7.0, math.nan, math.inf, -math.inf]]])
    w = np.ones((1, 1, 1, 1))

    def run(activation):
        return conv2d_reference(x, w, activation=activation)[0, 0]

    nan, inf = math.nan, math.inf
    np.testing.assert_array_equal(run(None), x[0, 0])
    np.testing.assert_array_equal(run("relu"), [0, 0, 0.5, 7, nan, inf, 0])
    np.testing.assert_array_equal(run("relu6"), [0, 0, 0.5, 6, nan, 6, 0])
    np.testing.assert_array_equal(run(("clip", -1, 2)), [-1, -0.25, 0.5, 2, nan, 2, -1])
    leaky = [-0.5, -0.0625, 0.5, 7, nan, inf, -inf]
    np.testing.assert_array_equal(run(("leaky_relu", 0.25)), leaky)
    np.testing.assert_array_equal(run(("prelu", [0.25])), leaky)
    np.testing.assert_array_equal(run(("leaky_relu", 0.0)), [0, 0, 0.5, 7, nan, inf, 0])
    sigmoid = [1 / (1 + math.exp(-value)) for value in (-2, -0.25, 0.5, 7)]
    np.testing.assert_allclose(run("sigmoid"), [*sigmoid, nan, 1, 0], rtol=1e-15)
    silu = np.multiply(sigmoid, [-2, -0.25, 0.5, 7])
    np.testing.assert_allclose(run("silu"), [*silu, nan, inf, 0], rtol=1e-15)
    hardswish = [-1 / 3, -0.25 * 2.75 / 6, 0.5 * 3.5 / 6, 7, nan, inf, 0]
    np.testing.assert_allclose(run("hardswish"), hardswish, rtol=1e-15)


@pytest.mark.parametrize(("layout", "axis"), [("NCHW", 1), ("NHWC", 3)])
def test_slopes_belong_to_channels(layout, axis):
    shape = [1, 3, 3, 3]
    y = conv2d_reference(
        -np.ones(shape), np.eye(3)[..., None, None], activation=("prelu", [1, 2, 3]), layout=layout
    )
    np.testing.assert_array_equal(np.moveaxis(y, axis, -1)[0, 1, 2], [-1, -2, -3])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bound_holds_for_sums_in_any_order_and_is_not_loose(dtype, rng):
    """Sums in the element type stay inside the bound; one wrong term of average size does not."""
    x = rng.standard_normal((1, 16, 6, 6)).astype(dtype)
    w = rng.standard_normal((3, 16, 3, 3)).astype(dtype)
    k = w[0].size
    for order in (np.arange(k), np.arange(k)[::-1], rng.permutation(k)):
        y = np.zeros((1, 3, 4, 4), dtype)
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
        windows = windows.transpose(0, 2, 3, 1, 4, 5).reshape(1, 4, 4, k)
        for term in order:
            y += (windows[..., term] * w.reshape(3, k)[:, term, None, None, None])[:, 0]
        assert_convolution(y, x, w)
    bound = error_bound(x, w)
    assert np.all(bound < 200 * k * np.finfo(dtype).eps)
    y[0, 1, 2, 3] += dtype(windows[0, 2, 3, 7] * w.reshape(3, k)[1, 7])
    with pytest.raises(AssertionError, match=r"1 of 48 elements .* \(0, 1, 2, 3\)"):
        assert_convolution(y, x, w)


def test_the_comparison_sees_misplaced_special_values(rng):
    x = rng.standard_normal((1, 2, 4, 4)).astype(np.float32)
    w = rng.standard_normal((2, 2, 1, 1)).astype(np.float32)
    right = conv2d_reference(x, w).astype(np.float32)
    assert_convolution(right, x, w)
    for value, message in [(np.nan, "NaN"), (np.inf, r"\+inf"), (-np.inf, "-inf")]:
        wrong = right.copy()
        wrong[0, 0, 0, 0] = value
        with pytest.raises(AssertionError, match=message):
            assert_convolution(wrong, x, w)
    with pytest.raises(AssertionError):
        assert_convolution(right.astype(np.float64), x, w)
    with pytest.raises(AssertionError):
        assert_convolution(right[0], x, w)

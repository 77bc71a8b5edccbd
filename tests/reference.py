"""Convolution in float64 in plain NumPy, and the error bound of a result.

The reference follows the definition: pad with zeros, then add one kernel tap after the other.
No code is shared with the package under test, not even the reading of ``padding``.

The error bound is derived, not tuned. Write ``u`` for the unit roundoff of the element type and
``K = ic/groups * kh * kw`` for the length of a sum. A sum of the K products, the bias and the
residual, in any order, with or without fused multiply-add, rounds each term at most K + 2 times;
an epilogue that rounds on its own may add two more roundings. Hence, for each element,

    |y - exact| <= gamma(K + 4, u) * (sum |x| |w| + |bias| + |residual|),
    gamma(n, u) = n u / (1 - n u)

(Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., section 3.1). The reference
itself is a sum in float64, so its own bound is added, which matters for float64 input only.
Subnormal results are flushed to zero, which adds at most the smallest normal number for each
operation; operands are taken to be normal numbers. A clip is monotone and never increases a
distance, so the bound stays. The other activations multiply the bound by their largest slope, and
add the error that the kernels promise (``asm/README.md``).

Arrays of float16 are computed in float32, with the bound above. One rounding to the nearest
follows, which adds half a unit in the last place of the result, even if the result is subnormal.
So a result may be infinite only where the largest float16 is within the bound.

The bound above holds for direct sums only. Other methods state a bound relative to the largest
magnitude of the output (``Plan.error_bound``). A few outputs may all cancel, so the tests take the
largest ``sum |x| |w| + |bias| + |residual|`` instead. Winograd mixes the pixels of a tile: a weight
that meets only padding adds to the error too. So the padding repeats the edge of the image in that
sum.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_UNIT_ROUNDOFF_64 = float(np.finfo(np.float64).eps) / 2


def pair(value: Any) -> tuple[int, int]:
    """Give ``(vertical, horizontal)`` for an int or a pair."""
    if isinstance(value, int):
        return value, value
    vertical, horizontal = value
    return vertical, horizontal


def explicit_padding(
    padding: Any,
    image: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Give ``((top, bottom), (left, right))`` for any form of ``padding``."""
    if padding == "valid":
        return (0, 0), (0, 0)
    if isinstance(padding, str):
        sides = []
        for size, k, s, d in zip(image, kernel, stride, dilation, strict=True):
            outputs = -(-size // s)
            total = max((outputs - 1) * s + d * (k - 1) + 1 - size, 0)
            small, large = total // 2, total - total // 2
            # PyTorch's "same" and ONNX's "same_upper" both put the odd row behind the image.
            sides.append((large, small) if padding == "same_lower" else (small, large))
        return sides[0], sides[1]
    if isinstance(padding, int):
        return (padding, padding), (padding, padding)
    vertical, horizontal = padding
    if isinstance(vertical, int):
        return (vertical, vertical), (horizontal, horizontal)
    return tuple(vertical), tuple(horizontal)


def output_size(size: int, pads: tuple[int, int], k: int, s: int, d: int) -> int:
    """Give the number of outputs along one axis."""
    return (size + sum(pads) - (d * (k - 1) + 1)) // s + 1


# Half a unit in the last place of a float16: relative to the number, and the absolute minimum.
HALF_ULP, LEAST_HALF_ULP = 2.0**-11, 2.0**-25


def computed_in(dtype: np.dtype) -> np.dtype:
    """Give the type in which arrays of a type are computed."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def stored_bound(bound: np.ndarray, expected: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Add the rounding of the result, if it is stored in another type than it is computed in."""
    if computed_in(dtype) == dtype:
        return bound
    return bound + np.maximum(HALF_ULP * (np.abs(expected) + bound), LEAST_HALF_ULP)


_erfc = np.vectorize(math.erfc, otypes=[np.float64])
# In eps of the exact value, or of the smallest normal number where that is larger.
ACTIVATION_ERROR = 2.0
# The largest slope, rounded up: that of silu is at 2.4, of hardswish at 3, of mish at 1.5, of gelu
# at the square root of 2.
STRETCH = {
    "sigmoid": 0.25, "silu": 1.1, "hardswish": 1.5, "softplus": 1.0, "mish": 1.1, "gelu": 1.13,
}  # fmt: skip
# Arguments up to which the error of gelu is one of the argument, and not of its value.
GELU_END = 5.5


def slopes_of(activation: Any, dtype: np.dtype, layout: str) -> np.ndarray | None:
    """Give the slopes below zero in the element type, ready for broadcasting, or None."""
    if not isinstance(activation, tuple) or activation[0] not in ("leaky_relu", "prelu"):
        return None
    slopes = np.atleast_1d(activation[1]).astype(computed_in(dtype)).astype(np.float64)
    return slopes[:, np.newaxis, np.newaxis] if layout == "NCHW" else slopes


def curve(name: str, y: np.ndarray, finite: np.ndarray) -> np.ndarray:
    """Apply an activation without parameters; `finite` is y without minus infinity."""
    if name == "hardswish":
        return finite * (np.clip(finite + 3, 0, 6) / 6)
    if name == "gelu":
        return np.maximum(finite, -100) * _erfc(-finite / math.sqrt(2)) / 2
    e = np.exp(-np.abs(finite))
    if name == "softplus":
        return np.maximum(y, 0) + np.log1p(e)
    if name == "mish":
        return finite * np.tanh(np.maximum(y, 0) + np.log1p(e))
    sigmoid = np.where(y < 0, e, 1) / (1 + e)
    return sigmoid if name == "sigmoid" else finite * sigmoid


def activate(y: np.ndarray, activation: Any, dtype: np.dtype, layout: str = "NCHW") -> np.ndarray:
    """Apply ``activation``; its numbers are rounded to the element type, NaN stays NaN."""
    if activation is None:
        return y
    slopes = slopes_of(activation, dtype, layout)
    with np.errstate(all="ignore"):
        if slopes is not None:
            return np.where(y < 0, np.where(slopes == 0, 0, slopes * y), y)
        if isinstance(activation, str) and activation in STRETCH:
            # Minus infinity times zero would be NaN: a large negative number replaces it.
            finite = np.where(np.isneginf(y), -1e300, y)
            return curve(activation, y, finite)
    if activation == "relu":
        return np.where(y < 0, 0.0, y)
    low, high = (0, 6) if activation == "relu6" else activation[1:]
    dtype = computed_in(dtype)
    low, high = float(dtype.type(low)), float(dtype.type(high))
    return np.where(y < low, low, np.where(y > high, high, y))


def _sum_of_taps(x, w, stride, pads, dilation, groups):
    """Convolve (N,C,H,W) with OIHW in float64: one matrix product for each group and each tap."""
    n, _, h, width = x.shape
    oc, icg, kh, kw = w.shape
    ocg = oc // groups
    (top, bottom), (left, right) = pads
    padded = np.zeros((n, x.shape[1], h + top + bottom, width + left + right))
    padded[:, :, top : top + h, left : left + width] = x
    inside = np.zeros(padded.shape[2:], bool)
    inside[top : top + h, left : left + width] = True
    oh = output_size(h, pads[0], kh, stride[0], dilation[0])
    ow = output_size(width, pads[1], kw, stride[1], dilation[1])
    y = np.zeros((n, groups, ocg, oh * ow))
    # Contiguous for each tap: NumPy multiplies strided matrices without BLAS.
    taps = np.ascontiguousarray(w.transpose(2, 3, 0, 1)).reshape(kh, kw, groups, ocg, icg)
    for i in range(kh):
        for j in range(kw):
            first_row, first_column = i * dilation[0], j * dilation[1]
            rows = slice(first_row, first_row + (oh - 1) * stride[0] + 1, stride[0])
            columns = slice(first_column, first_column + (ow - 1) * stride[1] + 1, stride[1])
            seen = padded[:, :, rows, columns].reshape(n, groups, icg, oh * ow)
            # Left out, not multiplied by zero: the weight may be infinite.
            y += np.where(inside[rows, columns].reshape(-1), taps[i, j] @ seen, 0)
    return y.reshape(n, oc, oh, ow)


def _in_nchw(array: np.ndarray, layout: str) -> np.ndarray:
    batched = array if array.ndim == 4 else array[np.newaxis]
    return batched if layout == "NCHW" else batched.transpose(0, 3, 1, 2)


def _in_layout(y: np.ndarray, layout: str, ndim: int) -> np.ndarray:
    y = y if layout == "NCHW" else y.transpose(0, 2, 3, 1)
    return y if ndim == 4 else y[0]


def _evaluate(input, weight, bias, stride, padding, dilation, groups, residual, layout):
    """Give the sum before the activation, in the layout of the input."""
    x = _in_nchw(np.asarray(input), layout).astype(np.float64)
    w = np.asarray(weight).astype(np.float64)
    stride, dilation = pair(stride), pair(dilation)
    pads = explicit_padding(padding, x.shape[2:], w.shape[2:], stride, dilation)
    with np.errstate(all="ignore"):
        y = _sum_of_taps(x, w, stride, pads, dilation, groups)
        if bias is not None:
            y += np.asarray(bias).astype(np.float64)[:, np.newaxis, np.newaxis]
        if residual is not None:
            y += _in_nchw(np.asarray(residual), layout).astype(np.float64)
    return _in_layout(y, layout, np.ndim(input))


def conv2d_reference(
    input,
    weight,
    bias=None,
    stride=1,
    padding=0,
    dilation=1,
    groups=1,
    *,
    activation=None,
    residual=None,
    layout="NCHW",
) -> np.ndarray:
    """Give the convolution in float64; arguments as in ``pplconv.conv2d``."""
    y = _evaluate(input, weight, bias, stride, padding, dilation, groups, residual, layout)
    return activate(y, activation, np.asarray(input).dtype, layout)


def largest_mixed(
    input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, *, residual=None,
    layout="NCHW",
) -> float:  # fmt: skip
    """Give the largest finite sum of magnitudes, with padding that repeats the edge of the image.

    A method that mixes pixels states its error relative to this sum.
    """
    x = _magnitude(_in_nchw(np.asarray(input), layout))
    if not x.size:
        return 0.0
    pads = explicit_padding(
        padding, x.shape[2:], np.shape(weight)[2:], pair(stride), pair(dilation)
    )
    x = np.pad(x, ((0, 0), (0, 0), *pads), mode="edge")
    y = _evaluate(
        x, _magnitude(weight), _magnitude(bias), stride, 0, dilation, groups, None, "NCHW"
    )
    if residual is not None:
        y += _in_nchw(_magnitude(residual), layout)
    return float(np.max(y, initial=0, where=np.isfinite(y)))


def _magnitude(array):
    return None if array is None else np.abs(np.asarray(array).astype(np.float64))


def error_bound(
    input,
    weight,
    bias=None,
    stride=1,
    padding=0,
    dilation=1,
    groups=1,
    *,
    residual=None,
    layout="NCHW",
    stated=0.0,
) -> np.ndarray:
    """Give the largest distance from the reference that rounding explains, for each element.

    ``stated`` is the error bound that a method states if it is no direct sum, else 0.
    """
    terms = int(np.prod(np.shape(weight)[1:])) + 4
    magnitudes = _evaluate(
        _magnitude(input),
        _magnitude(weight),
        _magnitude(bias),
        stride,
        padding,
        dilation,
        groups,
        _magnitude(residual),
        layout,
    )
    mixed = 0.0
    if stated:
        mixed = largest_mixed(
            input, weight, bias, stride, padding, dilation, groups, residual=residual, layout=layout
        )
    return rounding_bound(magnitudes, terms, np.asarray(input).dtype, stated, mixed)


def rounding_bound(
    magnitudes: np.ndarray, terms: int, dtype: np.dtype, stated: float = 0.0, mixed: float = 0.0
) -> np.ndarray:
    """Give the bound of sums from the sums of their terms' magnitudes, with K + 4 `terms` each.

    ``mixed`` is the result of `largest_mixed`, for a method that mixes pixels.
    """
    info = np.finfo(computed_in(dtype))
    growth = sum(terms * u / (1 - terms * u) for u in (float(info.eps) / 2, _UNIT_ROUNDOFF_64))
    with np.errstate(all="ignore"):
        bound = growth * magnitudes + terms * float(info.tiny)
        if not stated:
            return bound
        # Infinite and NaN outputs are direct sums; they do not change the largest magnitude.
        largest = np.max(magnitudes, initial=0, where=np.isfinite(magnitudes))
        return bound + stated * max(largest, mixed)


def activated_bound(bound, expected, activation, dtype, layout="NCHW") -> np.ndarray:
    """Give the bound after the activation, from the one before it."""
    slopes = slopes_of(activation, dtype, layout)
    if slopes is not None:
        bound = bound * np.maximum(1, np.abs(slopes))
    elif isinstance(activation, str) and activation in STRETCH:
        bound = bound * STRETCH[activation]
    else:
        return bound
    info = np.finfo(computed_in(dtype))
    allowed = ACTIVATION_ERROR * float(info.eps) + 8 * _UNIT_ROUNDOFF_64
    least = GELU_END if activation == "gelu" else float(info.tiny)
    return bound + allowed * np.maximum(np.abs(expected), least)


def assert_convolution(
    actual, input, weight, bias=None, *, activation=None, stated=0.0, **parameters
):
    """Assert that ``actual`` is the convolution of these arguments.

    Finite elements must lie within the error bound. NaN and the infinities must be exactly
    where the reference, rounded to the element type, has them. Shape and type are checked too.
    ``stated`` is as in `error_bound`.
    """
    expected = conv2d_reference(input, weight, bias, activation=activation, **parameters)
    with np.errstate(all="ignore"):
        bound = error_bound(input, weight, bias, stated=stated, **parameters)
    layout = parameters.get("layout", "NCHW")
    dtype = np.asarray(input).dtype.newbyteorder("=")
    assert_within(actual, expected, bound, dtype, activation, layout)


def assert_within(actual, expected, bound, dtype, activation=None, layout="NCHW"):
    """Assert that ``actual`` of `dtype` is ``expected`` within a bound of the sums.

    The bound grows by the activation and by the rounding to the element type.
    """
    assert type(actual) is np.ndarray
    assert actual.dtype == dtype
    assert actual.shape == expected.shape
    with np.errstate(over="ignore"):
        rounded = expected.astype(dtype)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(rounded), "NaN elsewhere")
    np.testing.assert_array_equal(np.isposinf(actual), np.isposinf(rounded), "+inf elsewhere")
    np.testing.assert_array_equal(np.isneginf(actual), np.isneginf(rounded), "-inf elsewhere")
    finite = np.isfinite(rounded)
    with np.errstate(all="ignore"):
        bound = activated_bound(bound, expected, activation, dtype, layout)
        bound = stored_bound(bound, expected, dtype)[finite]
    error = np.abs(actual[finite].astype(np.float64) - expected[finite])
    if not np.all(error <= bound):
        worst = int(np.argmax(error - bound))
        where = tuple(int(axis[worst]) for axis in np.nonzero(finite))
        raise AssertionError(
            f"{np.count_nonzero(error > bound)} of {actual.size} elements are too far off; worst "
            f"at {where}: got {actual[where]!r}, expected {expected[where]!r}, error "
            f"{error[worst]:.3g} where {bound[worst]:.3g} is allowed"
        )

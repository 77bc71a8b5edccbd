"""Quantized convolution in plain NumPy, step by step as docs/quantization.md defines it.

Sums are int64, one kernel tap after the other. The steps after the sums are float32, one rounding
a line. No code is shared with the package under test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.reference import explicit_padding, output_size, pair

F32 = np.float32
RANGES = {"uint8": (0, 255), "int8": (-128, 127)}


def integer_sums(
    x,
    w,
    x_zero=0,
    w_zero=0,
    *,
    stride=1,
    padding=0,
    dilation=1,
    groups=1,
    layout="NCHW",
) -> np.ndarray:
    """Give the sums of (x - x_zero) * (w - w_zero) as int64, in the layout of x."""
    images = x if x.ndim == 4 else x[np.newaxis]
    images = images if layout == "NCHW" else images.transpose(0, 3, 1, 2)
    images = images.astype(np.int64) - int(x_zero)
    weights = w.astype(np.int64) - np.asarray(w_zero, np.int64).reshape(-1, 1, 1, 1)
    (sh, sw), (dh, dw) = pair(stride), pair(dilation)
    n, _, height, width = images.shape
    oc, icg, kh, kw = weights.shape
    pads = explicit_padding(padding, (height, width), (kh, kw), (sh, sw), (dh, dw))
    # Padding is the real number zero. The zero point is subtracted already, so pad with 0.
    padded = np.pad(images, ((0, 0), (0, 0), *pads))
    oh = output_size(height, pads[0], kh, sh, dh)
    ow = output_size(width, pads[1], kw, sw, dw)
    padded = padded.reshape(n, groups, icg, *padded.shape[2:])
    weights = weights.reshape(groups, oc // groups, icg, kh, kw)
    y = np.zeros((n, groups, oc // groups, oh, ow), np.int64)
    for i in range(kh):
        for j in range(kw):
            rows = slice(i * dh, i * dh + (oh - 1) * sh + 1, sh)
            columns = slice(j * dw, j * dw + (ow - 1) * sw + 1, sw)
            seen = padded[:, :, :, rows, columns].reshape(n, groups, icg, oh * ow)
            y += np.matmul(weights[..., i, j], seen).reshape(y.shape)
    y = y.reshape(n, oc, oh, ow)
    y = y if layout == "NCHW" else y.transpose(0, 2, 3, 1)
    return y if x.ndim == 4 else y[0]


def float_bias(bias, x_scale, w_scale) -> np.ndarray:
    """Give a float32 bias in units of x_scale * w_scale, rounded once to an integer."""
    units = np.float64(F32(x_scale)) * np.asarray(w_scale, F32).astype(np.float64)
    return np.rint(bias.astype(np.float64) / units).astype(np.int64)


def multiplier(x_scale, w_scale, y_scale=1.0) -> np.ndarray:
    """Give the float32 multiplier of the sums: x_scale * w_scale / y_scale, rounded once."""
    x, y = np.asarray(x_scale, F32).astype(np.float64), np.asarray(y_scale, F32).astype(np.float64)
    return (x * np.asarray(w_scale, F32).astype(np.float64) / y).astype(F32)


@dataclass(frozen=True)
class Output:
    """Settings of the step from sums to outputs.

    ``multiplier``, ``zero`` and ``y_scale`` have shapes that broadcast. ``residual`` is added
    without a scale if outputs are float32.
    """

    dtype: str
    multiplier: Any = None
    zero: Any = 0
    y_scale: Any = 1.0
    activation: Any = None
    residual: Any = None
    residual_scale: Any = None
    residual_zero: int = 0


def outputs(sums: np.ndarray, o: Output) -> np.ndarray:
    """Follow the contract from exact sums, bias included, to outputs."""
    assert sums.size == 0 or np.abs(sums).max() < 2**31
    sums = sums.astype(np.int32)
    if o.dtype == "int32":
        return sums
    real = sums.astype(F32)  # to nearest, ties to even: sums beyond 2**24 lose digits
    real = real * np.asarray(o.multiplier, F32)
    if o.residual is not None:
        real = real + _residual(o)
    low, high = _bounds(o)
    real = np.minimum(np.maximum(real, low), high)
    assert real.dtype == F32
    if o.dtype == "float32":
        return real
    rounded = np.rint(real).astype(np.int64)  # ties to even, before the zero point
    return np.clip(rounded + o.zero, *RANGES[o.dtype]).astype(o.dtype)


def _residual(o: Output) -> np.ndarray:
    if o.dtype == "float32":
        return o.residual
    ratio = F32(np.float64(F32(o.residual_scale)) / np.float64(F32(o.y_scale)))
    return (o.residual.astype(np.int32) - o.residual_zero).astype(F32) * ratio


def _bounds(o: Output) -> tuple[Any, Any]:
    """Clamp bounds in units of the output, within the type's range so that rint cannot overflow."""
    low, high = {None: (-np.inf, np.inf), "relu": (0, np.inf), "relu6": (0, 6)}.get(
        o.activation if not isinstance(o.activation, tuple) else "", (0, 0)
    )
    if isinstance(o.activation, tuple):
        low, high = o.activation[1:]
    scale = np.asarray(o.y_scale, F32).astype(np.float64)
    bounds = [bound / scale for bound in (low, high)]
    if o.dtype in RANGES:
        least, most = RANGES[o.dtype]
        bounds = [np.clip(bound, least - o.zero, most - o.zero) for bound in bounds]
    return bounds[0].astype(F32), bounds[1].astype(F32)

"""From sums of quantized operators to outputs: multipliers, clamp, residual, zero point."""

from __future__ import annotations

import math

import numpy as np

from ..._records import record
from ...arguments.activation import Activation, activation_of, activation_text
from .quantization import RANGES, Array

LEAST, MOST = np.float32(-math.inf), np.float32(math.inf)
# Smaller numbers are subnormal in float32, and kernels flush them to zero.
SMALLEST = float(np.finfo(np.float32).tiny)


@record(frozen=True)
class Output:
    """The way from int32 sums to outputs, in the terms of kernels.

    A sum s becomes ``saturate(rint(clamp(s * multiplier + residual)) + zero)``; each operation in
    float32 is rounded separately. Outputs of ``"s32"`` are s, those of ``"f32"`` are
    ``clamp(s * multiplier + residual)``.

    Parameters
    ----------
    dtype : {"u8", "s8", "s32", "f32"}
        Of outputs.
    multiplier : ndarray of float32, optional
        Result of `multipliers`; None for ``"s32"``.
    zero : int
        Zero point.
    low, high : float32
        Of the clamp, in units of the output's scale.
    residual_scale : float32, optional
        Residuals r stand for ``(r - residual_zero) * residual_scale``. None: no residuals, except
        for ``"f32"``, where r stands for itself.
    residual_zero : int
        Zero point of residuals.
    """

    dtype: str
    multiplier: Array | None = None
    zero: int = 0
    low: np.float32 = LEAST
    high: np.float32 = MOST
    residual_scale: np.float32 | None = None
    residual_zero: int = 0


def multipliers(x_scale: Array, w_scale: Array, y_scale: Array | None) -> Array:
    """Return ``x_scale * w_scale / y_scale``, computed in float64 and rounded once to float32.

    Raises
    ------
    ValueError
        If it is no normal number of float32.
    """
    exact = x_scale.astype(np.float64) * w_scale.astype(np.float64)
    if y_scale is not None:
        exact = exact / y_scale.astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        found = exact.astype(np.float32)
    wrong = ~(np.isfinite(found) & (found >= SMALLEST))
    if wrong.any():
        number = np.atleast_1d(exact)[np.atleast_1d(wrong)][0]
        ratio = "x_scale * w_scale" + ("" if y_scale is None else " / y_scale")
        raise ValueError(f"w_scale: {ratio} must be a normal number of float32, got {number:.6g}")
    return np.asarray(found)


def residual_multiplier(residual_scale: np.float32, y_scale: np.float32) -> np.float32:
    """Return ``residual_scale / y_scale``, computed in float64 and rounded once to float32.

    Raises
    ------
    ValueError
        If it is no normal number of float32.
    """
    exact = float(residual_scale) / float(y_scale)
    if not SMALLEST <= exact <= float(np.finfo(np.float32).max):
        raise ValueError(
            "residual_scale: residual_scale / y_scale must be a normal number of float32, "
            f"got {exact:.6g}"
        )
    return np.float32(exact)


def refuse_curve(found: Activation, activation: object) -> None:
    """Refuse activations other than clamps.

    Parameters
    ----------
    found : Activation
        The parsed activation.
    activation : object
        The argument.

    Raises
    ------
    ValueError
        If it is one.
    """
    if found.kind not in ("none", "clip"):
        raise ValueError(
            'activation of quantized operators must be None, "relu", "relu6" or ("clip", low, '
            f"high), got {activation_text(activation)}"
        )


def clamp(
    activation: object, channels: int, y_scale: Array | None, kind: str, zero: Array
) -> tuple[Array, Array]:
    """Return the bounds of outputs in units of `y_scale`, before the zero point is added.

    Parameters
    ----------
    activation : object
        None, ``"relu"``, ``"relu6"`` or ``("clip", low, high)``, in real units.
    channels : int
        Output channels.
    y_scale : ndarray of float32, optional
        None: bounds are in real units.
    kind : {"u8", "s8", "s32", "f32"}
        Type of outputs, whose range the bounds keep to if it is a quantized one.
    zero : ndarray of int64
        Zero points of outputs.

    Returns
    -------
    low, high : ndarray of float32
        Of the shape of `y_scale` and `zero`.

    Raises
    ------
    TypeError, ValueError
        If `activation` is anything else.
    """
    found = activation_of(activation, channels)
    refuse_curve(found, activation)
    if found.kind == "clip" and kind == "s32":
        raise ValueError(
            f"activation must be None for int32 outputs, got {activation_text(activation)}"
        )
    limits = []
    for bound in found.bounds or (-math.inf, math.inf):
        with np.errstate(over="ignore", under="ignore"):
            limit = np.asarray(bound / (1.0 if y_scale is None else y_scale.astype(np.float64)))
            if kind in RANGES:
                first, last = RANGES[kind]
                limit = np.clip(limit, first - zero, last - zero)
            limits.append(limit.astype(np.float32))
    return limits[0], limits[1]

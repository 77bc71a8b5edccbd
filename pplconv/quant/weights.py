"""Weights as integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._checks import flag, integer
from .numbers import Array, quantize, real
from .ranges import scale_of

# Least scale, for weights that are almost zero: its products with other scales are normal numbers.
_LEAST_SCALE = 2.0**-100


def weights_beside(
    w: Any, bias: Array | None, x_scale: float, most: int, *, per_channel: bool = True,
    symmetric: bool = True, axis: int = 0,
) -> tuple[Array, Any, Any]:  # fmt: skip
    """Quantize weights to int8 with scales in which the bias fits its integers.

    A channel whose weights are zero, or tiny compared with its bias, gets another scale.

    Parameters
    ----------
    w, per_channel, symmetric, axis : optional
        As of `quantize_weights`.
    bias : ndarray or None
        One number for each output channel.
    x_scale : float
        Scale of inputs; its product with a channel's scale is the unit of a bias.
    most : int
        Most units that a bias may be.

    Returns
    -------
    q, scale, zero_point
        As of `quantize_weights`.
    """
    q, scale, zero = quantize_weights(w, per_channel, symmetric, axis=axis)
    beside = np.zeros(q.shape[axis]) if bias is None else np.abs(bias.astype(np.float64))
    others = tuple(d for d in range(q.ndim) if d != axis % q.ndim)
    along = np.expand_dims(zero, others) if per_channel else zero
    empty = (q == along).all(others)
    if not per_channel:
        beside, empty = beside.max(), empty.all()
    least = np.maximum(beside / (most * float(x_scale)), _LEAST_SCALE)
    chosen = np.where(empty & (beside > 0), least, np.maximum(scale, least)).astype(np.float32)
    if np.array_equal(chosen, scale):
        return q, scale, zero
    q = quantize(w, chosen, zero, axis=axis if per_channel else None, dtype=np.int8)
    return q, chosen[()], zero


def quantize_weights(
    w: Any, per_channel: bool = True, symmetric: bool = True, *, axis: int = 0, dtype: Any = np.int8
) -> tuple[Array, Any, Any]:
    """Quantize weights, and find their scales.

    Parameters
    ----------
    w : array_like
        Real, finite numbers. The first dimension is that of output channels, as in `Conv2d`.
    per_channel : bool, optional
        Whether each output channel gets a scale of its own, which costs no time in calls.
    symmetric : bool, optional
        Whether zero points are 0 (128 for uint8), and the integers -127 to 127: the largest
        magnitude gives the scale. Otherwise the range from the smallest to the largest weight does,
        zero included.
    axis : int, optional
        Dimension of output channels; the last for the right operand of `qmatmul`.
    dtype : {int8, uint8}, optional
        Of the integers.

    Returns
    -------
    q : ndarray of `dtype`
        Of the shape of `w`.
    scale : float32, or ndarray of float32
        One, or with `per_channel` one for each output channel.
    zero_point : `dtype`, or ndarray of `dtype`
        Likewise.

    Raises
    ------
    TypeError, ValueError
        If `w` holds no real, finite numbers, or another argument is not as described.

    See Also
    --------
    observe : the same for activations, from samples.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> w = np.array([[1.0, -2.0], [0.5, 0.25]])
    >>> q, scale, zero_point = pplconv.quant.quantize_weights(w)
    >>> q
    array([[  64, -127],
           [ 127,   64]], dtype=int8)
    >>> scale * 127
    array([2. , 0.5], dtype=float32)
    """
    per_channel, symmetric = flag("per_channel", per_channel), flag("symmetric", symmetric)
    array = real("w", w)
    if array.ndim == 0 or array.size == 0:
        raise ValueError(f"w must have elements and a dimension, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError("w must be finite, got NaN or an infinity")
    at = integer("axis", axis, -array.ndim, array.ndim - 1) % array.ndim
    exact = array.astype(np.float64)
    others = tuple(i for i in range(array.ndim) if i != at) if per_channel else None
    scale, zero = scale_of(exact.min(others), exact.max(others), dtype, symmetric=symmetric)
    q = quantize(array, scale, zero, axis=at if per_channel else None, dtype=dtype)
    if symmetric:
        # Division may round the largest magnitude up.
        middle = int(np.asarray(zero).reshape(-1)[0])
        q = np.maximum(q, middle - 127)
    return (q, scale, zero) if per_channel else (q, scale[()], zero[()])

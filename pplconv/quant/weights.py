"""Weights as integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._checks import integer
from .numbers import Array, quantize, real
from .ranges import scale_of


def quantize_weights(
    w: Any, per_channel: bool = True, symmetric: bool = True, *, axis: int = 0, dtype: Any = np.int8
) -> tuple[Array, Any, Any]:
    """Make integers of weights, and find their scales.

    Parameters
    ----------
    w : array_like
        Real, finite numbers. The first dimension is that of output channels, as in `Conv2d`.
    per_channel : bool, optional
        Whether each output channel gets a scale of its own, which costs nothing when it is run.
    symmetric : bool, optional
        Whether zero points are 0 (128 for uint8), and the integers -127 to 127: the largest
        magnitude decides. Otherwise the range from the smallest to the largest weight does, with
        zero in it.
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
        # Division may round up the last digit of the largest magnitude.
        middle = int(np.asarray(zero).reshape(-1)[0])
        q = np.maximum(q, middle - 127)
    return (q, scale, zero) if per_channel else (q, scale[()], zero[()])

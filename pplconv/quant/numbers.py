"""Numbers to eight-bit integers and back, and the error of that."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._checks import integer
from ..memory.array_like import array_of, numbers_of, renewed
from .ranges import range_of

Array = np.ndarray[Any, Any]

RANGED = (np.dtype(np.uint8), np.dtype(np.int8))


def quantize(
    x: Any, scale: Any, zero_point: Any = 0, *, axis: int | None = None, dtype: Any = None
) -> Array:
    """Quantize numbers: ONNX's QuantizeLinear.

    ``saturate(rint(x / scale) + zero_point)``, ties to even; the division is in float32.

    Parameters
    ----------
    x : array_like
        Real numbers. Infinities become the largest integers.
    scale : float or array_like
        One, or one for each element along `axis`.
    zero_point : int or array_like, optional
        One, or as many as there are scales.
    axis : int, optional
        Axis along which scales differ; needed if there is more than one.
    dtype : {uint8, int8}, optional
        None: the type of `zero_point` if it is NumPy's, else uint8.

    Returns
    -------
    ndarray
        Of the shape of `x`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described, or `x` is NaN somewhere.

    See Also
    --------
    observe, quantize_weights : find scales.

    References
    ----------
    .. [1] https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> pplconv.quant.quantize([-1.0, 0.25, 0.75, 100.0], 0.5, 10)
    array([  8,  10,  12, 210], dtype=uint8)
    """
    with np.errstate(over="ignore", under="ignore"):
        numbers = real("x", x).astype(np.float32)
    if np.isnan(numbers).any():
        raise ValueError("x must not be NaN")
    if dtype is None:
        own = getattr(zero_point, "dtype", None)
        dtype = own if own in RANGED else np.uint8
    low, high = range_of(dtype)
    scales, zeros = _spread("x", numbers.shape, scale, zero_point, axis, dtype)
    with np.errstate(over="ignore", under="ignore"):
        # Beyond these bounds numbers saturate with any zero point.
        rounded = np.rint(np.clip(numbers / scales, np.float32(-1024), np.float32(1024)))
    return np.clip(rounded.astype(np.int32) + zeros, low, high).astype(dtype)


def dequantize(q: Any, scale: Any, zero_point: Any = 0, *, axis: int | None = None) -> Array:
    """Dequantize integers to the numbers that they stand for: ONNX's DequantizeLinear.

    Parameters
    ----------
    q : array_like
        uint8, int8 or int32.
    scale, zero_point, axis : optional
        As in `quantize`.

    Returns
    -------
    ndarray of float32
        ``(q - zero_point) * scale``, of the shape of `q`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described.

    References
    ----------
    .. [1] https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> pplconv.quant.dequantize(np.array([8, 10, 12], np.uint8), 0.5, 10)
    array([-1.,  0.,  1.], dtype=float32)
    """
    array = array_of(q, "q")
    if array.dtype not in (*RANGED, np.dtype(np.int32)):
        raise TypeError(f"q must be uint8, int8 or int32, got dtype {array.dtype}")
    scales, zeros = _spread("q", array.shape, scale, zero_point, axis, np.int32)
    moved = renewed(q, array).astype(np.int64) - zeros
    return np.asarray(moved.astype(np.float32) * scales)


def signal_to_noise(exact: Any, approximation: Any) -> float:
    """Return the signal-to-noise ratio of an approximation.

    Parameters
    ----------
    exact, approximation : array_like
        Real numbers, of one shape.

    Returns
    -------
    float
        ``10 log10(sum exact**2 / sum (exact - approximation)**2)`` in dB; infinite where there
        is no noise.

    Raises
    ------
    TypeError, ValueError
        If they are no real numbers, or their shapes differ.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> round(pplconv.quant.signal_to_noise([1.0, 2.0, 3.0], [1.0, 2.0, 3.01]), 1)
    51.5
    """
    signal = real("exact", exact).astype(np.float64)
    noise = real("approximation", approximation).astype(np.float64)
    if signal.shape != noise.shape:
        raise ValueError(
            f"approximation must have the shape of exact, {signal.shape}, got {noise.shape}"
        )
    return decibels(float(np.square(signal).sum()), float(np.square(signal - noise).sum()))


def decibels(signal: float, noise: float) -> float:
    """Ratio of two powers in dB."""
    if noise == 0:
        return math.inf
    ratio = signal / noise
    return ratio if math.isnan(ratio) else 10 * math.log10(ratio) if ratio > 0 else -math.inf


def real(name: str, value: Any) -> Array:
    """Take real numbers as an array.

    Raises
    ------
    TypeError
        If they are not real numbers.
    """
    array = array_of(value, name)
    # Types of other packages, such as bfloat16, show that they are real only by their names.
    if array.dtype.kind != "f" and "float" not in array.dtype.name:
        raise TypeError(f"{name} must be real numbers, got dtype {array.dtype}")
    return array


def _spread(
    name: str, shape: tuple[int, ...], scale: Any, zero_point: Any, axis: int | None, kind: Any
) -> tuple[Array, Array]:
    """Return scales as float32 and zero points as int32, ready to broadcast to `shape`."""
    scales = array_of(scale, "scale")
    zeros = numbers_of(0 if zero_point is None else zero_point, "zero_point")
    if scales.dtype.kind not in "fiu":
        raise TypeError(f"scale must be a number, got dtype {scales.dtype}")
    if zeros.dtype.kind not in "iu":
        raise TypeError(f"zero_point must be an integer, got dtype {zeros.dtype}")
    limits = np.iinfo(kind)
    if zeros.size and not (limits.min <= int(zeros.min()) and int(zeros.max()) <= limits.max):
        raise ValueError(
            f"zero_point must be {limits.min} to {limits.max}, as {limits.dtype} holds"
        )
    with np.errstate(over="ignore", under="ignore"):
        scales = scales.astype(np.float32)
    if not (np.isfinite(scales) & (scales > 0)).all():
        raise ValueError(f"scale must be finite and more than 0 in float32, got {scales}")
    return (
        _along(name, shape, "scale", scales, axis),
        _along(name, shape, "zero_point", zeros.astype(np.int32), axis),
    )


def _along(name: str, shape: tuple[int, ...], what: str, values: Array, axis: int | None) -> Array:
    if values.shape in ((), (1,)):
        return values.reshape(())
    if axis is None:
        raise ValueError(f"{what} must be one number where no axis is given, got {values.shape}")
    if not shape:
        raise ValueError(f"axis must be None, as {name} has no dimensions")
    at = integer("axis", axis, -len(shape), len(shape) - 1) % len(shape)
    if values.shape != (shape[at],):
        raise ValueError(
            f"{what} must have shape ({shape[at]},), as {name} of shape {shape} has along axis "
            f"{axis}, got {values.shape}"
        )
    return values.reshape([-1 if i == at else 1 for i in range(len(shape))])

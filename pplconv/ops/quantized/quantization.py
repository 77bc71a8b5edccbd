"""Scales, zero points and biases of quantized operators: checked and converted.

A number q of a quantized array stands for ``scale * (q - zero_point)``. Scales are float32, as
ONNX stores them; numbers of another type are rounded to it first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._checks import shown
from ...memory.array_like import array_of, numbers_of

# Types of quantized arrays, by NumPy's name, and the integers that they hold.
NAMES: dict[np.dtype[Any], str] = {np.dtype(np.uint8): "u8", np.dtype(np.int8): "s8"}
RANGES = {"u8": (0, 255), "s8": (-128, 127)}
OUTPUTS: dict[np.dtype[Any], str] = {
    **NAMES,
    np.dtype(np.int32): "s32",
    np.dtype(np.float32): "f32",
}
DTYPES = {short: dtype for dtype, short in OUTPUTS.items()}
INT32 = (-(2**31), 2**31 - 1)
# Smaller numbers are subnormal in float32, and kernels flush them to zero.
SMALLEST = float(np.finfo(np.float32).tiny)

Array = np.ndarray[Any, Any]


def integer_name(array: Array, name: str) -> str:
    """Return ``"u8"`` or ``"s8"`` for an array of quantized numbers.

    Raises
    ------
    TypeError
        If it has another type.
    """
    found = NAMES.get(array.dtype)
    if found is None:
        raise TypeError(f"{name} must be uint8 or int8, got dtype {array.dtype}")
    return found


def dtype_named(name: str, value: object, allowed: dict[np.dtype[Any], str]) -> str:
    """Return the short name of the caller's type.

    Raises
    ------
    TypeError, ValueError
        If it is not a type, or not in `allowed`.
    """
    try:
        found = allowed.get(np.dtype(value))  # type: ignore[call-overload]
    except TypeError:
        raise TypeError(f"{name} must be a dtype, got {shown(value)}") from None
    if found is None:
        raise ValueError(
            f"{name} must be {_listed([str(dtype) for dtype in allowed])}, got {np.dtype(value)}"  # type: ignore[call-overload]
        )
    return found


def _listed(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def own_type(zero_point: object) -> str | None:
    """Return the zero point's own type, if it is a quantized type."""
    return NAMES.get(getattr(zero_point, "dtype", None))  # type: ignore[arg-type]


# Scales ------------------------------------------------------------------------------------------


def scales(name: str, value: object, *shapes: tuple[int, ...]) -> Array:
    """Return scales in float32.

    Parameters
    ----------
    name : str
        Of the argument.
    value : array_like
        Real numbers.
    shapes : tuple of int
        Shapes allowed besides ``()`` and ``(1,)``, which are one scale for all.

    Returns
    -------
    ndarray
        Of shape ``()`` or one of `shapes`.

    Raises
    ------
    TypeError, ValueError
        If it is missing, has another shape or type, or has invalid scales.
    """
    if value is None:
        raise TypeError(f"{name} must be given, got None")
    array = array_of(value, name)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must be a float32 number, got {_typed(array)}")
    with np.errstate(over="ignore", under="ignore"):
        found = _shaped(name, array, shapes).astype(np.float32)
    if not (np.isfinite(found) & (found > 0)).all():
        wrong = array.reshape(found.shape)[~(np.isfinite(found) & (found > 0))].reshape(-1)[0]
        raise ValueError(f"{name} must be finite and more than 0 in float32, got {wrong}")
    return found


def scale(name: str, value: object) -> np.float32:
    """Return one scale in float32.

    Raises
    ------
    TypeError, ValueError
        As `scales`.
    """
    return np.float32(scales(name, value))


def _typed(array: Array) -> str:
    return f"dtype {array.dtype}"


def _shaped(name: str, array: Array, shapes: tuple[tuple[int, ...], ...]) -> Array:
    """One number without dimensions, or an array of one of `shapes`."""
    if array.shape in ((), (1,)):
        return array.reshape(())
    if array.shape in shapes:
        return array
    allowed = " or ".join(["one number", *(f"shape {shape}" for shape in shapes)])
    raise ValueError(f"{name} must have {allowed}, got shape {array.shape}")


# Zero points -------------------------------------------------------------------------------------


def zero_points(name: str, value: object, kind: str, *shapes: tuple[int, ...]) -> Array:
    """Return zero points as int64.

    Parameters
    ----------
    name : str
        Of the argument.
    value : array_like or None
        Integers; None means 0, like an omitted input in ONNX.
    kind : {"u8", "s8"}
        Type of the quantized numbers.
    shapes : tuple of int
        As in `scales`.

    Returns
    -------
    ndarray
        Of shape ``()`` or one of `shapes`.

    Raises
    ------
    TypeError, ValueError
        If they are not integers, have the other quantized type or another shape, or are out of
        range.
    """
    if value is None:
        return np.zeros((), np.int64)
    array = numbers_of(value, name)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be an integer, got {_typed(array)}")
    wanted = DTYPES[kind]
    if NAMES.get(array.dtype, kind) != kind:
        raise TypeError(f"{name} must be {wanted} like what it belongs to, got {array.dtype}")
    found = _shaped(name, array, shapes)
    low, high = RANGES[kind]
    if found.size and not (low <= int(found.min()) and int(found.max()) <= high):
        wrong = int(found.min()) if int(found.min()) < low else int(found.max())
        raise ValueError(f"{name} must be {low} to {high}, as {wanted} holds, got {wrong}")
    return found.astype(np.int64)


def zero_point(name: str, value: object, kind: str) -> int:
    """Return one zero point.

    Raises
    ------
    TypeError, ValueError
        As `zero_points`.
    """
    return int(zero_points(name, value, kind))


def centered(weight: Array, zeros: Array) -> Array:
    """Subtract zero points from weights: int8 where all results fit, else int16."""
    if not zeros.any() and weight.dtype == np.int8:
        return weight
    moved = weight.astype(np.int16) - zeros.astype(np.int16)
    if moved.size and (moved.min() < -128 or moved.max() > 127):
        return moved
    return moved.astype(np.int8)


# Sums --------------------------------------------------------------------------------------------


def check_sums(
    name: str,
    weight: Array,
    axes: int | tuple[int, ...],
    kind: str,
    zeros: tuple[int, int],
    offset: Array,
) -> None:
    """Refuse weights with which a sum could leave int32 for some input.

    Parameters
    ----------
    name : str
        Of the weights' argument.
    weight : ndarray
        Weights without their zero points.
    axes : int or tuple of int
        Axes of the sums.
    kind : {"u8", "s8"}
        Type of inputs.
    zeros : (int, int)
        Smallest and largest zero point of inputs.
    offset : ndarray
        Added to each sum; has the shape of the sums.

    Raises
    ------
    ValueError
        If some sum could be too large.
    """
    up = np.maximum(weight, 0).sum(axes, dtype=np.int64)
    down = np.minimum(weight, 0).sum(axes, dtype=np.int64)
    low, high = RANGES[kind]
    for zero in sorted(set(zeros)):
        most = up * (high - zero) + down * (low - zero) + offset
        least = up * (low - zero) + down * (high - zero) + offset
        for bound in (most, least):
            wrong = (bound < INT32[0]) | (bound > INT32[1])
            if wrong.any():
                at = tuple(int(i) for i in np.argwhere(wrong)[0])
                channel = at[0] if len(at) == 1 else at
                raise ValueError(
                    f"{name}: the sums of output channel {channel} may reach {bound[at]}, which "
                    "int32 does not hold"
                )


def quantized_bias(bias: object, channels: int, units: Array | None) -> Array:
    """Return a bias as int32, in units of the product of the scales of input and weights.

    Parameters
    ----------
    bias : array_like, shape (channels,), or None
        int32 in these units, or float32, which is divided by them in float64 and rounded once,
        ties to even.
    channels : int
        Output channels.
    units : ndarray of float64, optional
        The units; None if scales are not known.

    Raises
    ------
    TypeError, ValueError
        If it has another type or shape, or numbers beyond int32.
    """
    if bias is None:
        return np.zeros(channels, np.int32)
    array = array_of(bias, "bias", np.dtype(np.float32))
    if array.shape != (channels,):
        raise ValueError(f"bias must have shape ({channels},), got {array.shape}")
    native = array.dtype.newbyteorder("=")
    if native == np.int32:
        return array.astype(np.int32)  # a copy, in native byte order
    if native != np.float32:
        raise TypeError(f"bias must be int32 or float32, got dtype {array.dtype}")
    if units is None:
        raise TypeError(
            "bias must be int32 unless one x_scale and w_scale hold for each channel, got float32"
        )
    with np.errstate(all="ignore"):
        rounded = np.rint(array.astype(np.float64) / units)
    wrong = ~((rounded >= INT32[0]) & (rounded <= INT32[1]))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(
            f"bias: {array[at]} of output channel {at} is {rounded[at]:.6g} in units of x_scale * "
            "w_scale, which int32 does not hold"
        )
    return rounded.astype(np.int32)

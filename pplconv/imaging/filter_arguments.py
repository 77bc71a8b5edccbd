"""Arguments of the filters: checked, named in every error."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._checks import integer, one_of, shown
from .._literals import FilterMode
from ..memory.array_like import array_of, refuse_mask
from .borders import BORDERS_AS_MODES

__all__ = [
    "FLOATS",
    "INTEGERS",
    "WIDE",
    "check_anchor",
    "check_dtype",
    "check_flag",
    "check_image",
    "check_kernel",
    "check_mode",
    "check_threads",
    "check_value",
    "pixel_limit",
]

Array = npt.NDArray[Any]

INTEGERS = tuple(map(np.dtype, ("uint8", "int8", "uint16", "int16")))
# Integers that the loops do not read: their sums are made in float64, or in two halves.
WIDE = tuple(map(np.dtype, ("int32", "int64")))
FLOATS = tuple(map(np.dtype, ("float16", "float32", "float64")))
_BOOL = np.dtype(bool)
_IMAGES = (_BOOL, *INTEGERS, *WIDE, *FLOATS)
MODES = ("same", "valid")
# Further types of results for images of integers.
_WIDER = (np.dtype("int32"), *FLOATS)
_RESULTS = {
    **dict.fromkeys(INTEGERS, (*INTEGERS, *_WIDER)),
    **dict.fromkeys(WIDE, (*INTEGERS, *WIDE, *FLOATS)),
    _BOOL: (_BOOL, *INTEGERS, *_WIDER),
}
_MOST_THREADS = 65536


def _names(types: tuple[np.dtype[Any], ...]) -> str:
    names = [each.name for each in types]
    return f"{', '.join(names[:-1])} or {names[-1]}"


def check_image(image: object) -> Array:
    """Return an image as an array (H, W) or (H, W, C) of a type that filters take."""
    array = array_of(image, "image")
    refuse_mask(array, "image")
    if array.dtype.newbyteorder("=") not in _IMAGES:
        raise TypeError(f"image must be {_names(_IMAGES)}, got {array.dtype}")
    if array.ndim not in (2, 3):
        raise ValueError(f"image must have shape (H, W) or (H, W, C), got {array.shape}")
    if not array.size:
        raise ValueError(f"image must not be empty, got shape {array.shape}")
    return array


def check_kernel(kernel: object, name: str, dimensions: tuple[int, ...], *, finite: bool) -> Array:
    """Return a kernel as an array of float64, which has its exact values.

    Parameters
    ----------
    kernel : array_like
        The argument.
    name : str
        Of the argument.
    dimensions : tuple of int
        How many it may have.
    finite : bool
        Whether infinities and NaN are refused.
    """
    array = array_of(kernel, name)
    refuse_mask(array, name)
    if array.dtype.kind not in "buif" or array.dtype.itemsize > 8:
        raise TypeError(f"{name} must be of integers, or float64 at most, got {array.dtype}")
    if array.ndim not in dimensions:
        wanted = " or ".join(map(str, dimensions))
        raise ValueError(f"{name} must have {wanted} dimensions, got shape {array.shape}")
    if not array.size:
        raise ValueError(f"{name} must not be empty, got shape {array.shape}")
    numbers = array.astype(np.float64)
    if array.dtype.kind in "ui" and array.dtype.itemsize == 8 and abs(numbers).max() >= 2.0**53:
        raise ValueError(f"{name} has integers of 2**53 or more, which float64 may not hold")
    if finite and not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be finite for images of integers, got {shown(kernel)}")
    return numbers


def check_anchor(anchor: object, extent: tuple[int, int], *, flip: bool) -> tuple[int, int]:
    """Return how many taps are (above, left of) the tap that lies on the pixel itself.

    `anchor` is OpenCV's (x, y), where -1 is the centre; None is (-1, -1).
    """
    complaint = f"anchor must be a pair of ints (x, y), got {shown(anchor)}"
    try:
        given = (-1, -1) if anchor is None else tuple(anchor)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(complaint) from None
    if len(given) != 2:
        raise ValueError(complaint)
    found = []
    for value, size in zip(reversed(given), extent, strict=True):
        at = integer("anchor", value, complaint=complaint)
        if not -1 <= at < size:
            raise ValueError(
                f"anchor must be within the kernel, of {extent[1]} columns and {extent[0]} rows, "
                f"or -1, got {shown(anchor)}"
            )
        at = size // 2 if at == -1 else at
        found.append(size - 1 - at if flip else at)
    return found[0], found[1]


def check_dtype(dtype: object, image: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of the result."""
    native = image.newbyteorder("=")
    if dtype is None:
        return native
    allowed = _RESULTS.get(native, FLOATS)
    try:
        found = np.dtype(dtype)  # type: ignore[call-overload]
    except (SyntaxError, TypeError, ValueError):  # texts are parsed
        raise TypeError(f"dtype must be a type of NumPy, got {shown(dtype)}") from None
    if found not in allowed:
        raise TypeError(f"dtype must be {_names(allowed)} for images of {native}, got {found}")
    return found  # type: ignore[no-any-return]


def check_value(value: object, dtype: np.dtype[Any]) -> float:
    """Return the constant of a border, which must be a pixel of the image's type."""
    if dtype == _BOOL:
        whole = isinstance(value, (bool, np.bool_, float)) and value in (0, 1)
        return float(integer("value", int(value) if whole else value, 0, 1))  # type: ignore[call-overload]
    if dtype.newbyteorder("=") in (*INTEGERS, *WIDE):
        limits = np.iinfo(dtype)
        # Values are kept in float64, which holds no more integers.
        least, most = max(int(limits.min), -(1 << 53)), min(int(limits.max), 1 << 53)
        number = value
        if isinstance(value, float) and value.is_integer():
            number = int(value)
        return float(integer("value", number, least, most))
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TypeError(f"value must be a number, got {shown(value)}") from None


def check_mode(mode: object) -> FilterMode:
    """Return ``mode=``: results for all pixels, or for windows inside of the image."""
    return "valid" if one_of("mode", mode, MODES, others=BORDERS_AS_MODES) == "valid" else "same"


def check_flag(name: str, value: object) -> bool:
    """Return a flag."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def check_threads(threads: object) -> int | None:
    """Return ``threads=`` as an int of at least 1, or None."""
    return None if threads is None else integer("threads", threads, 1, _MOST_THREADS)


def pixel_limit(dtype: np.dtype[Any]) -> int:
    """Magnitude of the largest pixel of a type of integers."""
    limits = np.iinfo(dtype)
    return max(abs(int(limits.min)), int(limits.max))

"""`correlate2d` and `convolve2d`, with the arguments of ``scipy.signal``."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .. import planner
from .._checks import one_of, shown
from .._literals import SignalBoundary, SignalMode
from ..arguments.argument_names import renamed
from ..memory.array_like import numbers_of, refuse_mask, renewed
from ..memory.arrays import empty_aligned
from ..memory.namespaces import as_given
from .bands import Region, Store, prepared
from .filter_arguments import pixel_limit
from .kept_filters import keeping
from .noted import Noted, is_noting, note, refuse_note
from .operators import Bank

__all__ = ["convolve2d", "correlate2d"]

Array = npt.NDArray[Any]

MODES = ("full", "valid", "same")
BOUNDARIES = {"fill": "constant", "wrap": "wrap", "symm": "reflect"}
# Integers up to here are exact in float32 and float64.
_EXACT = {"float32": 2**24, "float64": 2**53}


@keeping("in2")
def correlate2d(
    in1: npt.ArrayLike,
    in2: npt.ArrayLike,
    mode: SignalMode = "full",
    boundary: SignalBoundary = "fill",
    fillvalue: float = 0,
) -> Array:
    """Correlate two arrays, as ``scipy.signal.correlate2d``.

    Parameters
    ----------
    in1, in2 : array_like, shape (H, W) and (kh, kw)
        Integers of any width, float16, float32 or float64; complex numbers are refused.
    mode : {"full", "valid", "same"}, optional
        All outputs that see an element of `in1`; those that see no border; or as many as `in1` has,
        around the centre of all. With ``"valid"`` one array must be as large as the other or
        larger in both dimensions, and may be the second.
    boundary : {"fill", "wrap", "symm"}, optional
        Values around `in1`: `fillvalue`, its other side, or its mirror image with the edge
        twice.
    fillvalue : number, optional
        For ``boundary="fill"``.

    Returns
    -------
    ndarray
        Of the type that NumPy gives to ``in1 * in2``; where `in1` is of another library (a tensor,
        or an array of the array API), an array of that library.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described, or sums of integers may exceed 2**53; the message names
        the argument.

    See Also
    --------
    filter2d : for images, with rounding, saturation and more borders.

    Notes
    -----
    Sums of integers are exact; what the result's type does not hold wraps around, as in SciPy.
    Floating point is summed up directly.

    Examples
    --------
    >>> import numpy as np
    >>> from pplconv.imaging import correlate2d
    >>> correlate2d(np.arange(9).reshape(3, 3), [[0, 1], [2, 3]], mode="valid")
    array([[19, 25],
           [37, 43]])
    """
    return _computed(in1, in2, mode, boundary, fillvalue, flip=False)


@keeping("in2")
def convolve2d(
    in1: npt.ArrayLike,
    in2: npt.ArrayLike,
    mode: SignalMode = "full",
    boundary: SignalBoundary = "fill",
    fillvalue: float = 0,
) -> Array:
    """Convolve two arrays, as ``scipy.signal.convolve2d``: `in2` is turned by 180 degrees.

    Parameters
    ----------
    in1, in2, mode, boundary, fillvalue
        As in `correlate2d`.

    Returns
    -------
    ndarray
        Of type and library as in `correlate2d`.

    Raises
    ------
    TypeError, ValueError
        As in `correlate2d`.

    Examples
    --------
    >>> from pplconv.imaging import convolve2d
    >>> convolve2d([[1, 2, 3]], [[1, 1]])
    array([[1, 3, 5, 3]])
    """
    return _computed(in1, in2, mode, boundary, fillvalue, flip=True)


def _array(value: object, name: str) -> Array:
    array = numbers_of(value, name)
    refuse_mask(array, name)
    if array.dtype.kind not in "uif" or array.dtype.itemsize > 8:
        raise TypeError(
            f"{name} must be of integers, float16, float32 or float64, got {array.dtype}"
        )
    if array.ndim != 2:
        raise ValueError(f"{name} must have 2 dimensions, got shape {array.shape}")
    if not array.size:
        raise ValueError(f"{name} must not be empty, got shape {array.shape}")
    return array


def _computed(
    in1: object, in2: object, mode: object, boundary: object, fillvalue: Any, *, flip: bool
) -> Array:
    image, kernel = _array(in1, "in1"), _array(in2, "in2")
    mode, boundary = one_of("mode", mode, MODES), one_of("boundary", boundary, BOUNDARIES)
    dtype = np.result_type(image, kernel).newbyteorder("=")
    fill = numbers_of(fillvalue, "fillvalue")
    if fill.ndim or fill.dtype.kind not in "buif":
        raise TypeError(f"fillvalue must be a number, got {shown(fillvalue)}")
    value = _fill(fill, dtype)
    image, kernel = renewed(in1, image), renewed(in2, kernel)
    swapped = mode == "valid" and _is_swapped(image.shape, kernel.shape)
    if swapped:
        image, kernel = kernel, image
    shape = _shape(image.shape, kernel.shape, mode)
    computed = np.result_type(dtype, np.float32)
    if dtype.kind in "ui":
        # Before anything is read: arrays may pretend, by strides of zero, to have more elements
        # than anybody could visit.
        empty_aligned(shape, dtype)
        computed = _type_of_sums(image, kernel, value)
    try:
        out = _correlated(image, kernel, mode, BOUNDARIES[boundary], value, flip, computed, dtype)
    except (TypeError, ValueError) as error:
        names = ("in2", "in1") if swapped else ("in1", "in2")
        raise renamed(error, input=names[0], weight=names[1]) from error
    # The correlation of the second with the first is that of the first with the second, turned.
    return as_given(in1, np.ascontiguousarray(out[::-1, ::-1]) if swapped and not flip else out)


@keeping("kernel")
def _correlated(
    image: Array, kernel: Array, mode: str, border: str, value: float, flip: bool,
    computed: np.dtype[Any], dtype: np.dtype[Any],
) -> Array:  # fmt: skip
    """Correlate arrays of known forms with sums of a known type."""
    out = empty_aligned(_shape(image.shape, kernel.shape, mode), dtype)
    kh, kw = kernel.shape
    if mode == "full":
        origin = 1 - kh, 1 - kw
    elif mode == "same":
        # Even kernels: correlation has the tap before the centre, convolution the tap after it.
        odd = 0 if flip else 1
        origin = -((kh - odd) // 2), -((kw - odd) // 2)
    else:
        origin = 0, 0
    if flip:
        kernel = kernel[::-1, ::-1]
    bank = Bank(np.ascontiguousarray(kernel[None], computed), 1)
    region = Region(origin, out.shape, border, value)
    planes, pixels = out.reshape(1, *out.shape, 1), image.reshape(*image.shape, 1)
    store: Store | None = _wrapped if out.dtype.kind in "ui" else None
    if is_noting():
        note(Noted(pixels, bank, region, None, planes, out, store))
    else:
        prepared(pixels, bank, region, planes, None, planner.team_size(None), store)(pixels, planes)
    return out


def _shape(image: tuple[int, ...], kernel: tuple[int, ...], mode: str) -> tuple[int, int]:
    """Shape of the result."""
    (ih, iw), (kh, kw) = image, kernel
    if mode == "full":
        return ih + kh - 1, iw + kw - 1
    return (ih, iw) if mode == "same" else (ih - kh + 1, iw - kw + 1)


def _fill(value: Array, dtype: np.dtype[Any]) -> float:
    """Return the fill value for arrays of a type; for integers without its fraction, as SciPy."""
    if dtype.kind in "ui":
        limits = np.iinfo(dtype)
        if not np.isfinite(value) or not limits.min <= int(value) <= limits.max:
            raise ValueError(f"fillvalue must be a number that {dtype} holds, got {value}")
        return float(int(value))
    with np.errstate(all="ignore"):
        return float(value.astype(dtype))


def _is_swapped(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Whether the second array is the larger one, as ``mode="valid"`` has it."""
    if all(a >= b for a, b in zip(first, second, strict=True)):
        return False
    if all(a <= b for a, b in zip(first, second, strict=True)):
        return True
    raise ValueError(
        "in1 and in2: for mode='valid' one must be at least as large as the other in both "
        f"dimensions, got shapes {first} and {second}"
    )


def _type_of_sums(image: Array, kernel: Array, value: float) -> np.dtype[Any]:
    """Type in which all sums of integers are exact."""
    taps = max(sum(map(abs, kernel.ravel().tolist())), 1)
    if taps * max(pixel_limit(image.dtype), int(abs(value))) <= _EXACT["float32"]:
        return np.dtype(np.float32)
    # Other pixels may have larger sums.
    refuse_note()
    total = taps * max(abs(int(image.min())), abs(int(image.max())), int(abs(value)))
    for name, limit in _EXACT.items():
        if total <= limit:
            return np.dtype(name)
    raise ValueError(
        f"in1 and in2: sums may be as large as {float(total):.3g}, beyond the 2**53 up to which "
        "integers are exact here: convert them to float64"
    )


def _wrapped(sums: Array, results: Array) -> None:
    """Store the low bits of exact sums as integers of some type."""
    np.copyto(results, sums.astype(np.int64), casting="unsafe")

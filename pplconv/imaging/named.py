"""Filters with names: their weights, and the conventions that docs/imaging.md compares."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from .._checks import integer, shown
from .._literals import Border, FilterMode
from ..memory.arrays import check_out
from ..memory.namespaces import as_given
from .channels import on_axis
from .filter_arguments import FLOATS, check_dtype, check_image
from .filtering import filter2d, sepfilter2d
from .kept_filters import keeping

__all__ = ["box", "gaussian", "laplace", "scharr", "sobel", "unsharp"]

Array = npt.NDArray[Any]

_MOST_TAPS = 1 << 15
# Taps on one side of a kernel whose weights are kept, and how many kernels are.
_SMALL = 64
# Types that hold every derivative of images of integers.
_SIGNED: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.int16),
    2: np.dtype(np.int32),
    4: np.dtype(np.int64),
}


@keeping()
def gaussian(
    image: npt.ArrayLike,
    sigma: float | tuple[float, float] = 1.0,
    *,
    truncate: float = 4.0,
    radius: int | tuple[int, int] | None = None,
    channel_axis: int = -1,
    border: Border = "reflect101",
    value: float = 0,
    mode: FilterMode = "same",
    mask: npt.ArrayLike | None = None,
    normalize: bool = False,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    threads: int | None = None,
) -> Array:
    """Blur an image by a Gaussian, as ``skimage.filters.gaussian`` and ``scipy.ndimage``.

    Parameters
    ----------
    image : array_like, shape (H, W) or (H, W, C)
        As in `filter2d`.
    sigma : float or (float, float), optional
        Standard deviation in pixels, along both axes or along columns and along rows, as in SciPy;
        0 leaves an axis as it is.
    truncate : float, optional
        The kernel ends after so many standard deviations: ``int(truncate * sigma + 0.5)`` taps on
        each side of the pixel.
    radius : int or (int, int), optional
        Taps on each side, in place of those by `truncate`. OpenCV's ``ksize`` is
        ``2 * radius + 1``.
    channel_axis : int, optional
        Axis of the channels of an image of three dimensions.
    border, value, mode, mask, normalize, dtype, out, threads
        As in `filter2d`.

    Returns
    -------
    ndarray
        As of `sepfilter2d`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it.

    See Also
    --------
    box : the mean of a rectangle.

    Notes
    -----
    Images of integers keep their values, and are rounded once; scikit-image makes floats from 0
    to 1 of them, SciPy cuts their fractions.

    Examples
    --------
    >>> import numpy as np
    >>> from pplconv.imaging import gaussian
    >>> image = np.zeros((3, 5), np.uint8)
    >>> image[1, 2] = 100
    >>> gaussian(image, 0.5)
    array([[ 0,  2, 17,  2,  0],
           [ 0,  8, 62,  8,  0],
           [ 0,  2, 17,  2,  0]], dtype=uint8)
    """
    down, across = _bells(sigma, truncate, radius)
    return _blurred(
        image, across, down, channel_axis, border, value, mode, mask, normalize, dtype, out, threads
    )


@keeping()
def box(
    image: npt.ArrayLike,
    size: int | tuple[int, int] = 3,
    *,
    channel_axis: int = -1,
    border: Border = "reflect101",
    value: float = 0,
    mode: FilterMode = "same",
    mask: npt.ArrayLike | None = None,
    normalize: bool = False,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    threads: int | None = None,
) -> Array:
    """Replace each pixel by the mean of a rectangle, as ``cv2.blur`` and ``uniform_filter``.

    Parameters
    ----------
    image : array_like, shape (H, W) or (H, W, C)
        As in `filter2d`.
    size : int or (int, int), optional
        Rows and columns of the rectangle. OpenCV names columns first.
    channel_axis : int, optional
        Axis of the channels of an image of three dimensions.
    border, value, mode, mask, normalize, dtype, out, threads
        As in `filter2d`.

    Returns
    -------
    ndarray
        As of `sepfilter2d`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it.

    See Also
    --------
    gaussian : a blur that is alike in all directions.

    Examples
    --------
    >>> import numpy as np
    >>> from pplconv.imaging import box
    >>> box(np.arange(12, dtype=np.uint8).reshape(3, 4), mode="valid")
    array([[5, 6]], dtype=uint8)
    """
    rows, columns = (size, size) if _is_small(size) else _pair_of_sizes("size", size, 1)
    across, down = _mean(columns), _mean(rows)
    return _blurred(
        image, across, down, channel_axis, border, value, mode, mask, normalize, dtype, out, threads
    )


@keeping()
def sobel(
    image: npt.ArrayLike,
    axis: int | None = None,
    *,
    scale: float = 1,
    channel_axis: int = -1,
    border: Border = "reflect101",
    value: float = 0,
    mode: FilterMode = "same",
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    threads: int | None = None,
) -> Array:
    """Differentiate an image with Sobel's weights, ``[-1, 0, 1]`` and ``[1, 2, 1]``.

    Parameters
    ----------
    image : array_like, shape (H, W) or (H, W, C)
        As in `filter2d`.
    axis : {None, 0, 1}, optional
        The derivative from row to row (0, OpenCV's ``dy=1``) or from column to column (1,
        ``dx=1``). None: the magnitude, the square root of the sum of the squares of both.
    scale : number, optional
        Factor of the weights, which are integers as in OpenCV and SciPy. With ``scale=1/4`` they
        are those of scikit-image, whose magnitude is divided by the root of 2.
    channel_axis : int, optional
        Axis of the channels of an image of three dimensions; another one than -1 needs an `axis`
        counted without it.
    border, value, mode, out, threads
        As in `filter2d`.
    dtype : data-type, optional
        Of the result. By default the image's, if it is floating point; else a signed integer that
        holds every derivative: int16 for bool and 8 bits, int32 for 16 bits, int64 for more. With a
        `scale` of fractions, and of the magnitude, float32 for images of up to 16 bits, else
        float64. Magnitudes are floating point.

    Returns
    -------
    ndarray
        As of `sepfilter2d`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it.

    See Also
    --------
    scharr : the same with weights that depend less on the direction of an edge.
    laplace : the sum of second derivatives.

    Examples
    --------
    >>> import numpy as np
    >>> from pplconv.imaging import sobel
    >>> ramp = np.arange(0, 60, 10, dtype=np.uint8) * np.ones((3, 1), np.uint8)
    >>> sobel(ramp, axis=1)[1]
    array([ 0, 80, 80, 80, 80,  0], dtype=int16)
    """
    run = partial(
        _derivative, (1.0, 2.0, 1.0), axis, scale, border=border, value=value, mode=mode,
        dtype=dtype, threads=threads,
    )  # fmt: skip
    return on_axis(run, image, channel_axis, None, out)


@keeping()
def scharr(
    image: npt.ArrayLike,
    axis: int | None = None,
    *,
    scale: float = 1,
    channel_axis: int = -1,
    border: Border = "reflect101",
    value: float = 0,
    mode: FilterMode = "same",
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    threads: int | None = None,
) -> Array:
    """Differentiate an image with Scharr's weights, ``[-1, 0, 1]`` and ``[3, 10, 3]``.

    Parameters
    ----------
    image, axis, channel_axis, border, value, mode, dtype, out, threads
        As in `sobel`.
    scale : number, optional
        Factor of the weights, which are integers as in OpenCV. With ``scale=1/16`` they are those
        of scikit-image, whose magnitude is divided by the root of 2.

    Returns
    -------
    ndarray
        As of `sepfilter2d`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it.

    See Also
    --------
    sobel : the same with smaller weights.

    Examples
    --------
    >>> import numpy as np
    >>> from pplconv.imaging import scharr
    >>> scharr(np.arange(9.0).reshape(3, 3) ** 2, axis=0, scale=1 / 16)[1]
    array([40.5, 48. , 55.5])
    """
    run = partial(
        _derivative, (3.0, 10.0, 3.0), axis, scale, border=border, value=value, mode=mode,
        dtype=dtype, threads=threads,
    )  # fmt: skip
    return on_axis(run, image, channel_axis, None, out)


@keeping()
def laplace(
    image: npt.ArrayLike,
    *,
    channel_axis: int = -1,
    border: Border = "reflect101",
    value: float = 0,
    mode: FilterMode = "same",
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    threads: int | None = None,
) -> Array:
    """Sum the second derivatives of an image: the four neighbours less four times the pixel.

    Parameters
    ----------
    image, channel_axis, border, value, mode, out, threads
        As in `sobel`.
    dtype : data-type, optional
        Of the result; by default as of a derivative by `sobel`.

    Returns
    -------
    ndarray
        As of `filter2d`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it.

    See Also
    --------
    sobel : first derivatives.

    Notes
    -----
    The sign is that of SciPy and OpenCV; scikit-image has the opposite one.

    Examples
    --------
    >>> import numpy as np
    >>> from pplconv.imaging import laplace
    >>> laplace(np.array([[0, 0, 0], [0, 9, 0], [0, 0, 0]], np.uint8))
    array([[  0,  18,   0],
           [ 18, -36,  18],
           [  0,  18,   0]], dtype=int16)
    """
    kernel = np.array([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]])

    def run(image: npt.ArrayLike, *, mask: None, out: Array | None) -> Array:
        result = _derived(dtype, check_image(image).dtype, whole=True)
        return filter2d(
            image, kernel, border=border, value=value, mode=mode, dtype=result, out=out,
            threads=threads,
        )  # fmt: skip

    return on_axis(run, image, channel_axis, None, out)


@keeping()
def unsharp(
    image: npt.ArrayLike,
    sigma: float | tuple[float, float] = 1.0,
    amount: float = 1.0,
    *,
    truncate: float = 4.0,
    radius: int | tuple[int, int] | None = None,
    channel_axis: int = -1,
    border: Border = "reflect101",
    value: float = 0,
    mode: FilterMode = "same",
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    threads: int | None = None,
) -> Array:
    """Sharpen an image by what a Gaussian takes from it, as ``skimage.filters.unsharp_mask``.

    The result is ``image + amount * (image - gaussian(image, sigma))``.

    Parameters
    ----------
    image : array_like, shape (H, W) or (H, W, C)
        As in `filter2d`.
    sigma, truncate, radius, channel_axis
        As in `gaussian`; scikit-image names sigma ``radius``.
    amount : float, optional
        Of the difference.
    border, value, mode, dtype, out, threads
        As in `filter2d`.

    Returns
    -------
    ndarray
        As of `filter2d`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it.

    Notes
    -----
    Images of integers are filtered with one kernel, so results are rounded once, and saturated.
    Floating point is not clipped; scikit-image clips to 0 to 1, or -1 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from pplconv.imaging import unsharp
    >>> step = np.repeat(np.array([[50, 150]], np.uint8), 3, axis=1)
    >>> unsharp(step, 0.5)
    array([[ 50,  50,  39, 161, 150, 150]], dtype=uint8)
    """
    down, across = _bells(sigma, truncate, radius)
    factor = _number("amount", amount)
    kernel = -factor * np.outer(down, across)
    kernel[len(down) // 2, len(across) // 2] += 1 + factor
    more: dict[str, Any] = {"border": border, "value": value, "mode": mode, "threads": threads}

    def run(image: npt.ArrayLike, *, mask: None, out: Array | None) -> Array:
        pixels = check_image(image)
        if pixels.dtype.kind != "f":
            return filter2d(image, kernel, dtype=dtype, out=out, **more)
        result = check_dtype(dtype, pixels.dtype)
        computed = np.result_type(pixels.dtype, result, np.float32).newbyteorder("=")
        sums = sepfilter2d(pixels, across, down, dtype=computed, **more)
        middle = pixels
        if mode == "valid":
            (y, x), (h, w) = (len(down) // 2, len(across) // 2), sums.shape[:2]
            middle = pixels[y : y + h, x : x + w]
        target = sums
        if out is not None:
            target = check_out(out, sums.shape, result, image=pixels)
        with np.errstate(all="ignore"):
            np.subtract(middle, sums, out=sums)
            sums *= computed.type(factor)
            sums += middle
            if out is None:
                target = sums.astype(result, copy=False)
            else:
                np.copyto(target, sums, casting="unsafe")
        return as_given(image, target, out)

    return on_axis(run, image, channel_axis, None, out)


def _blurred(
    image: npt.ArrayLike, across: Array, down: Array, axis: object, border: Border, value: float,
    mode: FilterMode, mask: Any, normalize: bool, dtype: npt.DTypeLike | None, out: Array | None,
    threads: int | None,
) -> Array:  # fmt: skip
    """Filter an image whose channels lie on some axis with a row and a column."""
    if type(axis) is int and axis == -1:
        return sepfilter2d(
            image, across, down, border=border, value=value, mode=mode, mask=mask,
            normalize=normalize, dtype=dtype, out=out, threads=threads,
        )  # fmt: skip
    run = partial(
        _separable, across, down, border=border, value=value, mode=mode, normalize=normalize,
        dtype=dtype, threads=threads,
    )  # fmt: skip
    return on_axis(run, image, axis, mask, out)


def _separable(
    across: Array, down: Array, image: npt.ArrayLike, *, mask: Any, out: Array | None, **more: Any
) -> Array:
    return sepfilter2d(image, across, down, mask=mask, out=out, **more)


def _derivative(
    smooth: tuple[float, ...], axis: object, scale: object, image: npt.ArrayLike, *, mask: None,
    out: Array | None, dtype: object, **more: Any,
) -> Array:  # fmt: skip
    """Differentiate along an axis and smooth along the other, or give the magnitude of both."""
    factor = _number("scale", scale)
    step, beside = factor * np.array([-1.0, 0.0, 1.0]), np.array(smooth)
    if axis is not None:
        along = integer("axis", axis, 0, 1)
        result = _derived(dtype, check_image(image).dtype, whole=factor.is_integer())
        pair = (step, beside) if along else (beside, step)
        return sepfilter2d(image, *pair, dtype=result, out=out, **more)
    pixels = check_image(image)
    result = _derived(dtype, pixels.dtype, whole=False)
    if result not in FLOATS:
        raise TypeError(
            f"dtype must be float16, float32 or float64 for the magnitude, got {result}"
        )
    computed = _derived(None, pixels.dtype, whole=False)
    computed = np.result_type(computed, result, np.float32)
    first = sepfilter2d(pixels, step, beside, dtype=computed, **more)
    second = sepfilter2d(pixels, beside, step, dtype=computed, **more)
    target = first if result == computed else np.empty(first.shape, result)
    if out is not None:
        target = check_out(out, first.shape, result, image=pixels)
    with np.errstate(all="ignore"):
        np.hypot(first, second, out=target, casting="unsafe")
    return as_given(image, target, out)


def _derived(dtype: object, image: np.dtype[Any], *, whole: bool) -> np.dtype[Any]:
    """Return the type of derivatives, whose weights may be whole numbers."""
    if dtype is not None:
        return check_dtype(dtype, image)
    if image.kind == "f":
        native: np.dtype[Any] = image.newbyteorder("=")
        return native
    if whole:
        return _SIGNED.get(image.itemsize, _SIGNED[4])
    return np.dtype(np.float32 if image.itemsize <= 2 else np.float64)


def _bells(sigma: object, truncate: object, radius: object) -> tuple[Array, Array]:
    """Give the weights of a Gaussian along columns and along rows."""
    widths = _pair("sigma", sigma, _number)
    if min(widths) < 0:
        raise ValueError(f"sigma must not be negative, got {shown(sigma)}")
    ends = _number("truncate", truncate)
    if ends < 0:
        raise ValueError(f"truncate must not be negative, got {shown(truncate)}")
    if radius is None:
        if max(widths) * ends >= _MOST_TAPS // 2:
            raise ValueError(
                f"sigma and truncate must give fewer than {_MOST_TAPS} taps, got {shown(sigma)} "
                f"and {shown(truncate)}"
            )
        sides = tuple(int(ends * width + 0.5) for width in widths)
    else:
        sides = _pair_of_sizes("radius", radius, 0)
    down, across = (_bell(width, side) for width, side in zip(widths, sides, strict=True))
    return down, across


def _bell(sigma: float, side: int) -> Array:
    return _small_bell(sigma, side) if side < _SMALL else _made_bell(sigma, side)


@lru_cache(_SMALL)
def _small_bell(sigma: float, side: int) -> Array:
    return _made_bell(sigma, side)


def _made_bell(sigma: float, side: int) -> Array:
    at = np.arange(-side, side + 1, dtype=np.float64)
    if sigma == 0:
        return np.array(at == 0, np.float64)
    with np.errstate(all="ignore"):
        weights = np.exp(-0.5 * (at / sigma) ** 2)
    weights[side] = 1.0
    found: Array = weights / weights.sum()
    return found


def _pair(name: str, value: object, check: Callable[[str, object], Any]) -> tuple[Any, Any]:
    """Return one value for both axes, or a value for each."""
    if isinstance(value, (tuple, list, np.ndarray)) and np.ndim(value) == 1:
        if len(value) != 2:
            raise ValueError(f"{name} must be one value or two, got {shown(value)}")
        return check(name, value[0]), check(name, value[1])
    one = check(name, value)
    return one, one


def _is_small(size: object) -> TypeGuard[int]:
    """Whether a size needs no other check: calls with small images take no longer for it."""
    return type(size) is int and 0 < size < _SMALL


def _mean(size: int) -> Array:
    """Weights of a mean."""
    return _small_mean(size) if size < _SMALL else np.full(size, 1 / size)


@lru_cache(_SMALL)
def _small_mean(size: int) -> Array:
    return np.full(size, 1 / size)


def _pair_of_sizes(name: str, value: object, least: int) -> tuple[int, int]:
    rows, columns = _pair(name, value, partial(_size, least))
    return rows, columns


def _size(least: int, name: str, value: object) -> int:
    return integer(name, value, least, _MOST_TAPS // 2)


def _number(name: str, value: object) -> float:
    """Return a finite number."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, got {shown(value)}") from None
    if not np.isfinite(found):
        raise ValueError(f"{name} must be finite, got {shown(value)}")
    return found

"""`filter2d` and `sepfilter2d`: from the caller's arguments to bands."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .. import planner
from .._literals import Border
from ..arguments.argument_names import renamed
from ..memory.array_like import renewed
from ..memory.arrays import check_out, empty_aligned
from ..memory.namespaces import as_given
from .banded import Rounding, Short
from .bands import Region, prepared
from .borders import check_border
from .filter_arguments import (
    INTEGERS,
    check_anchor,
    check_dtype,
    check_flag,
    check_image,
    check_kernel,
    check_threads,
    check_value,
    pixel_limit,
)
from .kept_filters import Ready, keep, kept, kernels_of, key_of
from .operators import Bank, Operator, Separable
from .rounding import Exact, saturated
from .short_sums import ShortSums, short_sums

__all__ = ["filter2d", "sepfilter2d"]

Array = npt.NDArray[Any]


def filter2d(
    image: npt.ArrayLike,
    kernel: npt.ArrayLike,
    *,
    border: Border = "reflect101",
    value: float = 0,
    anchor: tuple[int, int] | None = None,
    flip: bool = False,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    threads: int | None = None,
) -> Array:
    """Correlate an image with a kernel, as ``cv2.filter2D`` and ``scipy.ndimage.correlate``.

    Parameters
    ----------
    image : array_like, shape (H, W) or (H, W, C)
        uint8, int8, uint16, int16, float16, float32 or float64. Each channel is filtered alike.
    kernel : array_like, shape (kh, kw) or (n, kh, kw)
        One kernel, or a bank of them; integers or floating point, used by its exact values in
        float64 for images of integers, else rounded to the type of the arithmetic.
    border : {"reflect101", "reflect", "replicate", "wrap", "constant"}, optional
        Pixels around the image: ``dcb|abcd|cba`` (the edge once), ``cba|abcd|dcb`` (the edge
        twice), ``aaa|abcd|ddd``, ``bcd|abcd|abc``, or `value`. Images smaller than the kernel are
        continued as often as it takes.
    value : number, optional
        Of the constant border; a pixel of the image's type.
    anchor : (int, int), optional
        Column and row (x, y) of the tap that lies on the pixel itself, as in OpenCV; -1, the
        default, is the centre, ``kw // 2`` or ``kh // 2``.
    flip : bool, optional
        Whether to turn kernel and anchor by 180 degrees, which is convolution in the strict sense.
    dtype : data-type, optional
        Of the result; by default the image's. Images of integers give integers of 8 or 16 bits,
        int32 or floating point, others floating point.
    out : ndarray, optional
        Written and returned; C-contiguous, native, and apart from the image.
    threads : int, optional
        Most threads that compute. None: the team of `pplconv.runtime.team` around the call, else
        the process's team. Results do not depend on it.

    Returns
    -------
    ndarray
        Shape (H, W) or (H, W, C); with a bank (n, H, W) or (n, H, W, C), an image for each kernel.
        For an image of another library (a tensor, or an array of the array API), an array of that
        library.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it, and `out` is untouched.

    See Also
    --------
    sepfilter2d : kernels that are the product of a column and a row.
    correlate2d, convolve2d : with the arguments of ``scipy.signal``.

    Notes
    -----
    Integers are exact: the result is the sum of pixels times the kernel's values as they are in
    float64, rounded once, half to even, and saturated. OpenCV rounds sums of float32.

    Floating point is summed up directly, in float64 for float64, else in float32, and rounded to
    `dtype` once. NaN and infinities reach the outputs whose windows see them, and no others.

    docs/imaging.md has a table of the names of borders, anchors and types in other libraries.

    Examples
    --------
    >>> import numpy as np
    >>> from pplconv.imaging import filter2d
    >>> image = np.arange(12, dtype=np.uint8).reshape(3, 4)
    >>> filter2d(image, np.full((3, 3), 1 / 9))
    array([[3, 4, 5, 5],
           [5, 5, 6, 6],
           [6, 6, 7, 8]], dtype=uint8)
    """
    key = key_of(image, (kernel,), border, value, anchor, flip, dtype, threads)
    ready = None if key is None else kept(key)
    if ready is not None:
        return ready(image, out, kernel=kernel)  # type: ignore[arg-type]
    pixels = check_image(image)
    flip = check_flag("flip", flip)
    integers = pixels.dtype.newbyteorder("=") in INTEGERS
    taps = kernel if key is None else kernels_of(key)[0]
    bank = check_kernel(taps, "kernel", (2, 3), finite=integers)
    extent = bank.shape[-2:]
    above, left = check_anchor(anchor, (extent[0], extent[1]), flip=flip)
    shape = pixels.shape if bank.ndim == 2 else (len(bank), *pixels.shape)
    call = _Call(
        image, pixels, above, left, border, value, dtype, out, threads, shape, key, kernel=kernel
    )
    bank = bank.reshape(-1, *extent)
    if flip:
        bank = bank[:, ::-1, ::-1]
    computed, rounding = call.computed, None
    if integers:
        exact = [Exact.of(one.ravel(), pixel_limit(pixels.dtype)) for one in bank]
        if call.is_rounded:
            computed, ways, rounding = saturated(exact, call.dtype)
            short = (
                short_sums(ways[0], extent, pixels.dtype, call.dtype) if len(ways) == 1 else None
            )
            if short is not None:
                return as_given(image, call.run(ShortSums(extent), short), out)
            bank = np.stack([way.factors[0].reshape(extent) for way in ways])
        else:
            computed = call.exactly(exact)
    with np.errstate(all="ignore"):
        bank = np.ascontiguousarray(bank, computed)
    return as_given(image, call.run(Bank(bank, call.channels), rounding), out)


def sepfilter2d(
    image: npt.ArrayLike,
    kernel_x: npt.ArrayLike,
    kernel_y: npt.ArrayLike,
    *,
    border: Border = "reflect101",
    value: float = 0,
    anchor: tuple[int, int] | None = None,
    flip: bool = False,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    threads: int | None = None,
) -> Array:
    """Correlate an image with a row and with a column, as ``cv2.sepFilter2D``.

    The result is that of `filter2d` with the kernel ``numpy.outer(kernel_y, kernel_x)``, with
    kh + kw products a pixel instead of kh * kw.

    Parameters
    ----------
    image : array_like, shape (H, W) or (H, W, C)
        As in `filter2d`.
    kernel_x, kernel_y : array_like, shape (kw,) and (kh,)
        Along rows, and along columns; also of shapes (1, kw) and (kh, 1).
    border, value, anchor, flip, dtype, out, threads
        As in `filter2d`.

    Returns
    -------
    ndarray
        Shape (H, W) or (H, W, C); of the image's library, as in `filter2d`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it, and `out` is untouched.

    Notes
    -----
    Images of integers are rounded once, at the end, as if all products were exact: the result is
    the exact sum of pixels times the products of both kernels' values. OpenCV rounds after each
    pass.

    In floating point the sums of a row are rounded before the column is applied, so the last bits
    may differ from those of `filter2d`.

    Examples
    --------
    >>> import numpy as np
    >>> from pplconv.imaging import sepfilter2d
    >>> image = np.arange(12, dtype=np.uint8).reshape(3, 4)
    >>> sepfilter2d(image, [-1, 0, 1], [1, 2, 1], dtype=np.int16)
    array([[0, 8, 8, 0],
           [0, 8, 8, 0],
           [0, 8, 8, 0]], dtype=int16)
    """
    key = key_of(image, (kernel_x, kernel_y), border, value, anchor, flip, dtype, threads)
    ready = None if key is None else kept(key)
    if ready is not None:
        return ready(image, out, kernel_x=kernel_x, kernel_y=kernel_y)  # type: ignore[arg-type]
    pixels = check_image(image)
    flip = check_flag("flip", flip)
    integers = pixels.dtype.newbyteorder("=") in INTEGERS
    both = (kernel_x, kernel_y) if key is None else kernels_of(key)
    across = _vector(both[0], "kernel_x", finite=integers)
    down = _vector(both[1], "kernel_y", finite=integers)
    extent = len(down), len(across)
    above, left = check_anchor(anchor, extent, flip=flip)
    call = _Call(
        image, pixels, above, left, border, value, dtype, out, threads, pixels.shape, key,
        kernel_x=kernel_x, kernel_y=kernel_y,
    )  # fmt: skip
    if flip:
        across, down = across[::-1], down[::-1]
    computed, rounding = call.computed, None
    if integers:
        exact = [Exact.product(down, across, pixel_limit(pixels.dtype))]
        if call.is_rounded:
            computed, (way,), rounding = saturated(exact, call.dtype)
            short = short_sums(way, extent, pixels.dtype, call.dtype)
            if short is not None:
                return as_given(image, call.run(ShortSums(extent), short), out)
            down, across = way.factors
        else:
            computed = call.exactly(exact)
    with np.errstate(all="ignore"):
        down, across = (np.ascontiguousarray(each, computed) for each in (down, across))
    return as_given(image, call.run(Separable(down, across, call.channels), rounding), out)


def _vector(kernel: object, name: str, *, finite: bool) -> Array:
    """Return a kernel as a vector; 2-D kernels must have one row or one column."""
    array = check_kernel(kernel, name, (1, 2), finite=finite)
    if array.ndim == 2 and 1 not in array.shape:
        raise ValueError(f"{name} must be a vector, got shape {array.shape}")
    return array.ravel()


class _Call:
    """Arguments that both filters share, checked, and the call that runs them."""

    def __init__(
        self,
        given: object,
        pixels: Array,
        above: int,
        left: int,
        border: object,
        value: object,
        dtype: object,
        out: object,
        threads: object,
        shape: tuple[int, ...],
        key: Any,
        **operands: object,
    ) -> None:
        border = check_border(border)
        number = check_value(value, pixels.dtype)
        self.dtype = check_dtype(dtype, pixels.dtype)
        self._team = planner.team_size(check_threads(threads))
        # Reading the other arguments may have run code that changed the image.
        pixels = renewed(given, pixels)
        self.image = pixels.reshape(*pixels.shape[:2], -1)
        self.channels = self.image.shape[2]
        height, width = pixels.shape[:2]
        self._region = Region((-above, -left), (height, width), border, number)
        if out is not None:
            out = check_out(out, shape, self.dtype, image=pixels, **operands)
        self._shape, self._out = shape, out
        self._operands, self._key = operands, key

    @property
    def computed(self) -> np.dtype[Any]:
        """Type of floating-point sums: the wider type of image and result, at least float32."""
        wider: np.dtype[Any] = np.result_type(self.image.dtype, self.dtype, np.float32)
        return wider.newbyteorder("=")

    @property
    def is_rounded(self) -> bool:
        """Whether results are integers."""
        return self.dtype in INTEGERS or self.dtype == np.int32

    def exactly(self, kernels: list[Exact]) -> np.dtype[Any]:
        """Choose the type of sums for images of integers with floating-point results."""
        return np.dtype(np.float32 if all(k.is_exact("float32") for k in kernels) else np.float64)

    def run(self, operator: Operator, rounding: Rounding | Short | None) -> Array:
        """Compute, and keep the filter for other images of this form."""
        out: Any = self._out
        if out is None:
            out = empty_aligned(self._shape, self.dtype)
        planes = out.reshape(-1, *self.image.shape)
        try:
            made = prepared(self.image, operator, self._region, planes, rounding, self._team)
            made(self.image, planes)
        except (TypeError, ValueError) as error:
            raise renamed(error, input="image", weight=" or ".join(self._operands)) from error
        if self._key is not None:
            ready = Ready(made, self._shape, planes.shape, self.dtype)
            keep(self._key, ready)
        return out  # type: ignore[no-any-return]

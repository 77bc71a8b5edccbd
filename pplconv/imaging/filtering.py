"""`filter2d` and `sepfilter2d`: from the caller's arguments to bands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import planner
from .._literals import Border, FilterMethod, FilterMode
from ..arguments.argument_names import renamed
from ..memory.array_like import renewed
from ..memory.arrays import check_out, empty_aligned
from ..memory.namespaces import as_given
from .bands import AnyRounding, Region, prepared
from .borders import check_border
from .channels import filter_each
from .filter_arguments import (
    INTEGERS,
    WIDE,
    check_anchor,
    check_dtype,
    check_flag,
    check_image,
    check_kernel,
    check_mode,
    check_threads,
    check_value,
    pixel_limit,
)
from .kept_filters import keeping
from .means import means_of
from .missing_pixels import check_mask, filter_present
from .noted import Noted, is_noting, note, refuse_note
from .operators import Bank, Operator, Separable
from .rounding import Exact, Way, saturated
from .short_sums import MadeAtOnce, short_sums
from .transforms import Transformed, check_method
from .wide_integers import Wide, filter_truth

__all__ = ["filter2d", "sepfilter2d"]

Array = npt.NDArray[Any]


@keeping("kernel")
def filter2d(
    image: npt.ArrayLike,
    kernel: npt.ArrayLike,
    *,
    border: Border = "reflect101",
    value: float = 0,
    anchor: tuple[int, int] | None = None,
    flip: bool = False,
    mode: FilterMode = "same",
    per_channel: bool = False,
    mask: npt.ArrayLike | None = None,
    normalize: bool = False,
    method: FilterMethod = "direct",
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    threads: int | None = None,
) -> Array:
    """Correlate an image with a kernel, as ``cv2.filter2D`` and ``scipy.ndimage.correlate``.

    Parameters
    ----------
    image : array_like, shape (H, W) or (H, W, C)
        bool, uint8, int8, uint16, int16, int32, int64, float16, float32 or float64. Each channel is
        filtered alike.
    kernel : array_like, shape (kh, kw), (n, kh, kw) or (C, kh, kw)
        One kernel, a bank of them, or with `per_channel` one for each channel; integers
        or floating point, used by its exact values in float64 for images of integers, else rounded
        to the type of the arithmetic.
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
    mode : {"same", "valid"}, optional
        ``"same"``: a result for each pixel. ``"valid"``: results only where the whole kernel lies
        in the image, (H - kh + 1, W - kw + 1); border, value and anchor do nothing then.
    per_channel : bool, optional
        Whether channel ``c`` is filtered with ``kernel[c]`` alone.
    mask : array_like of bool, shape (H, W) or (H, W, C), optional
        True where a pixel is missing: it counts as zero.
    normalize : bool, optional
        Whether to divide each sum by the sum of the weights whose pixels are present. Pixels of NaN
        are missing then, and those of a constant border of NaN. Results without any pixel are NaN.
    method : {"direct", "auto", "fft"}, optional
        How sums are made: one by one, or by Fourier transforms in float64, which takes SciPy.
        ``"auto"`` transforms where that is possible and estimated to be faster, which are large
        kernels; ``"fft"`` raises an error where it is not possible. Integers stay exact.
    dtype : data-type, optional
        Of the result; by default the image's. Images of integers give integers of 8 or 16 bits,
        int32 or floating point, those of int32 and int64 also int64, those of bool also bool;
        others floating point. With `normalize` floating point, for images of integers by default
        float32 (bool, 8 and 16 bits) or float64.
    out : ndarray, optional
        Written and returned; C-contiguous, native, and apart from the image.
    threads : int, optional
        Most threads that compute. None: the team of `pplconv.runtime.team` around the call, else
        the process's team. Results do not depend on it.

    Returns
    -------
    ndarray
        Shape (H, W) or (H, W, C); with a bank (n, H, W) or (n, H, W, C), an image for each kernel.
        With ``mode="valid"`` less rows and columns.
        For an image of another library (a tensor, or an array of the array API), an array of that
        library.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it, and `out` is untouched. Also if
        sums of int32 or int64 cannot be exact: they have 64 bits.

    See Also
    --------
    sepfilter2d : kernels that are the product of a column and a row.
    correlate2d, convolve2d : with the arguments of ``scipy.signal``.

    Notes
    -----
    Integers are exact: the result is the sum of pixels times the kernel's values as they are in
    float64, rounded once, half to even, and saturated. OpenCV rounds sums of float32. Pixels of
    bool count as 0 and 1, and results of bool are the sums that round to 1 or more.

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

    The mean of the pixels that are there:

    >>> hole = np.array([[1.0, np.nan, 3.0]])
    >>> filter2d(hole, np.ones((1, 3)), normalize=True)
    array([[1., 2., 3.]])
    """
    pixels = check_image(image)
    flip, mode = check_flag("flip", flip), check_mode(mode)
    normalize = check_flag("normalize", normalize)
    per_channel, method = check_flag("per_channel", per_channel), check_method(method)
    integers = pixels.dtype.kind in "bui"
    bank = check_kernel(kernel, "kernel", (2, 3), finite=integers)
    more: dict[str, Any] = {"border": border, "value": value, "anchor": anchor, "flip": flip}
    more |= {"mode": mode, "threads": threads, "method": method}
    missing = check_mask(mask, pixels.shape)
    if per_channel:

        def run_one(kernel: Array, plane: Array, mask: Array | None) -> Array:
            return filter2d(plane, kernel, mask=mask, normalize=normalize, dtype=dtype, **more)

        return as_given(image, filter_each(run_one, pixels, bank, missing, out), out)
    run = partial(_with_kernel, filter2d, (bank,), more)
    reduced = _reduced(run, pixels, (bank,), missing, normalize, more, dtype, out)
    if reduced is not None:
        return as_given(image, reduced, out)
    extent = bank.shape[-2], bank.shape[-1]
    above, left = check_anchor(anchor, extent, flip=flip)
    call = _Call(
        image, pixels, extent, above, left, border, value, mode, dtype, out, threads,
        None if bank.ndim == 2 else len(bank), kernel=kernel,
    )  # fmt: skip
    bank = bank.reshape(-1, *extent)
    if flip:
        bank = bank[:, ::-1, ::-1]
    if method != "direct":
        done = call.transform(bank, method)
        if done is not None:
            return as_given(image, done, out)
    if call.is_wide:
        return as_given(image, call.run_wide([(one.ravel(),) for one in bank]), out)
    computed, rounding = call.computed, None
    if integers:
        exact = [Exact.of(one.ravel(), pixel_limit(pixels.dtype)) for one in bank]
        if call.is_rounded:
            computed, ways, rounding = saturated(exact, call.dtype)
            done = call.run_short(ways)
            if done is not None:
                return as_given(image, done, out)
            bank = np.stack([way.factors[0].reshape(extent) for way in ways])
        else:
            computed = call.exactly(exact)
    with np.errstate(all="ignore"):
        bank = np.ascontiguousarray(bank, computed)
    return as_given(image, call.run(Bank(bank, call.channels), rounding), out)


@keeping("kernel_x", "kernel_y")
def sepfilter2d(
    image: npt.ArrayLike,
    kernel_x: npt.ArrayLike,
    kernel_y: npt.ArrayLike,
    *,
    border: Border = "reflect101",
    value: float = 0,
    anchor: tuple[int, int] | None = None,
    flip: bool = False,
    mode: FilterMode = "same",
    mask: npt.ArrayLike | None = None,
    normalize: bool = False,
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
    border, value, anchor, flip, mode, mask, normalize, dtype, out, threads
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
    pixels = check_image(image)
    flip, mode = check_flag("flip", flip), check_mode(mode)
    normalize = check_flag("normalize", normalize)
    integers = pixels.dtype.kind in "bui"
    across = _vector(kernel_x, "kernel_x", finite=integers)
    down = _vector(kernel_y, "kernel_y", finite=integers)
    more = {"border": border, "value": value, "anchor": anchor, "flip": flip, "mode": mode}
    more["threads"] = threads
    run = partial(_with_kernel, sepfilter2d, (across, down), more)
    missing = check_mask(mask, pixels.shape)
    reduced = _reduced(run, pixels, (across, down), missing, normalize, more, dtype, out)
    if reduced is not None:
        return as_given(image, reduced, out)
    extent = len(down), len(across)
    above, left = check_anchor(anchor, extent, flip=flip)
    call = _Call(
        image, pixels, extent, above, left, border, value, mode, dtype, out, threads, None,
        kernel_x=kernel_x, kernel_y=kernel_y,
    )  # fmt: skip
    if flip:
        across, down = across[::-1], down[::-1]
    if call.is_wide:
        return as_given(image, call.run_wide([(down, across)]), out)
    computed, rounding = call.computed, None
    if integers:
        exact = [Exact.product(down, across, pixel_limit(pixels.dtype))]
        if call.is_rounded:
            computed, ways, rounding = saturated(exact, call.dtype)
            done = call.run_short(ways)
            if done is not None:
                return as_given(image, done, out)
            down, across = ways[0].factors
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


def _with_kernel(
    function: Callable[..., Array], kernels: tuple[Array, ...], more: dict[str, Any],
    image: Array, **changed: Any,
) -> Array:  # fmt: skip
    """Call a filter with the arguments of another call, some of them changed."""
    return function(image, *kernels, **(more | changed))


def _reduced(
    run: Callable[..., Array], pixels: Array, kernels: tuple[Array, ...], mask: Array | None,
    normalize: bool, more: dict[str, Any], dtype: object, out: object,
) -> Array | None:  # fmt: skip
    """Filter images with missing pixels and of bool by calls for other images; None for others."""
    if mask is not None or normalize:
        refuse_note()
        return filter_present(
            run, pixels, kernels, mask, normalize=normalize, border=more["border"],
            value=more["value"], dtype=dtype, out=out,
        )  # fmt: skip
    if pixels.dtype != np.bool_:
        return None
    refuse_note()
    value = check_value(more["value"], pixels.dtype)
    return filter_truth(run, pixels, check_dtype(dtype, pixels.dtype), out, value)


class _Call:
    """Arguments that both filters share, checked, and the call that runs them."""

    def __init__(
        self,
        given: object,
        pixels: Array,
        extent: tuple[int, int],
        above: int,
        left: int,
        border: object,
        value: object,
        mode: FilterMode,
        dtype: object,
        out: object,
        threads: object,
        count: int | None,
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
        if mode == "valid":
            height, width = (
                size - taps + 1 for size, taps in zip((height, width), extent, strict=True)
            )
            if min(height, width) < 1:
                raise ValueError(
                    f"{' and '.join(operands)} must be no larger than the image for mode='valid', "
                    f"got {extent[0]} rows and {extent[1]} columns for {pixels.shape[:2]}"
                )
            # No pixel of the border is seen.
            self._region = Region((0, 0), (height, width), "constant")
        shape = (height, width, *pixels.shape[2:])
        if count is not None:
            shape = (count, *shape)
        if out is not None:
            out = check_out(out, shape, self.dtype, image=pixels, **operands)
        self._shape, self._out, self._extent = shape, out, extent
        self._operands = operands
        # Whether other pixels may make it another filter.
        self._by_pixels = False

    @property
    def computed(self) -> np.dtype[Any]:
        """Type of floating-point sums: the wider type of image and result, at least float32."""
        wider: np.dtype[Any] = np.result_type(self.image.dtype, self.dtype, np.float32)
        return wider.newbyteorder("=")

    @property
    def is_rounded(self) -> bool:
        """Whether results are integers."""
        return self.dtype in INTEGERS or self.dtype == np.int32

    @property
    def is_wide(self) -> bool:
        """Whether pixels are integers that the loops do not read."""
        return self.image.dtype.newbyteorder("=") in WIDE

    def exactly(self, kernels: list[Exact]) -> np.dtype[Any]:
        """Choose the type of sums for images of integers with floating-point results."""
        return np.dtype(np.float32 if all(k.is_exact("float32") for k in kernels) else np.float64)

    def run(self, operator: Operator, rounding: AnyRounding | None) -> Array:
        """Compute, or note the filter."""
        out, planes = self._results()
        if is_noting():
            filter = Noted(self.image, operator, self._region, rounding, planes, out)
            note(filter._replace(by_pixels=self._by_pixels))
            return out
        try:
            made = prepared(self.image, operator, self._region, planes, rounding, self._team)
            made(self.image, planes)
        except (TypeError, ValueError) as error:
            raise renamed(error, input="image", weight=" or ".join(self._operands)) from error
        return out

    def run_short(self, ways: list[Way]) -> Array | None:
        """Filter bytes in integers of 16 bits, and means of words in those of 32.

        None where these do not show each result.
        """
        if len(ways) != 1:
            return None
        way, extent, pixel = ways[0], self._extent, self.image.dtype
        means = means_of(way, extent, pixel, self.dtype, self._region.shape[1], self.channels)
        if means is not None:
            return self.run(*means)
        short = short_sums(way, extent, pixel, self.dtype)
        if short is None:
            return None
        return self.run(MadeAtOnce(extent, pixel, len(short.weights)), short)

    def run_wide(self, kernels: list[tuple[Array, ...]]) -> Array:
        """Filter integers that the loops do not read; their largest pixel decides how."""
        refuse_note()
        out, planes = self._results()

        def operator_of(factors: tuple[Array, ...]) -> Operator:
            if len(factors) > 1:
                down, across = map(np.ascontiguousarray, factors)
                return Separable(down, across, self.channels)
            return Bank(factors[0].reshape(1, *self._extent), self.channels)

        wide = Wide(self.image, operator_of, self._region, self._extent, self._team)
        wide.run(kernels, planes)
        return out

    def transform(self, bank: Array, method: FilterMethod) -> Array | None:
        """Filter by transforms; None where they do not pay, or would not do."""
        made = Transformed(self.image, bank, self._region)
        if method == "auto" and not made.wins(self._team):
            return None
        refusal = made.refusal()
        if refusal is not None:
            if method == "fft":
                raise ValueError(f"{refusal} for method='fft'")
            self._by_pixels = True
            return None
        refuse_note()
        out, planes = self._results()
        made.run(planes)
        return out

    def _results(self) -> tuple[Array, Array]:
        """Give the array of the results, and its planes (n, rows, columns, C)."""
        out: Any = self._out
        if out is None:
            out = empty_aligned(self._shape, self.dtype)
        return out, out.reshape(-1, *self._region.shape, self.channels)

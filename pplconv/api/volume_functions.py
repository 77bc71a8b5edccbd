"""`conv3d` and `conv_transpose3d`: volumes as batches of images."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex

import numpy.typing as npt

from ..arguments import checks
from ..arguments.activation import settled
from ..memory.namespaces import as_given
from ..ops import slabs, volume_images
from ..ops.extension import check_padding_mode
from ..ops.folds import folded_shape
from ..ops.transposed.transposed_problem import check_output_padding, check_padding
from .function import conv2d
from .given_arrays import native_dtype, operands_of
from .transposed_function import conv_transpose2d

if TYPE_CHECKING:
    from .._literals import PaddingWord, TransposedPaddingWord, VolumeLayout
    from .layer import (
        _Activation,
        _Algorithm,
        _ArrayLike,
        _PaddingMode,
        _Precision,
        _Sides,
        _Triple,
    )

__all__ = ["conv3d", "conv_transpose3d"]

Array = npt.NDArray[Any]


def conv3d(
    input: _ArrayLike,
    weight: _ArrayLike,
    bias: _ArrayLike | None = None,
    stride: _Triple = 1,
    padding: _Sides | PaddingWord = 0,
    dilation: _Triple = 1,
    groups: SupportsIndex = 1,
    *,
    activation: _Activation = None,
    residual: _ArrayLike | None = None,
    layout: VolumeLayout = "NCDHW",
    algorithm: _Algorithm = "auto",
    tolerance: SupportsFloat | None = None,
    precision: _Precision = None,
    threads: SupportsIndex | None = None,
    max_workspace: SupportsIndex | None = None,
    padding_mode: _PaddingMode = "zeros",
    out: Array | None = None,
) -> Array:
    """Convolve a batch of volumes: 3-D cross-correlation, as `torch.nn.functional.conv3d`.

    It packs the weights at each call and keeps only plans; a program that uses the same weights
    again should make a `Conv3d`.

    Parameters
    ----------
    input : array_like, shape (N, C, D, H, W) or (C, D, H, W)
        float16, bfloat16, float32 or float64, of any strides; (N, D, H, W, C) or (D, H, W, C) for
        ``layout="NDHWC"``.
    weight : array_like, shape (oc, C / groups, kd, kh, kw)
        Same dtype as `input`; the same shape for both layouts.
    bias : array_like, shape (oc,), optional
        Same dtype as `input`.
    stride, dilation : int or (int, int, int), optional
        In depth, vertical and horizontal.
    padding : int, (int, int, int), ((int, int), (int, int), (int, int)) or str, optional
        Around the input: one number, (depth, vertical, horizontal), ((front, back), (top, bottom),
        (left, right)), or a word as in `conv2d`.
    groups : int, optional
        Groups of channels that do not see one another.
    activation : optional
        Applied last, as in `conv2d`.
    residual : array_like, optional
        Of the output's shape and dtype; added before the activation.
    layout : {"NCDHW", "NDHWC"}, optional
        Of input, residual and output.
    algorithm : {"auto", "depthwise", "pointwise", "winograd", "direct", "im2col"}, optional
        For the convolutions of images that it is divided into; see the notes. ``"auto"`` lets the
        planner choose; another one that cannot serve all of them is an error, which says why.
    tolerance : float, optional
        Largest error that the planner may spend on speed, as in `conv2d`.
    precision : {None, "auto", "fp32", "fp16", "bf16", "low", "low_bf16"}, optional
        Precision of the computation, as in `conv2d`.
    threads : int, optional
        Size of the team, as in `conv2d`. The result's bits do not depend on it.
    max_workspace : int, optional
        Bytes of scratch memory that the convolutions of images may use, as in `conv2d`; copies of
        images do not count.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}, optional
        Values of the padding, as in `conv2d`, in depth as well.
    out : ndarray, optional
        Written and returned; C-contiguous, native, and apart from every operand.

    Returns
    -------
    ndarray
        Shape (N, oc, od, oh, ow) or (oc, od, oh, ow); (N, od, oh, ow, oc) or (od, oh, ow, oc) for
        ``layout="NDHWC"``. Of the input's dtype and library, as in `conv2d`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it, and `out` is untouched.
    MemoryError
        If memory for the output, the packed weights or the scratch cannot be had.

    See Also
    --------
    Conv3d : the same with the weights packed once.
    conv2d : the same with images; dtypes, accuracy and precision are explained there.

    Notes
    -----
    The images that the kernel covers in depth are copied side by side, as one image with kd times
    as many channels, a part of the volume at a time (at most 8 MiB, or what one depth of the
    output needs). Nothing is copied if the kernel has one pixel, or one depth and one row, and
    stride 1 and no padding there. So a convolution of volumes is one of images with as many
    products in a sum, and what `conv2d` says of its error holds: each result is rounded once, and a
    tolerance bounds what Winograd may add. Where each channel is a group of its own, float32 and
    float64 volumes are sums of kd depthwise convolutions instead, each rounded before the next is
    added.

    NaN and infinities reach the outputs whose windows see them, and no others. Padding is left out
    of the sums: it makes no NaN of an infinite weight.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> x = np.ones((1, 3, 8, 32, 32), np.float32)
    >>> w = np.ones((4, 3, 3, 3, 3), np.float32)
    >>> y = pplconv.conv3d(x, w, padding="same", activation="relu")
    >>> y.shape, float(y[0, 0, 4, 16, 16])
    ((1, 4, 8, 32, 32), 81.0)
    """
    form, groups = volume_images.check_layout(layout), checks.integer("groups", groups, 1)
    steps, apart = (
        checks.sizes(name, value, 1, 3)
        for name, value in (("stride", stride), ("dilation", dilation))
    )
    around = volume_images.kept_padding(padding, steps)
    settings = _settings(activation, algorithm, tolerance, precision, threads, max_workspace)
    x, w, b, r = operands_of(input, weight, bias, residual)
    problem = volume_images.convolution(
        x.shape, w.shape, native_dtype(x, "input"), stride=steps, padding=around, dilation=apart,
        groups=groups, layout=form, padding_mode=check_padding_mode(padding_mode),
    )  # fmt: skip
    folded = w.reshape(folded_shape(problem.fold, w.shape))
    of_taps = _of_taps(
        conv2d, partial(slabs.kernel, folded, groups=groups), b, settings, groups=groups,
        layout=volume_images.IMAGES[form], padding_mode=padding_mode,
        **volume_images.image_geometry(problem.fold, steps, around, apart),
    )  # fmt: skip
    return _computed(problem, of_taps, input, (x, w, b, r), out, settings)


def conv_transpose3d(
    input: _ArrayLike,
    weight: _ArrayLike,
    bias: _ArrayLike | None = None,
    stride: _Triple = 1,
    padding: _Sides | TransposedPaddingWord = 0,
    output_padding: _Triple = 0,
    groups: SupportsIndex = 1,
    dilation: _Triple = 1,
    *,
    output_size: _Triple | None = None,
    activation: _Activation = None,
    residual: _ArrayLike | None = None,
    layout: VolumeLayout = "NCDHW",
    algorithm: _Algorithm = "auto",
    tolerance: SupportsFloat | None = None,
    precision: _Precision = None,
    threads: SupportsIndex | None = None,
    max_workspace: SupportsIndex | None = None,
    out: Array | None = None,
) -> Array:
    """Convolve volumes transposed, as `torch.nn.functional.conv_transpose3d`.

    Each place of the input adds the kernel, times its value, to the output. It packs the weights at
    each call and keeps only plans.

    Parameters
    ----------
    input : array_like, shape (N, C, D, H, W) or (C, D, H, W)
        float16, float32 or float64, of any strides; (N, D, H, W, C) or (D, H, W, C) for
        ``layout="NDHWC"``.
    weight : array_like, shape (C, oc / groups, kd, kh, kw)
        Same dtype as `input`.
    bias : array_like, shape (oc,), optional
        Same dtype as `input`.
    stride : int or (int, int, int), optional
        Places of the output from one of the input to the next, in depth, vertical and horizontal.
    padding : int, (int, int, int), ((int, int), (int, int), (int, int)) or str, optional
        What is cut off the output: one number, (depth, vertical, horizontal), ((front, back),
        (top, bottom), (left, right)), or a word as in `conv_transpose2d`.
    output_padding : int or (int, int, int), optional
        What is added to the output at the back, the bottom and the right; less than the stride or
        the dilation.
    groups : int, optional
        Groups of channels that do not see one another.
    dilation : int or (int, int, int), optional
        Places of the output from one tap of the kernel to the next.
    output_size : int or (int, int, int), optional
        Depth, height and width of the output, in place of `output_padding`, as in
        `conv_transpose2d`.
    activation : optional
        Applied last, as in `conv2d`.
    residual : array_like, optional
        Of the output's shape and dtype; added before the activation.
    layout : {"NCDHW", "NDHWC"}, optional
        Of input, residual and output.
    algorithm, tolerance, precision, threads : optional
        As in `conv_transpose2d`, for the transposed convolutions of images that it is divided into.
    max_workspace : int, optional
        Bytes of scratch memory that these may use; copies of images do not count.
    out : ndarray, optional
        Written and returned; C-contiguous, native, and apart from every operand.

    Returns
    -------
    ndarray
        Shape (N, oc, od, oh, ow) or (oc, od, oh, ow), with od = (D - 1) * stride + dilation *
        (kd - 1) + 1 + output_padding - front - back, and oh and ow likewise; (N, od, oh, ow, oc)
        or (od, oh, ow, oc) for ``layout="NDHWC"``. Of the input's dtype and library, as in
        `conv2d`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it, and `out` is untouched.
    MemoryError
        If memory for the output, the packed weights or the scratch cannot be had.

    See Also
    --------
    conv_transpose2d : the same with images.
    conv3d : the ordinary convolution; its notes say how volumes become images.

    Notes
    -----
    The order of the positional arguments is PyTorch's, where groups come before the dilation.
    Outputs at the same place in the stride see the same depths of the kernel, and are one
    transposed convolution of images.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> x = np.ones((1, 16, 4, 8, 8), np.float32)
    >>> w = np.ones((16, 4, 2, 2, 2), np.float32)
    >>> pplconv.conv_transpose3d(x, w, stride=2).shape
    (1, 4, 8, 16, 16)
    """
    form, groups = volume_images.check_layout(layout), checks.integer("groups", groups, 1)
    steps, apart = (
        checks.sizes(name, value, 1, 3)
        for name, value in (("stride", stride), ("dilation", dilation))
    )
    around = check_padding(padding, 3)
    more = check_output_padding(output_padding, steps, apart)
    size = None if output_size is None else checks.sizes("output_size", output_size, 1, 3)
    settings = _settings(activation, algorithm, tolerance, precision, threads, max_workspace)
    x, w, b, r = operands_of(input, weight, bias, residual)
    problem = volume_images.transposed_convolution(
        x.shape, w.shape, native_dtype(x, "input"), stride=steps, padding=around,
        output_padding=more, output_size=size, dilation=apart, groups=groups, layout=form,
    )  # fmt: skip

    of_taps = _of_taps(
        conv_transpose2d, partial(slabs.kernel, w, groups=groups, transposed=True), b, settings,
        output_padding=more[1:], output_size=None if size is None else size[1:], groups=groups,
        layout=volume_images.IMAGES[form],
        **volume_images.image_geometry(problem.fold, steps, around, apart),
    )  # fmt: skip
    return _computed(problem, of_taps, input, (x, w, b, r), out, settings)


def _settings(
    activation: object, algorithm: str, tolerance: Any, precision: Any, threads: Any, most: Any
) -> dict[str, Any]:
    """Read arguments that may run the caller's code, before there are views of arrays."""
    return {
        "activation": settled(activation), "algorithm": algorithm,
        "tolerance": checks.check_tolerance(tolerance), "precision": precision,
        "threads": checks.check_threads(threads),
        "max_workspace": checks.check_max_workspace(most),
    }  # fmt: skip


def _of_taps(
    function: Callable[..., Array],
    kernel: Callable[..., Array],
    bias: Array | None,
    settings: dict[str, Any],
    **geometry: Any,
) -> volume_images.Operator:
    """Make convolutions of images by some taps; `kernel` gives their weights."""

    @cache
    def of_taps(taps: tuple[int, ...], first: bool, last: bool) -> Callable[..., Array]:
        own = {**settings, "activation": settings["activation"] if last else None}
        own["bias"] = bias if first else None
        return partial(function, weight=kernel(taps=taps), **geometry, **own)

    return of_taps


def _computed(
    problem: volume_images.Volumes,
    of_taps: volume_images.Operator,
    input: object,
    operands: tuple[Array, Array, Array | None, Array | None],
    out: Any,
    settings: dict[str, Any],
) -> Array:
    x, weight, bias, residual = operands
    refusable = settings["algorithm"] != "auto" or settings["max_workspace"] is not None
    result = problem.compute(
        of_taps, x, residual, out, refusable=refusable, weight=weight, bias=bias
    )
    return as_given(input, result, out)

"""`qconv2d` and `conv2d_integer`: quantized convolutions with ONNX's arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from ..arguments import checks
from ..arguments.argument_names import named
from ..arguments.settings import checked
from ..memory.array_like import array_of, run_no_code
from ..memory.arrays import refuse_overlap
from ..memory.namespaces import as_given
from ..ops.quantized import quantization
from ..ops.quantized.quantization import DTYPES, Array
from ..ops.quantized.quantized_description import QuantizedConv, Scales, check_conv_layout
from ..ops.quantized.quantized_run import QuantizedKernel
from .quantized_layer import refuse_residual

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from .layer import _Algorithm, _ArrayLike, _Clamp, _IntOrPair, _Padding, _PlainLayout


def qconv2d(
    x: _ArrayLike,
    x_scale: _ArrayLike | None,
    x_zero_point: _ArrayLike | None,
    w: _ArrayLike,
    w_scale: _ArrayLike | None,
    w_zero_point: _ArrayLike | None,
    y_scale: _ArrayLike | None = None,
    y_zero_point: _ArrayLike | None = None,
    bias: _ArrayLike | None = None,
    *,
    stride: _IntOrPair = 1,
    padding: _Padding = 0,
    dilation: _IntOrPair = 1,
    groups: SupportsIndex = 1,
    activation: _Clamp = None,
    residual: _ArrayLike | None = None,
    residual_scale: _ArrayLike | None = None,
    residual_zero_point: _ArrayLike | None = None,
    out_dtype: DTypeLike | None = None,
    layout: _PlainLayout = "NCHW",
    algorithm: _Algorithm = "auto",
    threads: SupportsIndex | None = None,
    max_workspace: SupportsIndex | None = None,
    out: Array | None = None,
) -> Array:
    """Convolve quantized images: ONNX's QLinearConv, with its order of arguments.

    Numbers q of the arrays stand for ``scale * (q - zero_point)``. The sums are exact, and results
    are the same bit for bit on every CPU and for every team; docs/quantization.md has the contract.
    It packs the weights at each call; a program that uses the same weights again should make a
    `QConv2d`.

    Parameters
    ----------
    x : array_like, shape (N, C, H, W) or (C, H, W)
        uint8 or int8; (N, H, W, C) or (H, W, C) for ``layout="NHWC"``.
    x_scale, y_scale : float
        Scales of input and output, float32 (other numbers are rounded to it), more than 0 and
        finite. `y_scale` is None for outputs that are int32 or float32.
    x_zero_point, y_zero_point : int or None
        Of the type of input and output; None is 0.
    w : array_like, shape (oc, C / groups, kh, kw)
        uint8 or int8.
    w_scale : float or array_like, shape (oc,)
        Scale of the weights, one for all or one for each output channel.
    w_zero_point : int or array_like, shape (oc,), or None
        One for all or one for each output channel, independent of `w_scale`.
    bias : array_like, shape (oc,), optional
        int32, in units of ``x_scale * w_scale``; or float32, in real units: it is divided by them
        and rounded to int32, ties to even.
    stride, padding, dilation, groups : optional
        As in `conv2d`. Padding has the value of `x_zero_point`, which stands for zero.
    activation : optional
        None, ``"relu"``, ``"relu6"`` or ``("clip", low, high)``, in real units.
    residual : array_like, optional
        Of the output's shape and type; added before the activation.
    residual_scale, residual_zero_point : optional
        Of the residual; None for a float32 residual.
    out_dtype : {uint8, int8, int32, float32}, optional
        Of the output. int32: the sums with the bias. float32: real units. None: the type of
        `y_zero_point` if it is a NumPy scalar, else that of `x`.
    layout : {"NCHW", "NHWC"}, optional
        Of input, residual and output.
    algorithm, threads, max_workspace : optional
        As in `conv2d`.
    out : ndarray, optional
        Written and returned; C-contiguous, native, and apart from every operand.

    Returns
    -------
    ndarray
        Shape (N, oc, oh, ow) or (oc, oh, ow); (N, oh, ow, oc) for ``layout="NHWC"``. Of the library
        of `x`, as in `conv2d`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described, a scale is not more than 0 and finite, a zero point is
        out of range, or a sum could leave int32 for some input; the message names the argument, and
        `out` is untouched.
    MemoryError
        If memory for the output, the packed weights or the scratch cannot be had.

    See Also
    --------
    QConv2d : the same with the weights packed once.
    conv2d_integer : the sums alone.

    References
    ----------
    .. [1] https://onnx.ai/onnx/operators/onnx__QLinearConv.html

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> x = np.full((1, 3, 32, 32), 132, np.uint8)
    >>> w = np.ones((8, 3, 3, 3), np.int8)
    >>> y = pplconv.qconv2d(x, 0.5, 128, w, 0.25, 0, 0.5, np.uint8(10), activation="relu")
    >>> y[0, 0, 0, :3]
    array([37, 37, 37], dtype=uint8)
    """
    given, x = x, array_of(x, "x")
    scales = Scales(
        x_scale, x_zero_point, w_scale, w_zero_point, y_scale, y_zero_point, residual_scale,
        residual_zero_point, _input_type(x), out_dtype, activation,
    )  # fmt: skip
    geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    settings = {"algorithm": algorithm, "threads": threads, "max_workspace": max_workspace}
    y = _convolved(given, x, w, bias, scales, geometry, layout, settings, residual, out)
    return as_given(given, y, out)


def conv2d_integer(
    x: _ArrayLike,
    w: _ArrayLike,
    x_zero_point: _ArrayLike | None = 0,
    w_zero_point: _ArrayLike | None = 0,
    *,
    stride: _IntOrPair = 1,
    padding: _Padding = 0,
    dilation: _IntOrPair = 1,
    groups: SupportsIndex = 1,
    layout: _PlainLayout = "NCHW",
    algorithm: _Algorithm = "auto",
    threads: SupportsIndex | None = None,
    max_workspace: SupportsIndex | None = None,
    out: Array | None = None,
) -> Array:
    """Convolve integers: ONNX's ConvInteger, the exact sums in int32.

    Parameters
    ----------
    x : array_like, shape (N, C, H, W) or (C, H, W)
        uint8 or int8; (N, H, W, C) or (H, W, C) for ``layout="NHWC"``.
    w : array_like, shape (oc, C / groups, kh, kw)
        uint8 or int8.
    x_zero_point : int, optional
        Subtracted from `x`; padding has its value.
    w_zero_point : int or array_like, shape (oc,), optional
        Subtracted from `w`: one for all or one for each output channel.
    stride, padding, dilation, groups, algorithm, threads, max_workspace : optional
        As in `conv2d`.
    layout : {"NCHW", "NHWC"}, optional
        Of input and output.
    out : ndarray of int32, optional
        Written and returned; C-contiguous, native, and apart from every operand.

    Returns
    -------
    ndarray of int32
        Shape (N, oc, oh, ow) or (oc, oh, ow); (N, oh, ow, oc) for ``layout="NHWC"``. Of the library
        of `x`, as in `conv2d`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described, or a sum could leave int32 for some input; the message
        names the argument, and `out` is untouched.
    MemoryError
        If memory for the output, the packed weights or the scratch cannot be had.

    See Also
    --------
    qconv2d : with scales.

    References
    ----------
    .. [1] https://onnx.ai/onnx/operators/onnx__ConvInteger.html

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> x = np.arange(9, dtype=np.uint8).reshape(1, 1, 3, 3)
    >>> w = np.ones((1, 1, 2, 2), np.uint8)
    >>> pplconv.conv2d_integer(x, w, 1)[0, 0]
    array([[ 4,  8],
           [16, 20]], dtype=int32)
    """
    given, x = x, array_of(x, "x")
    scales = Scales(
        x_zero_point=x_zero_point,
        w_zero_point=w_zero_point,
        x_dtype=_input_type(x),
        out_dtype=np.int32,
    )
    geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    settings = {"algorithm": algorithm, "threads": threads, "max_workspace": max_workspace}
    y = _convolved(given, x, w, None, scales, geometry, layout, settings, None, out)
    return as_given(given, y, out)


def _input_type(x: Array) -> np.dtype[Any]:
    return DTYPES[quantization.integer_name(x, "x")]


def _convolved(
    given: Any,
    x: Array,
    w: Any,
    bias: Any,
    scales: Scales,
    geometry: dict[str, Any],
    layout: str,
    settings: dict[str, Any],
    residual: Any,
    out: Array | None,
) -> Array:
    """Run one convolution; argument names are those that both functions share."""
    w = given_w = array_of(w, "w")
    # Reading other objects may run code that changes `w`, and a view does not notice.
    if not run_no_code(bias, *vars(scales).values(), *geometry.values(), *settings.values()):
        w = w.copy()
    groups = checks.integer("groups", geometry["groups"], 1)
    layout = check_conv_layout(layout)
    with named(input="x", weight="w"):
        described = QuantizedConv.of(w, bias, groups, scales)
        kernel = QuantizedKernel(
            **described.keywords(), **geometry, layout=layout, **checked(settings), once=True
        )
        output = described.output
        if residual is not None and output.residual_scale is None and output.dtype != "f32":
            refuse_residual(DTYPES[output.dtype])
        if out is not None:
            refuse_overlap(out, w=given_w, bias=bias)
        # The kernel reads an instance of a subclass again, now that the geometry has been read.
        y: Array = kernel(given if issubclass(type(given), np.ndarray) else x, residual, out)
    return y

"""Types of `conv_transpose2d`. An array of a known dtype gives an array of that dtype."""

from typing import SupportsFloat, SupportsIndex

from numpy.typing import NDArray

from .layer import (
    _Activation,
    _Algorithm,
    _ArrayLike,
    _ImagesLike,
    _IntOrPair,
    _Layout,
    _Precision,
    _Scalar,
)
from .transposed_layer import _TransposedPadding

def conv_transpose2d(
    input: _ImagesLike[_Scalar],
    weight: _ArrayLike,
    bias: _ArrayLike | None = None,
    stride: _IntOrPair = 1,
    padding: _TransposedPadding = 0,
    output_padding: _IntOrPair = 0,
    groups: SupportsIndex = 1,
    dilation: _IntOrPair = 1,
    *,
    output_size: _IntOrPair | None = None,
    activation: _Activation = None,
    residual: _ArrayLike | None = None,
    layout: _Layout = "NCHW",
    algorithm: _Algorithm = "auto",
    tolerance: SupportsFloat | None = None,
    precision: _Precision = None,
    threads: SupportsIndex | None = None,
    max_workspace: SupportsIndex | None = None,
    out: NDArray[_Scalar] | None = None,
) -> NDArray[_Scalar]:
    """Convolve transposed, as `torch.nn.functional.conv_transpose2d` and ONNX's ``ConvTranspose``.

    Each input pixel adds the kernel, times its value, to the output: the gradient of `conv2d`, used
    to make images larger. It packs the weights at each call and keeps only plans; a program that
    uses the same weights again should make a `ConvTranspose2d`.

    Parameters
    ----------
    input : array_like, shape (N, C, H, W) or (C, H, W)
        float16, float32 or float64; (N, H, W, C) or (H, W, C) for ``layout="NHWC"``;
        (N, ceil(C / block), H, W, block) or the same without N for ``layout="NCHWc"``. Anything
        that `numpy.asarray` or DLPack on the CPU takes.
    weight : array_like, shape (C, oc / groups, kh, kw)
        Same dtype as `input`.
    bias : array_like, shape (oc,), optional
        Same dtype as `input`.
    stride : int or (int, int), optional
        Output pixels from one input pixel to the next, vertical and horizontal.
    padding : int, (int, int), ((int, int), (int, int)) or str, optional
        Output pixels that are cut off: one number, (vertical, horizontal), or ((top, bottom),
        (left, right)); or ``"valid"`` (none), ``"same_upper"``, ``"same_lower"`` (ONNX's
        ``auto_pad``: the output is as large as the input times the stride).
    output_padding : int or (int, int), optional
        Output pixels that are added at the bottom and the right; some of them see no input. Less
        than the stride or the dilation.
    groups : int, optional
        Groups of channels that do not see one another.
    dilation : int or (int, int), optional
        Output pixels from one tap of the kernel to the next.
    output_size : int or (int, int), optional
        Height and width of the output, in place of `output_padding`: one of the sizes from which
        `conv2d` makes images as large as the input.
    activation : optional
        Applied last, as in `conv2d`.
    residual : array_like, optional
        Of the output's shape and dtype; added before the activation.
    layout : {"NCHW", "NHWC", "NCHWc"}, optional
        Of input, residual and output, as in `conv2d`; weights are (C, oc / groups, kh, kw) in each.
    algorithm : {"auto", "depthwise", "pointwise", "winograd", "direct", "im2col"}, optional
        For the ordinary convolutions that it is divided into; see the notes. ``"auto"`` lets the
        planner choose; another one that cannot serve all of them is an error, which says why.
    tolerance : float, optional
        Largest error that the planner may spend on speed, as in `conv2d`.
    precision : {None, "auto", "fp32", "fp16", "bf16", "low", "low_bf16"}, optional
        Precision of the computation, as in `conv2d`.
    threads : int, optional
        Size of the team, as in `conv2d`. The result's bits do not depend on it.
    max_workspace : int, optional
        Bytes of scratch memory that a call may use: the whole team's together, and copies of
        outputs and residuals.
    out : ndarray, optional
        Written and returned; C-contiguous, native, and apart from every operand.

    Returns
    -------
    ndarray
        Shape (N, oc, oh, ow) or (oc, oh, ow), with oh = (H - 1) * stride + dilation * (kh - 1) + 1
        + output_padding - top - bottom, and ow likewise; (N, oh, ow, oc) for ``layout="NHWC"``;
        (N, ceil(oc / block), oh, ow, block) for ``layout="NCHWc"``; of the input's dtype
        and library, as in `conv2d`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it, and `out` is untouched.
    MemoryError
        If memory for the output, the packed weights or the scratch cannot be had.

    See Also
    --------
    ConvTranspose2d : the same with the weights packed once.
    conv2d : the ordinary convolution; dtypes, layouts and precision are explained there.

    Notes
    -----
    The order of the positional arguments is PyTorch's, where groups come before the dilation.

    Outputs at the same place in the stride sum over the same taps, so they are an ordinary
    convolution by these taps. Each is planned as such; where it is cheaper, several are computed as
    one convolution with more channels. In layout NHWC and NCHWc results are written straight to
    their places in the output; in NCHW, with a stride above 1, one more pass over memory puts them
    there.

    NaN and infinities reach the outputs that their taps lead to, and no others. Outputs that see no
    input are the bias (with residual and activation).

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> x = np.ones((1, 16, 8, 8), np.float32)
    >>> w = np.ones((16, 4, 2, 2), np.float32)
    >>> pplconv.conv_transpose2d(x, w, stride=2).shape
    (1, 4, 16, 16)
    """

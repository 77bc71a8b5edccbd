"""Types of `conv2d`. An array of a known dtype gives an array of that dtype."""

from typing import SupportsFloat, SupportsIndex

from numpy.typing import NDArray

from .layer import (
    _Activation,
    _Algorithm,
    _ArrayLike,
    _ImagesLike,
    _IntOrPair,
    _Layout,
    _Padding,
    _PaddingMode,
    _Precision,
    _Scalar,
)

def conv2d(
    input: _ImagesLike[_Scalar],
    weight: _ArrayLike,
    bias: _ArrayLike | None = None,
    stride: _IntOrPair = 1,
    padding: _Padding = 0,
    dilation: _IntOrPair = 1,
    groups: SupportsIndex = 1,
    *,
    activation: _Activation = None,
    residual: _ArrayLike | None = None,
    layout: _Layout = "NCHW",
    algorithm: _Algorithm = "auto",
    tolerance: SupportsFloat | None = None,
    precision: _Precision = None,
    threads: SupportsIndex | None = None,
    max_workspace: SupportsIndex | None = None,
    padding_mode: _PaddingMode = "zeros",
    out: NDArray[_Scalar] | None = None,
) -> NDArray[_Scalar]:
    """Convolve a batch of images: 2-D cross-correlation, as `torch.nn.functional.conv2d`.

    It packs the weights at each call and keeps only plans; a program that uses the same weights
    again should make a `Conv2d`.

    Parameters
    ----------
    input : array_like, shape (N, C, H, W) or (C, H, W)
        float16, bfloat16 (of the package ml_dtypes), float32 or float64; (N, H, W, C) or
        (H, W, C) for ``layout="NHWC"``; (N, ceil(C / block), H, W, block) or the same without N
        for ``layout="NCHWc"``. Anything that `numpy.asarray` or DLPack on the CPU takes.
    weight : array_like, shape (oc, C / groups, kh, kw)
        Same dtype as `input`.
    bias : array_like, shape (oc,), optional
        Same dtype as `input`.
    stride, dilation : int or (int, int), optional
        Vertical and horizontal; an array of two integers will do.
    padding : int, (int, int), ((int, int), (int, int)) or str, optional
        Zeros around the input: one number, (vertical, horizontal), or ((top, bottom),
        (left, right)); or ``"valid"`` (none), ``"same"`` (PyTorch's rule: output as large as
        the input, stride 1 only), ``"same_upper"``, ``"same_lower"`` (ONNX's ``auto_pad``,
        any stride).
    groups : int, optional
        Groups of channels that do not see one another.
    activation : optional
        Applied last; NaN passes through, infinities give the limits.
        None, ``"relu"``, ``"relu6"``, ``("clip", low, high)`` (min(max(x, low), high)),
        ``("leaky_relu", a)`` (a * x below zero, else x), ``("prelu", slope)`` (the same
        with an array_like of one slope for each output channel, or of one for all, cast to
        the type of the arithmetic), ``"hardswish"`` (x * clip(x + 3, 0, 6) / 6),
        ``"sigmoid"`` (1 / (1 + exp(-x))), ``"silu"`` (x * sigmoid(x)), ``"softplus"``
        (log(1 + exp(x))), ``"mish"`` (x * tanh(softplus(x))) or ``"gelu"`` (x * (1 + erf(x
        / sqrt(2))) / 2). ``"hardswish"``, ``"sigmoid"``, ``"silu"``, ``"softplus"``,
        ``"mish"``, ``"gelu"`` add an error of at most 2 eps, ``"mish"`` 2.5, ``"gelu"`` 1.5
        of x, relative to the exact value or to the smallest normal number, whichever is
        larger.
    residual : array_like, optional
        Of the output's shape and dtype; added before the activation.
    layout : {"NCHW", "NHWC", "NCHWc"}, optional
        Of input, residual and output. Weights are OIHW in each. NCHWc, channels in blocks, is
        the layout that `to_blocked` makes; see the notes.
    algorithm : {"auto", "depthwise", "pointwise", "winograd", "direct", "im2col"}, optional
        ``"auto"`` lets the planner choose; another one that cannot serve is an error, which
        says why.
    tolerance : float, optional
        Largest error that the planner may spend on speed, relative to the output's largest
        magnitude, against float64. It says which variants of Winograd may be used: 0 means
        none. All others are direct sums, which any tolerance allows. `Plan.error_bound` is the
        bound of the chosen plan. None: what `pplconv.runtime.tolerance` says around the call, else
        ``PPLCONV_TOLERANCE``, else 1e-5. See the notes.
    precision : {None, "auto", "fp32", "fp16", "bf16", "low", "low_bf16"}, optional
        Precision of the computation. ``"fp32"``: products and sums in float32, even for float16
        and bfloat16 arrays, whose results are rounded once. ``"fp16"`` permits half precision,
        ``"bf16"`` products of bfloat16 that are added up in float32, and ``"low"`` both, also for
        float32 arrays, where the CPU has instructions for them: the planner weighs them against
        float32, whose Winograd may be faster. ``"low_bf16"``: products of bfloat16 wherever the
        CPU has instructions for them, faster or not, but for depthwise convolution. None or
        ``"auto"``: as the arrays are.
    threads : int, optional
        Size of the team. None: what `pplconv.runtime.team` says around the call, else
        ``PPLCONV_NUM_THREADS``, else ``OMP_NUM_THREADS``, else the
        affinity mask and the container's CPU quota. The result's bits do not depend on it.
    max_workspace : int, optional
        Bytes of scratch memory that a call may use, the whole team's together; algorithm,
        blocks and team are chosen to keep to it. Packed weights do not count. What a plan uses
        is `Plan.scratch_bytes`.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}, optional
        Values of the padding, as in ``torch.nn.Conv2d``. ``"reflect"``: the mirror image without
        the edge; the image must be larger than the padding. ``"replicate"``: the edge.
        ``"circular"``: the opposite side; the image must be at least as large as the padding.
    out : ndarray, optional
        Written and returned; C-contiguous, native, and apart from every operand.

    Returns
    -------
    ndarray
        Shape (N, oc, oh, ow) or (oc, oh, ow); (N, oh, ow, oc) for ``layout="NHWC"``;
        (N, ceil(oc / block), oh, ow, block) for ``layout="NCHWc"``; of the input's dtype.
        oh = (H + top + bottom - dilation (kh - 1) - 1) // stride + 1, and ow alike. If
        `input` is of another library that knows the array API, or a tensor of PyTorch, so is the
        result, on memory of its own and without gradients; `out` stays what it is.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it, and `out` is untouched.
    MemoryError
        If memory for the output, the packed weights or the scratch cannot be had.

    See Also
    --------
    Conv2d : the same with the weights packed once.
    to_blocked, from_blocked : arrays in layout NCHWc from and to NCHW.

    Notes
    -----
    Plans follow the results of searches (`pplconv.wisdom`), else an estimate; `Conv2d` and
    ``python -m pplconv search`` can measure instead. Weights that are zero are multiplied like all
    others: finding them would take as long as using them. `Conv2d` may leave them out.

    Convolutions of 2x2 and more taps at stride 1 may go through Winograd's algorithm. Its error is
    relative to the largest output, not to each output. This shows in images: sums of integers are
    not quite integers, and ``y.astype(int)`` makes 2 of 2.9999998 (use `numpy.rint` before); zeros
    near a bright pixel become some 1e-7 of it, and may be negative. ``tolerance=0`` gives direct
    sums, in which zeros stay zero and integers are exact up to 2**24 in float32;
    ``with pplconv.runtime.tolerance(0):`` and ``PPLCONV_TOLERANCE=0`` give them to whole programs.

    In layout NCHWc the last dimension of the input is the block, 1 to 64 channels, and the
    output has the same. The weights determine C; where the block does not divide it, the last
    block ends in spare lanes without a channel. Spare lanes of the input are multiplied by zero
    weights: they may hold any finite numbers, but infinities and NaN spoil every output that they
    reach. Spare lanes of the residual have no effect, and those of the output are zero. An image
    without N whose height equals its number of channels could be an NCHW array, so it is refused;
    pass it as (1, ceil(C / block), H, W, block).

    NaN and infinities reach the outputs whose windows see them, and no others, with every
    algorithm. Padding is left out of the sums: it makes no NaN of an infinite weight.

    All arrays have one dtype, bias, residual and `out` too; none is ever cast, as in PyTorch and
    ONNX. Only Python numbers, in lists or tuples, have no dtype: they take that of input and
    weight, or float64 if both are Python numbers. A tensor that
    records gradients is taken without them; a masked array is refused, as its mask would be
    lost. float16 arrays give a float16 result. On a CPU
    without arithmetic of half precision they are computed in float32, bias, residual and
    activation included, and each element is rounded once, to the nearest: its error is half a
    unit in its last place beside that of float32. Results beyond 65504 then become infinite.
    `tolerance` is the error that may be spent besides that rounding. ``"auto"`` never chooses
    Winograd for float16 or bfloat16. Arithmetic in half precision first rounds
    input and weights of float32 to it. Bias, residual and activation are then separate steps in
    half precision, and numbers beyond 65504 are infinite, even in spare lanes.

    bfloat16 arrays give a bfloat16 array of the type that ml_dtypes has, tensors too. Sums, bias,
    residual and activation are in float32 with every kind of product, and each result is rounded
    once, to the nearest: its error is half a unit in its last place, 2**-8 of it, beside that of
    float32. Products of bfloat16 first round input and weights of float32 to it, which adds up to
    2 * 2**-8 of the largest output. Instructions for these products take subnormal numbers as
    zeros and add in orders of their own, so their last bits differ from float32 and from one
    another: `Plan.bits` names the instructions, and docs/accuracy.md describes them.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> x = np.ones((1, 3, 32, 32), np.float32)
    >>> w = np.ones((8, 3, 3, 3), np.float32)
    >>> pplconv.conv2d(x, w, padding="same", activation="relu").shape
    (1, 8, 32, 32)
    >>> pplconv.conv2d(x, w).shape  # without padding
    (1, 8, 30, 30)
    >>> pplconv.conv2d(x, w, stride=2, padding=1).shape
    (1, 8, 16, 16)
    """

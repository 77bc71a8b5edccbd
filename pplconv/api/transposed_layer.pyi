"""Types of `ConvTranspose2d`. An array of a known dtype gives an array of that dtype."""

from collections.abc import Sequence
from typing import SupportsFloat, SupportsIndex, TypeAlias

from numpy.typing import NDArray

from .._literals import TransposedPaddingWord
from ..ops.transposed.transposed_report import TransposedPlan
from .layer import (
    Layer,
    _Activation,
    _Algorithm,
    _ArrayLike,
    _ImagesLike,
    _IntOrPair,
    _Layout,
    _Precision,
    _Scalar,
    _Search,
    _SearchContext,
)

_TransposedPadding: TypeAlias = (
    SupportsIndex
    | tuple[_IntOrPair, _IntOrPair]
    | list[int]
    | list[tuple[int, int]]
    | list[list[int]]
    | TransposedPaddingWord
)

class ConvTranspose2d(Layer):
    """A transposed 2-D convolution with its weights packed once.

    Safe to call from many threads at once; the GIL is released while it computes. Picklable
    (the weights travel, plans are made again).

    Parameters
    ----------
    weight : array_like, shape (ic, oc / groups, kh, kw)
        float16, float32 or float64. Copied: later changes to the array have no effect.
    bias : array_like, shape (oc,), optional
        Same dtype as `weight`. Copied.
    stride, padding, output_padding, groups, dilation
        As in `conv_transpose2d`, in PyTorch's order.
    activation : optional
        Applied last, as in `conv2d`.
    layout : {"NCHW", "NHWC", "NCHWc"}, optional
        Of input, residual and output, as in `conv2d`.
    algorithm : {"auto", "depthwise", "pointwise", "winograd", "direct", "im2col"}, optional
        For the ordinary convolutions that it is divided into, as in `conv_transpose2d`.
    tolerance : float, optional
        Largest error that the planner may spend on speed, as in `conv2d`.
    precision : {None, "auto", "fp32", "fp16", "bf16", "low", "low_bf16"}, optional
        Precision of the computation, as in `conv2d`.
    input_shape : tuple of int, optional
        Prepare for inputs of this shape now rather than at the first call; for NCHWc it says
        how large a block is.
    search, search_seconds, search_context : optional
        How the ordinary convolutions are planned, as in `Conv2d`; `search_seconds` is for each of
        them. The division into them is always estimated.
    max_workspace : int, optional
        Bytes of scratch memory that a call may use: the whole team's together, and copies of
        outputs and residuals. Packed weights do not count.
    threads : int, optional
        Size of the team, as in `Conv2d`. The result's bits do not depend on it.

    Attributes
    ----------
    weight, bias : ndarray
        The copies, read-only; `bias` is None if there is none.
    weight_shape, in_channels, out_channels, kernel_size
        Taken from the shape of the weights; named as in ``torch.nn.ConvTranspose2d``.
    dtype : numpy.dtype
        That of the weights.
    stride, padding, output_padding, groups, dilation, activation, layout, algorithm, tolerance, precision, search, search_seconds, search_context, max_workspace, threads
        The parameters after the checks: a number has become a pair. All are read-only.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it.
    MemoryError
        If memory for the weights cannot be had.

    See Also
    --------
    conv_transpose2d : the same as a function; its notes say how it is computed.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> up = pplconv.ConvTranspose2d(np.ones((16, 4, 2, 2), np.float32), stride=2)
    >>> up(np.ones((1, 16, 8, 8), np.float32)).shape
    (1, 4, 16, 16)
    """

    def __init__(
        self,
        weight: _ArrayLike,
        bias: _ArrayLike | None = None,
        stride: _IntOrPair = 1,
        padding: _TransposedPadding = 0,
        output_padding: _IntOrPair = 0,
        groups: SupportsIndex = 1,
        dilation: _IntOrPair = 1,
        *,
        activation: _Activation = None,
        layout: _Layout = "NCHW",
        algorithm: _Algorithm = "auto",
        tolerance: SupportsFloat | None = None,
        precision: _Precision = None,
        input_shape: Sequence[SupportsIndex] | None = None,
        search: _Search = "estimate",
        search_seconds: SupportsFloat = 0.5,
        max_workspace: SupportsIndex | None = None,
        threads: SupportsIndex | None = None,
        search_context: _SearchContext = "hot",
    ) -> None: ...
    @property
    def weight_shape(self) -> tuple[int, int, int, int]: ...
    @property
    def in_channels(self) -> int: ...
    @property
    def out_channels(self) -> int: ...
    @property
    def kernel_size(self) -> tuple[int, int]: ...
    @property
    def stride(self) -> tuple[int, int]: ...
    @property
    def padding(self) -> tuple[tuple[int, int], tuple[int, int]] | str: ...
    @property
    def output_padding(self) -> tuple[int, int]: ...
    @property
    def groups(self) -> int: ...
    @property
    def dilation(self) -> tuple[int, int]: ...
    @property
    def layout(self) -> _Layout: ...
    @property
    def algorithm(self) -> _Algorithm: ...
    @property
    def tolerance(self) -> float: ...
    def __call__(
        self,
        input: _ImagesLike[_Scalar],
        residual: _ArrayLike | None = None,
        out: NDArray[_Scalar] | None = None,
        output_size: _IntOrPair | None = None,
    ) -> NDArray[_Scalar]: ...
    def plan_for(  # type: ignore[override]
        self, input_shape: Sequence[SupportsIndex], output_size: _IntOrPair | None = None
    ) -> TransposedPlan: ...

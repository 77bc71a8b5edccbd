"""Types of `Conv2d`. An array of a known dtype gives an array of that dtype."""

from collections.abc import Iterable, Sequence
from typing import Any, SupportsFloat, SupportsIndex

from numpy.typing import DTypeLike

from .._literals import Method
from .layer import (
    Layer,
    _Activation,
    _Algorithm,
    _ArrayLike,
    _Block,
    _IntOrPair,
    _Layout,
    _Padding,
    _PaddingMode,
    _Precision,
    _Search,
    _SearchContext,
    _Sparse,
    _SparseMatrix,
)
from .quantized_layer import QConv2d

class Conv2d(Layer):
    """A 2-D convolution with its weights packed once.

    Safe to call from many threads at once; the GIL is released while it computes. Picklable
    (the weights travel, plans are made again).

    Parameters
    ----------
    weight : array_like, shape (oc, ic / groups, kh, kw)
        float16, bfloat16 (of the package ml_dtypes), float32 or float64. Copied: later changes to
        the array have no effect. Or a matrix of ``scipy.sparse`` or ``torch.sparse`` with a row for
        each output channel (docs/sparse.md), which is made dense.
    bias : array_like, shape (oc,), optional
        Same dtype as `weight`. Copied.
    stride, dilation : int or (int, int), optional
        Vertical and horizontal; an array of two integers will do.
    padding : int, (int, int), ((int, int), (int, int)) or str, optional
        Around the input, as in `conv2d`: one number, (vertical, horizontal), ((top, bottom),
        (left, right)), ``"valid"``, ``"same"``, ``"same_upper"`` or ``"same_lower"``.
    groups : int, optional
        Groups of channels that do not see one another.
    activation : optional
        Applied last, as in `conv2d`.
    layout : {"NCHW", "NHWC", "NCHWc"}, optional
        Of input, residual and output. Weights are OIHW in each. NCHWc, channels in blocks, is
        the layout that `to_blocked` makes; see `conv2d`.
    algorithm : {"auto", "depthwise", "pointwise", "winograd", "direct", "im2col", "sparse"}, optional
        ``"auto"`` lets the planner choose; another one that cannot serve is an error, which
        says why.
    tolerance : float, optional
        Largest error that the planner may spend on speed, relative to the output's largest
        magnitude, against float64. It says which variants of Winograd may be used: 0 means
        none. All others are direct sums, which any tolerance allows. `Plan.error_bound` is the
        bound of the chosen plan. None: what `pplconv.runtime.tolerance` says around the call, else
        ``PPLCONV_TOLERANCE``, else 1e-5. See the notes of `conv2d`.
    precision : {None, "auto", "fp32", "fp16", "bf16", "low", "low_bf16"}, optional
        Precision of the computation. ``"fp32"``: products and sums in float32, even for float16
        and bfloat16 arrays, whose results are rounded once. ``"fp16"`` permits half precision,
        ``"bf16"`` products of bfloat16 that are added up in float32, and ``"low"`` both, also for
        float32 arrays, where the CPU has instructions for them: the planner weighs them against
        float32, whose Winograd may be faster. ``"low_bf16"``: products of bfloat16 wherever the
        CPU has instructions for them, faster or not, but for depthwise convolution. None or
        ``"auto"``: as the arrays are. See the notes of `conv2d`.
    input_shape : tuple of int, optional
        Prepare for inputs of this shape now rather than at the first call; for NCHWc it says
        how large a block is.
    search : {"estimate", "measure", "exhaustive"}, optional
        How plans are made. ``"estimate"``: at once, from the results of earlier searches
        (`pplconv.wisdom`), else by a cost model. ``"measure"``: by timing the candidates that the
        model thinks near the best, unless an earlier search has a result. ``"exhaustive"``: by
        timing every candidate, unless an earlier exhaustive search has a result. Results are
        remembered for later plans. A search never replaces the model's choice by one that was
        slower on one thread, where methods are compared, or in dividing the work over the team.
    search_seconds : float, optional
        How long a search may take for each input shape, packing included. It ends as soon as the
        time is up and the model's choice and one other were timed, so a huge layer may take longer.
        Where too little time is left, the less promising candidates are not timed.
    max_workspace : int, optional
        Bytes of scratch memory that a call may use, the whole team's together, without packed
        weights; algorithm, blocks and team are chosen to keep to it. See `Plan.scratch_bytes`.
    threads : int, optional
        Size of the team. None: what `pplconv.runtime.team` says around the call, else
        ``PPLCONV_NUM_THREADS``, else ``OMP_NUM_THREADS``, else the
        affinity mask and the container's CPU quota. The result's bits do not depend on it.
    search_context : {"hot", "cold"}, optional
        State of the caches in timed runs. ``"hot"``: runs in a row, which find weights and arrays
        in the caches. ``"cold"``: weights, input and output are evicted before each run, as in a
        network that is larger than the caches; fewer runs fit into `search_seconds`. Results are
        kept apart; where one context has none, ``search="estimate"`` uses those of the other.
    sparse : {"auto", True, False}, optional
        Whether weights that are zero may be left out. ``"auto"``: where a tenth of them or more are
        zeros and it pays. True: always (as ``algorithm="sparse"``). False: never. Zeros that are
        left out are not multiplied: an infinite or NaN input does not reach the output through
        them. See docs/sparse.md.
    block : (1, N), optional
        Output channels whose zeros are left out together, 1, 4, 8 or 16. None: found from the
        zeros.
    weight_shape : (int, int, int, int), optional
        (oc, ic / groups, kh, kw), for a sparse matrix of kernels that are not 1x1.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}, optional
        Values of the padding, as in `conv2d`; docs/imaging.md says how it is computed.

    Attributes
    ----------
    weight, bias : ndarray
        The copies, read-only; `bias` is None if there is none.
    weight_shape, in_channels, out_channels, kernel_size
        Taken from the shape of the weights; named as in ``torch.nn.Conv2d``.
    dtype : numpy.dtype
        That of the weights.
    stride, padding, dilation, groups, activation, layout, algorithm, tolerance, precision, search, search_seconds, search_context, max_workspace, threads, sparse, block, padding_mode
        The parameters after the checks: a number has become a pair. All are read-only.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it.
    MemoryError
        If memory for the weights cannot be had.

    See Also
    --------
    conv2d : the same as a function.
    wisdom : the remembered results of searches.

    Notes
    -----
    A search runs where a plan is made: here for `input_shape`, else at the first call with an
    input of another shape. It times candidates in turns on random data, and prints nothing;
    ``python -m pplconv search`` does the same for whole networks and shows its progress. An
    interrupt ends it and leaves nothing behind. Epilogues are told apart by their cost: none
    (bias, residual and clips are part of the store), another pass over each tile (slopes, say), or
    one with exponentials; ``python -m pplconv search --help`` lists them.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> conv = pplconv.Conv2d(np.ones((8, 3, 3, 3), np.float32), padding=1, activation="relu")
    >>> conv(np.ones((1, 3, 32, 32), np.float32)).shape
    (1, 8, 32, 32)
    """

    def __init__(
        self,
        weight: _ArrayLike | _SparseMatrix,
        bias: _ArrayLike | None = None,
        stride: _IntOrPair = 1,
        padding: _Padding = 0,
        dilation: _IntOrPair = 1,
        groups: SupportsIndex = 1,
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
        sparse: _Sparse = "auto",
        block: _Block = None,
        weight_shape: Sequence[SupportsIndex] | None = None,
        padding_mode: _PaddingMode = "zeros",
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
    def dilation(self) -> tuple[int, int]: ...
    @property
    def groups(self) -> int: ...
    @property
    def layout(self) -> _Layout: ...
    @property
    def algorithm(self) -> _Algorithm: ...
    @property
    def tolerance(self) -> float: ...
    @property
    def sparse(self) -> _Sparse: ...
    @property
    def block(self) -> tuple[int, int] | None: ...
    @property
    def padding_mode(self) -> _PaddingMode: ...
    def quantize(
        self,
        samples: _ArrayLike | Iterable[_ArrayLike | tuple[_ArrayLike, _ArrayLike]],
        *,
        method: Method = "minmax",
        percentile: float = 99.99,
        per_channel: bool = True,
        symmetric: bool = True,
        x_dtype: DTypeLike = "uint8",
        out_dtype: DTypeLike | None = None,
    ) -> QConv2d: ...

def _unpickle(*values: Any) -> Conv2d: ...

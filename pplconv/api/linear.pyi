"""Types of `Linear`. An array of a known dtype gives an array of that dtype."""

from collections.abc import Sequence
from typing import SupportsFloat, SupportsIndex

from .layer import (
    Layer,
    _Activation,
    _ArrayLike,
    _Block,
    _Precision,
    _Search,
    _SearchContext,
    _Sparse,
    _SparseMatrix,
)

class Linear(Layer):
    """A fully connected layer, ``activation(x @ weight.T + bias)``, with its weights packed once.

    Safe to call from many threads at once; the GIL is released while it computes. Picklable
    (the weights travel, plans are made again).

    Parameters
    ----------
    weight : array_like, shape (out_features, in_features)
        float16, bfloat16 (of the package ml_dtypes), float32 or float64, as in
        ``torch.nn.Linear``. Copied: later changes to the array have no effect. Or a sparse matrix
        of ``scipy.sparse`` or ``torch.sparse``, as in `Conv2d`.
    bias : array_like, shape (out_features,), optional
        Same dtype as `weight`. Copied.
    activation : optional
        Applied last, as in `Conv2d`; the slopes of ``("prelu", slope)`` are one for each output
        feature, or one for all.
    precision : {None, "auto", "fp32", "fp16", "bf16", "low", "low_bf16"}, optional
        Precision of the computation, as in `Conv2d`.
    input_shape : tuple of int, optional
        Prepare for inputs of this shape now rather than at the first call.
    search : {"estimate", "measure", "exhaustive"}, optional
        How plans are made, as in `Conv2d`.
    search_seconds : float, optional
        How long a search may take for each number of rows.
    max_workspace : int, optional
        Bytes of scratch memory that a call may use, the whole team's together.
    threads : int, optional
        Size of the team, as in `Conv2d`. The result's bits do not depend on it.
    search_context : {"hot", "cold"}, optional
        State of the caches in timed runs, as in `Conv2d`.
    sparse : {"auto", True, False}, optional
        Whether weights that are zero may be left out, as in `Conv2d`.
    block : (1, N), optional
        Output features whose zeros are left out together, as in `Conv2d`.

    Attributes
    ----------
    weight, bias : ndarray
        The copies, read-only; `bias` is None if there is none.
    weight_shape, in_features, out_features
        Taken from the shape of the weights; named as in ``torch.nn.Linear``.
    dtype : numpy.dtype
        That of the weights.
    activation, precision, search, search_seconds, search_context, max_workspace, threads, sparse, block
        The parameters after the checks. All are read-only.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it.
    MemoryError
        If memory for the weights cannot be had.

    See Also
    --------
    matmul : the same as a function of two matrices, either of which may change.
    Conv2d : a convolution; one with 1x1 kernels in layout NHWC is the same product.

    Notes
    -----
    Every sum is one chain of multiply-adds in ascending order of k, in float64 or float32 (float16
    and bfloat16 as in `conv2d`), however many threads there are and however the work is blocked.
    The blocks follow the formulas of MegEngine's document on matrix products: the tile fills the
    registers, one operand's panel stays in L1, and rows of the input in L2.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> layer = pplconv.Linear(np.ones((8, 3), np.float32), activation="relu")
    >>> layer(np.ones((2, 5, 3), np.float32)).shape
    (2, 5, 8)
    """

    def __init__(
        self,
        weight: _ArrayLike | _SparseMatrix,
        bias: _ArrayLike | None = None,
        *,
        activation: _Activation = None,
        precision: _Precision = None,
        input_shape: Sequence[SupportsIndex] | None = None,
        search: _Search = "estimate",
        search_seconds: SupportsFloat = 0.5,
        max_workspace: SupportsIndex | None = None,
        threads: SupportsIndex | None = None,
        search_context: _SearchContext = "hot",
        sparse: _Sparse = "auto",
        block: _Block = None,
    ) -> None: ...
    @property
    def weight_shape(self) -> tuple[int, int]: ...
    @property
    def in_features(self) -> int: ...
    @property
    def out_features(self) -> int: ...
    @property
    def sparse(self) -> _Sparse: ...
    @property
    def block(self) -> tuple[int, int] | None: ...

# cython: boundscheck=False, wraparound=False, initializedcheck=False, binding=True
"""`Linear`: a product with a matrix of weights that is packed once."""

from pplconv.memory.arrays cimport (
    as_given,
    check_operand,
    float_name,
    hold_plain,
    plain_out,
    refuse_out,
)
from pplconv.api.layer cimport Layer, own_copy
from pplconv.ops.prepared cimport Operands, hold_nothing, release_all
from pplconv.ops.ready cimport Ready, ReadyPlans

from functools import partial
import math

from pplconv.api.call_signature import CallSignature
from pplconv.arguments import input_shapes
from pplconv.ops import matrices
from pplconv.arguments.signatures import SIGNATURES
from pplconv.ops.sparse.sparse_matrices import weight_array
from pplconv.ops.sparse.sparse_weights import SparseWeights, checked_sparse
from pplconv.memory.array_like import renewed

cdef tuple KEPT = tuple(SIGNATURES["Linear"].kept.split())


cdef class Linear(Layer):
    """Linear(weight, bias=None, *, activation=None, precision=None, input_shape=None, \
search='estimate', search_seconds=0.5, max_workspace=None, threads=None, search_context='hot', \
sparse='auto', block=None)
--

    A fully connected layer, ``activation(x @ weight.T + bias)``, with its weights packed once.

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
    activation, precision, search, search_seconds, search_context, max_workspace, threads, \
sparse, block
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

    def __init__(self, weight, bias=None, *, activation=None, precision=None, input_shape=None,
                 search="estimate", search_seconds=0.5, max_workspace=None, threads=None,
                 search_context="hot", sparse="auto", block=None):
        given = locals()
        given["weight"] = own_copy(weight_array(weight, dimensions=2))
        self.describe(given)
        self.keep_copies()
        if input_shape is not None:
            self.plan_for(input_shape)

    cdef int describe(self, dict given) except -1:
        array = given["weight"]
        permitted = self.describe_type(float_name(array, "weight"), given)
        matrices.check_weight_shape(array.shape)
        sparse, block, algorithm = checked_sparse(given.get("sparse", "auto"), given.get("block"))
        self.zeros = SparseWeights(array, 1, sparse, block)
        # All plans are direct sums, which any tolerance allows.
        given["algorithm"], given["tolerance"] = algorithm, 0.0
        described = self.describe_rest(given, array, array.shape[0])
        self.plans = ReadyPlans(described, partial(self.zeros.problem, partial(
            matrices.linear_problem, weight_shape=array.shape, dtype=self.dtype_name,
            permitted=permitted)), self.settings)
        self.plans.keep_arrays(self.weight, self.bias)
        return 0

    cdef tuple matrix_shape(self, tuple shape, str name):
        """The shape of the matrix whose rows are all rows of an input."""
        if len(shape) == 0 or shape[len(shape) - 1] != self.weight.shape[1]:
            raise ValueError(f"{name} must have {self.in_features} elements in its last dimension, "
                             f"like weight of shape {self.weight.shape}, got shape {shape}")
        return math.prod(shape[:len(shape) - 1]), self.weight.shape[1]

    def plan_for(self, input_shape):
        """Show how inputs of one shape are computed.

        Parameters
        ----------
        input_shape : tuple of int
            (..., in_features)

        Returns
        -------
        Plan
            `threads` as of `Conv2d.plan_for`.

        Raises
        ------
        TypeError, ValueError
            If an input of this shape could not be computed.
        """
        shape = self.matrix_shape(input_shapes.dimensions_of(input_shape), "input_shape")
        return self.shown_plan(shape)

    @property
    def sparse(self):
        """As it was asked for; `plan_for` tells whether zeros are left out."""
        return self.zeros.sparse

    @property
    def block(self):
        """As it was asked for."""
        return self.zeros.block

    @property
    def in_features(self):
        """Elements of a row of the input."""
        return self.weight.shape[1]

    @property
    def out_features(self):
        """Elements of a row of the output."""
        return self.weight.shape[0]

    __signature__ = CallSignature()

    def __call__(self, input, residual=None, out=None):
        """Multiply.

        Parameters
        ----------
        input : array_like, shape (..., in_features)
            Same dtype as the weights. Anything that `numpy.asarray` or DLPack on the CPU takes.
        residual : array_like, shape (..., out_features), optional
            Added before the activation.
        out : ndarray, optional
            Written and returned; C-contiguous, native, and apart from every operand.

        Returns
        -------
        ndarray, shape (..., out_features)
            Of the library of `input`, as in `conv2d`.

        Raises
        ------
        TypeError, ValueError
            If an argument does not fit; `out` is untouched then.
        MemoryError
            If memory for the output or the scratch cannot be had.
        """
        cdef ReadyPlans plans = self.made()
        cdef object x, y, given = input, shape = None, scope = plans.scope()
        cdef Ready ready = plans.latest(scope)
        cdef Operands o
        cdef bint is_matrix
        cdef object extra = self.added(residual)
        hold_nothing(&o)
        try:
            input = self.taken(input, &o.x)
            if extra is not residual:
                extra = renewed(residual, extra)
            x = input if o.x.held else None
            is_matrix = x is not None and o.x.buffer.ndim == 2
            if (not is_matrix or ready is None
                    or o.x.buffer.shape[0] != ready.prepared.input_dims[0]
                    or o.x.buffer.shape[1] != ready.prepared.input_dims[1]):
                ready = plans.of_shape(self.matrix_shape(input.shape, "input"), scope)
                if x is None:
                    x = hold_plain(input, self.dtype, &o.x)
            if o.x.buffer.ndim != 2:
                shape = (*input.shape[:len(input.shape) - 1], self.weight.shape[0])
                if extra is not None:
                    check_operand(extra, "residual", shape, self.dtype)
                    extra = extra.reshape(ready.prepared.output_shape)
                if out is not None:
                    y = plain_out(out)
                    refuse_out(y, shape, self.dtype)
                    y = y.reshape(ready.prepared.output_shape)
                else:
                    y = None
            else:
                y = out
            y = ready.compute(&o, input, x, extra, y, True)
            if out is not None:
                return out
            return as_given(given, y if shape is None else y.reshape(shape), None)
        finally:
            release_all(&o)

    cdef tuple kept(self):
        return KEPT

    cdef object base(self):
        return Linear

# cython: boundscheck=False, wraparound=False, initializedcheck=False, binding=True
"""`Conv2d`: a convolution with its weights packed once.

A call finds or makes the plan and packed weights of the input's shape (``ready``), turns the arrays
into pointers (`memory.arrays`), and runs the loops (``prepared``).
"""

from libc.stdint cimport int64_t

from pplconv.memory.arrays cimport as_given, batched_shape, float_name, has_dims, hold_plain
from pplconv.ops.prepared cimport Operands, hold_nothing, release_all
from pplconv.api.keyword_hints cimport hint_init
from pplconv.api.layer cimport Layer, own_copy
from pplconv.ops.ready cimport Ready, ReadyPlans

from functools import partial

from pplconv.arguments import checks, input_shapes
from pplconv.ops.extension import check_padding_mode
from pplconv.api.call_signature import CallSignature
from pplconv.api.layer import rebuild
from pplconv.arguments.signatures import SIGNATURES
from pplconv.ops.sparse.sparse_matrices import weight_array
from pplconv.ops.sparse.sparse_weights import SparseWeights, checked_sparse
from pplconv.memory.array_like import renewed
from pplconv.problem import dimensions


cdef tuple KEPT = tuple(SIGNATURES["Conv2d"].kept.split())


cdef class Conv2d(Layer):
    """Conv2d(weight, bias=None, stride=1, padding=0, dilation=1, groups=1, *, activation=None, \
layout='NCHW', algorithm='auto', tolerance=None, precision=None, input_shape=None, \
search='estimate', search_seconds=0.5, max_workspace=None, threads=None, search_context='hot', \
sparse='auto', block=None, weight_shape=None, padding_mode='zeros')
--

    A 2-D convolution with its weights packed once.

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
    algorithm : {"auto", "depthwise", "pointwise", "winograd", "direct", "im2col", "sparse"}, \
optional
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
    stride, padding, dilation, groups, activation, layout, algorithm, tolerance, precision, \
search, search_seconds, search_context, max_workspace, threads, sparse, block, padding_mode
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

    cdef readonly object stride, padding, dilation
    cdef readonly str layout, padding_mode
    cdef readonly int64_t groups
    cdef bint blocked  # layout NCHWc

    def __init__(self, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, *,
                 activation=None, layout="NCHW", algorithm="auto", tolerance=None,
                 precision=None, input_shape=None, search="estimate", search_seconds=0.5,
                 max_workspace=None, threads=None, search_context="hot", sparse="auto", block=None,
                 weight_shape=None, padding_mode="zeros"):
        given = locals()
        given["weight"] = own_copy(weight_array(weight, weight_shape))
        self.describe(given)
        self.keep_copies()
        if input_shape is not None:
            self.shown_plan(input_shapes.full_shape(input_shape, self.layout, self.in_channels))

    cdef int describe(self, dict given) except -1:
        array, padding = given["weight"], given["padding"]
        permitted = self.describe_type(float_name(array, "weight"), given)
        self.groups = checks.integer("groups", given["groups"], 1)
        checks.check_weight_shape(array.shape, self.groups)
        self.stride = checks.pair("stride", given["stride"], 1)
        self.dilation = checks.pair("dilation", given["dilation"], 1)
        # A word such as "same" depends on the input; wrong words are refused here.
        explicit = checks.explicit_padding(padding, (1, 1), (1, 1), self.stride, self.dilation)
        self.padding = padding if isinstance(padding, str) else explicit
        self.layout = checks.check_layout(given["layout"])
        self.blocked = self.layout == "NCHWc"
        self.padding_mode = check_padding_mode(given.get("padding_mode", "zeros"))
        sparse, block, algorithm = checked_sparse(
            given.get("sparse", "auto"), given.get("block"), given["algorithm"])
        self.zeros = SparseWeights(array, self.groups, sparse, block)
        given["algorithm"] = algorithm
        described = self.describe_rest(given, array, array.shape[0])
        self.plans = ReadyPlans(described, partial(self.zeros.problem, partial(
            checks.make_problem, weight_shape=array.shape, dtype=self.dtype_name,
            stride=self.stride, padding=self.padding, dilation=self.dilation, groups=self.groups,
            layout=self.layout, permitted=permitted)), self.settings)
        if self.padding_mode != "zeros":
            self.plans.mode = self.padding_mode
        self.plans.keep_arrays(self.weight, self.bias)
        return 0

    def plan_for(self, input_shape):
        """Show how inputs of one shape are computed.

        Parameters
        ----------
        input_shape : tuple of int
            (N, C, H, W) or (C, H, W); (N, H, W, C) or (H, W, C) for ``layout="NHWC"``;
            (N, ceil(C / block), H, W, block) or the same without N for ``layout="NCHWc"``.

        Returns
        -------
        Plan
            Its `threads` are those of a single call: pins and limits of OpenMP leave fewer.

        Raises
        ------
        TypeError, ValueError
            If an input of this shape could not be computed.
        """
        shape = input_shapes.full_shape(input_shape, self.layout, self.in_channels)
        return self.shown_plan(shape)

    def quantize(self, samples, *, method="minmax", percentile=99.99, per_channel=True,
                 symmetric=True, x_dtype="uint8", out_dtype=None):
        """Make the same convolution of eight-bit integers.

        Parameters
        ----------
        samples : array_like, or iterable of array_like or of (input, residual)
            Inputs as calls will have them, some dozens; an iterable is read once. They decide the
            scales of input, output and residual; the signal-to-noise ratio is measured on them.
        method : {"minmax", "percentile", "mse"}, optional
            How scales are found, as in `pplconv.quant.observe`.
        percentile : float, optional
            Likewise.
        per_channel, symmetric : bool, optional
            Of the weights, as in `pplconv.quant.quantize_weights`.
        x_dtype : {uint8, int8}, optional
            Of inputs.
        out_dtype : {uint8, int8, float32}, optional
            Of outputs, and of residuals. None: that of inputs.

        Returns
        -------
        QConv2d
            With the settings of this object, but any algorithm. `QConv2d.signal_to_noise` says in
            dB how near its outputs come to those of this object.

        Raises
        ------
        TypeError, ValueError
            If an argument is not as described, samples are no inputs or not finite, the activation
            is more than a clamp, or the layout is NCHWc.

        See Also
        --------
        QConv2d : the meaning of numbers in quantized arrays.

        Notes
        -----
        The bias is rounded to int32. If the weights of a channel are so small that its bias would
        not fit, their scale is made larger.

        Examples
        --------
        >>> import numpy as np, pplconv
        >>> rng = np.random.default_rng(0)
        >>> w = rng.standard_normal((8, 3, 3, 3)).astype(np.float32)
        >>> samples = rng.random((4, 3, 32, 32)).astype(np.float32)
        >>> conv = pplconv.Conv2d(w, padding=1, activation="relu").quantize(samples)
        >>> 35 < conv.signal_to_noise < 50
        True
        """
        from pplconv.api.quantizing import quantize_conv

        return quantize_conv(
            self, samples, method=method, percentile=percentile, per_channel=per_channel,
            symmetric=symmetric, x_dtype=x_dtype, out_dtype=out_dtype)

    @property
    def in_channels(self):
        """Channels of inputs, over all groups."""
        return self.weight.shape[1] * self.groups

    @property
    def out_channels(self):
        """Channels of outputs, over all groups."""
        return self.weight.shape[0]

    @property
    def kernel_size(self):
        """Height and width of the kernel."""
        return self.weight.shape[2:]

    @property
    def algorithm(self):
        """The requested algorithm; `plan_for` tells which one runs."""
        return self.settings["algorithm"]

    @property
    def tolerance(self):
        """As it was asked for."""
        return self.settings["tolerance"]

    @property
    def sparse(self):
        """As it was asked for; `plan_for` tells whether zeros are left out."""
        return self.zeros.sparse

    @property
    def block(self):
        """As it was asked for."""
        return self.zeros.block

    __signature__ = CallSignature()

    def __call__(self, input, residual=None, out=None):
        """Convolve.

        Parameters
        ----------
        input : array_like, shape (N, C, H, W) or (C, H, W)
            Same dtype as the weights; (N, H, W, C) or (H, W, C) for ``layout="NHWC"``;
            (N, ceil(C / block), H, W, block) or the same without N for ``layout="NCHWc"``, as
            in `conv2d`. Anything that `numpy.asarray` or DLPack on the CPU takes.
        residual : array_like, optional
            Of the output's shape; added before the activation.
        out : ndarray, optional
            Written and returned; C-contiguous, native, and apart from every operand.

        Returns
        -------
        ndarray
            Shape (N, oc, oh, ow) or (oc, oh, ow); (N, oh, ow, oc) for ``layout="NHWC"``;
            (N, ceil(oc / block), oh, ow, block) for ``layout="NCHWc"``. Of
            the library of `input`, as in `conv2d`.

        Raises
        ------
        TypeError, ValueError
            If an argument does not fit; `out` is untouched then.
        MemoryError
            If memory for the output or the scratch cannot be had.
        """
        cdef ReadyPlans plans = self.made()
        cdef object x, given = input, scope = plans.scope()
        cdef Ready ready = plans.latest(scope)
        cdef Operands o
        cdef object extra = self.added(residual)
        hold_nothing(&o)
        try:
            input = self.taken(input, &o.x)
            if extra is not residual:
                extra = renewed(residual, extra)
            x = input if o.x.held else None
            if self.blocked and input.ndim == 4:
                input_shapes.check_is_blocked("input", input.shape, self.in_channels)
            # A plan with an extension is for padded images, not for images of that size.
            if (x is None or ready is None or ready.extension is not None
                    or not has_dims(&o.x, ready.prepared.input_dims, ready.prepared.ndim)):
                shape = batched_shape(input, "input", dimensions(self.layout))
                ready = plans.of_shape(shape, scope)
                if x is None:
                    x = hold_plain(input, self.dtype, &o.x)
            x = ready.compute(&o, input, x, extra, out, o.x.buffer.ndim == ready.prepared.ndim)
            return as_given(given, x, out)
        finally:
            release_all(&o)

    cdef tuple kept(self):
        return KEPT

    cdef object base(self):
        return Conv2d


hint_init(Conv2d)


def _unpickle(*pickled):
    """Rebuild a `Conv2d` that version 0.1.0 pickled."""
    return rebuild(Conv2d, Conv2d, *pickled)

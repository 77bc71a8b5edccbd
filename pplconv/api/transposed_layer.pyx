# cython: boundscheck=False, wraparound=False, initializedcheck=False, binding=True
"""`ConvTranspose2d`: a transposed convolution with its weights packed once."""

from libc.stdint cimport int64_t

from pplconv.ops.keys cimport keep_plan
from pplconv.api.keyword_hints cimport hint_init
from pplconv.api.layer cimport Layer, own_copy
from pplconv.ops.prepared cimport Operands, hold_nothing, release_all
from pplconv.ops.ready cimport scope_around
from pplconv.api.transposed_function cimport all_finite, computed
from pplconv.memory.arrays cimport as_array, as_given, batched_shape, dtype_name, hold_plain

from pplconv.arguments import checks, input_shapes
from pplconv.ops.transposed import transposed_problem
from pplconv.arguments.argument_names import named
from pplconv.api.call_signature import CallSignature
from pplconv.arguments.signatures import SIGNATURES
from pplconv.ops.transposed.transposed import Transposed
from pplconv.ops.plan_of_parts import as_run_here
from pplconv.ops.transposed.transposed_problem import make_transposed
from pplconv.ops.transposed.transposing import decompose
from pplconv.memory.array_like import renewed
from pplconv.problem import dimensions
from pplconv.runtime import ForkableLock

# Most plans that a layer keeps.
cdef enum:
    PLANS_PER_LAYER = 16


cdef tuple KEPT = tuple(SIGNATURES["ConvTranspose2d"].kept.split())


cdef class ConvTranspose2d(Layer):
    """ConvTranspose2d(weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, \
dilation=1, *, activation=None, layout='NCHW', algorithm='auto', tolerance=None, precision=None, \
input_shape=None, search='estimate', search_seconds=0.5, max_workspace=None, threads=None, \
search_context='hot')
--

    A transposed 2-D convolution with its weights packed once.

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
    stride, padding, output_padding, groups, dilation, activation, layout, algorithm, tolerance, \
precision, search, search_seconds, search_context, max_workspace, threads
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

    cdef readonly object stride, padding, output_padding, dilation
    cdef readonly str layout
    cdef readonly int64_t groups
    cdef object described, permitted, lock
    # `ready`: `Transposed` by input shape, output size and scope. `packed`: packed weights by piece
    # and packing.
    cdef dict ready, packed
    cdef bint finite

    def __init__(self, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1,
                 dilation=1, *, activation=None, layout="NCHW", algorithm="auto", tolerance=None,
                 precision=None, input_shape=None, search="estimate", search_seconds=0.5,
                 max_workspace=None, threads=None, search_context="hot"):
        input_shapes.check_weight_is_no_size(
            weight, "(ic, oc / groups, kh, kw)", "ConvTranspose2d", "numbers of channels")
        given = locals()
        given["weight"] = own_copy(as_array(weight, "weight"))
        self.describe(given)
        self.keep_copies()
        self.finite = all_finite(self.weight, self.dtype)
        if input_shape is not None:
            self.plan_for(input_shape)

    cdef int describe(self, dict given) except -1:
        array = given["weight"]
        self.permitted = self.describe_type(dtype_name(array, "weight"), given)
        self.groups = checks.integer("groups", given["groups"], 1)
        checks.check_weight_shape(array.shape, self.groups, transposed=True)
        self.stride = checks.pair("stride", given["stride"], 1)
        self.dilation = checks.pair("dilation", given["dilation"], 1)
        self.padding = transposed_problem.check_padding(given["padding"])
        self.output_padding = transposed_problem.check_output_padding(
            given["output_padding"], self.stride, self.dilation)
        self.layout = checks.check_layout(given["layout"])
        self.described = self.describe_rest(given, array, array.shape[1] * self.groups)
        self.lock = ForkableLock()
        self.ready, self.packed = {}, {}
        return 0

    cdef object find(self, tuple shape, object output_size):
        """Find or make the `Transposed` for one input shape."""
        if self.ready is None:  # C would follow the pointer
            raise TypeError(f"{type(self).__name__} was made without its __init__")
        scope = scope_around(self.settings["threads"] is None, self.settings["tolerance"] is None)
        if output_size is not None:
            output_size = checks.pair("output_size", output_size, 1)
        cdef tuple key = (shape, output_size, scope)
        cdef object found = self.ready.get(key)
        if found is not None:
            return found
        with self.lock:
            found = self.ready.get(key)
            if found is None:
                problem = make_transposed(
                    shape, self.weight.shape, self.dtype_name, stride=self.stride,
                    padding=self.padding, output_padding=self.output_padding,
                    output_size=output_size, dilation=self.dilation, groups=self.groups,
                    layout=self.layout, permitted=self.permitted)
                found = Transposed(decompose(problem, self.settings, finite=self.finite),
                                   self.weight, self.bias, self.described, self.packed)
                keep_plan(self.ready, key, found, PLANS_PER_LAYER)
                # A packing is dropped with its last plan.
                used = set().union(*[kept.used for kept in self.ready.values()])
                self.packed = {name: self.packed[name] for name in used}
        return found

    def plan_for(self, input_shape, output_size=None):
        """Show how inputs of one shape are computed.

        Parameters
        ----------
        input_shape : tuple of int
            (N, C, H, W) or (C, H, W); (N, H, W, C) or (H, W, C) for ``layout="NHWC"``;
            (N, ceil(C / block), H, W, block) or the same without N for ``layout="NCHWc"``.
        output_size : int or (int, int), optional
            As for a call.

        Returns
        -------
        TransposedPlan
            Its `way` says how the work is divided; its `parts` are the plans of the ordinary
            convolutions. `threads` as of `Conv2d.plan_for`.

        Raises
        ------
        TypeError, ValueError
            If an input of this shape could not be computed.
        """
        shape = input_shapes.full_shape(input_shape, self.layout, self.in_channels)
        with named(input="input_shape"):
            return as_run_here(self.find(shape, output_size).plan)

    @property
    def in_channels(self):
        """Channels of inputs, over all groups."""
        return self.weight.shape[0]

    @property
    def out_channels(self):
        """Channels of outputs, over all groups."""
        return self.weight.shape[1] * self.groups

    @property
    def kernel_size(self):
        """Height and width of the kernel."""
        return self.weight.shape[2:]

    @property
    def algorithm(self):
        """The requested algorithm; `plan_for` tells which ones run."""
        return self.settings["algorithm"]

    @property
    def tolerance(self):
        """As it was asked for."""
        return self.settings["tolerance"]

    __signature__ = CallSignature("residual", "out", "output_size")

    def __call__(self, input, residual=None, out=None, output_size=None):
        """Convolve transposed.

        Parameters
        ----------
        input : array_like, shape (N, C, H, W) or (C, H, W)
            Same dtype as the weights; of the shape that the layout asks for, as in
            `conv_transpose2d`. Anything that `numpy.asarray` or DLPack on the CPU takes.
        residual : array_like, optional
            Of the output's shape; added before the activation.
        out : ndarray, optional
            Written and returned; C-contiguous, native, and apart from every operand.
        output_size : int or (int, int), optional
            Height and width of the output, in place of `output_padding`, as in
            ``torch.nn.ConvTranspose2d``.

        Returns
        -------
        ndarray
            Shape (N, oc, oh, ow) or (oc, oh, ow), and as the layout asks for. Of the library of
            `input`, as in `conv2d`.

        Raises
        ------
        TypeError, ValueError
            If an argument does not fit; `out` is untouched then.
        MemoryError
            If memory for the output or the scratch cannot be had.
        """
        cdef object x, given = input
        cdef Operands o
        if self.ready is None:
            raise TypeError(f"{type(self).__name__} was made without its __init__")
        cdef object extra = self.added(residual)
        if output_size is not None:
            output_size = checks.pair("output_size", output_size, 1)
        hold_nothing(&o)
        try:
            input = self.taken(input, &o.x)
            if extra is not residual:
                extra = renewed(residual, extra)
            x = input if o.x.held else None
            if self.layout == "NCHWc" and input.ndim == 4:
                input_shapes.check_is_blocked("input", input.shape, self.in_channels)
            shape = batched_shape(input, "input", dimensions(self.layout))
            transposed = self.find(shape, output_size)
            if x is None:
                x = hold_plain(input, self.dtype, &o.x)
            x = computed(transposed, &o, input, x, None, None, extra, out,
                         input.ndim == len(shape))
            return as_given(given, x, out)
        finally:
            release_all(&o)

    def __reduce_prepared__(self, threads):
        """Reduce as for any process, which makes plans and packed weights again."""
        return self.__reduce_ex__(5)

    cdef tuple kept(self):
        return KEPT

    cdef object base(self):
        return ConvTranspose2d


hint_init(ConvTranspose2d)

# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""``conv2d`` and ``Conv2d``: from the caller's arrays to a plan's loops and back.

The way of one call: the arguments become a `Prepared` (problem, plan, compiled schedule;
found in a cache or made), the arrays become pointers (`memory.arrays`), and ``prepared`` runs
the loops.
"""

cimport cython
from cpython.buffer cimport PyBUF_ND
from cpython.contextvars cimport get_value
from libc.stdint cimport int64_t

from pplconv.memory.arrays cimport (
    as_array,
    batched_shape,
    check_operand,
    conversion,
    dtype_name,
    has_dims,
    hold,
    hold_plain,
    lies_plain,
)
from pplconv.api.prepared cimport (
    Activation,
    Operands,
    PackedWeights,
    Prepared,
    hold_nothing,
    prepare,
    release_all,
    run,
)
from pplconv.schedules.base cimport Schedule
from pplconv.schedules.team cimport leave_team, take_team
from pplconv.memory.workspace cimport Buffer, borrow, give_back

from dataclasses import replace
from pickle import PickleBuffer

import numpy as np

from pplconv.api import arguments, shapes
from pplconv import planner
from pplconv.api.activation import activation_of, activation_text, kept_activation
from pplconv.api.call_signature import CallSignature
from pplconv.memory.dtypes import DTYPES
from pplconv.problem import dimensions
from pplconv.runtime import ForkableLock, pinned_cores
from pplconv.runtime.scope import SCOPE

# Bounds of the caches: plans are small (a few hundred bytes each, no tables).
cdef enum:
    CONV2D_PLANS = 256
    PLANS_PER_CONV = 16


cdef inline bint is_plain(object value) noexcept:
    """Whether equal values of these exact types mean the same argument (True is not 1)."""
    kind = type(value)
    if kind is int or kind is str or value is None:
        return True
    if kind is tuple:
        for item in <tuple> value:
            if not is_plain(item):
                return False
        return True
    return False


cdef inline bint is_plain_activation(object value) noexcept:
    """The same for an activation, where 6 and 6.0 mean one bound but True is an error."""
    if type(value) is not tuple:
        return is_plain(value)
    for item in <tuple> value:
        if type(item) is not float and type(item) is not int and type(item) is not str:
            return False
    return True


cdef inline bint is_prelu(object value) noexcept:
    """Whether an activation has the form of one with slopes in an array."""
    return (type(value) is tuple and len(<tuple> value) == 2 and type(value[0]) is str
            and value[0] == "prelu")


cdef object plain_bias(object bias, int64_t oc, object dtype):
    """The bias as an array of `oc` elements."""
    bias = as_array(bias, "bias", dtype)
    check_operand(bias, "bias", (oc,), dtype)
    return bias


cdef object computed_bias(object bias, object dtype):
    """The bias in the type that a plan wants, where it may be infinite."""
    if bias is None or bias.dtype == dtype:
        return bias
    with np.errstate(over="ignore"):
        return bias.astype(dtype, order="C")


cdef object AROUND = SCOPE  # read by each call: no look-up of a global


cdef inline object scope_around(bint team, bint tolerance):
    """What the code around the call says: see `pplconv.runtime.scope`.

    Its team and its tolerance, as far as they are asked for; None if there is nothing of that.
    """
    cdef object scope = get_value(AROUND), threads, error
    if scope is None or team and tolerance:
        return scope
    threads = (<tuple> scope)[0] if team else None
    error = (<tuple> scope)[1] if tolerance else None
    return None if threads is None and error is None else (threads, error)


cdef class Ready:
    """A plan together with weights in its packing, and bias and activation in its types.

    `scope` is what it was made for; None if the code around the call had no say.
    """

    cdef Prepared prepared
    cdef PackedWeights packed
    cdef object bias
    cdef Activation activation
    cdef object scope

    def __cinit__(self, Prepared prepared, PackedWeights packed, object bias,
                  Activation activation, object scope):
        self.prepared = prepared
        self.packed = packed
        self.bias = bias
        self.activation = activation
        self.scope = scope


cdef class Conv2d:
    """Conv2d(weight, bias=None, stride=1, padding=0, dilation=1, groups=1, *, activation=None, \
layout='NCHW', algorithm='auto', tolerance=None, precision=None, input_shape=None, \
search='estimate', search_seconds=0.5, max_workspace=None, threads=None)
--

    A 2-D convolution with its weights packed once.

    Safe to call from many threads at once; the GIL is released while it computes. Picklable
    (the weights travel, plans are made again).

    Parameters
    ----------
    weight : array_like, shape (oc, ic / groups, kh, kw)
        float16, float32 or float64. Copied: later changes to the array have no effect.
    bias : array_like, shape (oc,), optional
        Same dtype as `weight`. Copied.
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
        Applied last; NaN passes through, infinities give the limits. None, ``"relu"``,
        ``"relu6"``, ``("clip", low, high)``, ``("leaky_relu", a)`` (a * x below zero, else x),
        ``("prelu", slope)`` (the same with an array_like of one slope for each output channel,
        or of one for all, cast to what is computed in), ``"hardswish"``
        (x * clip(x + 3, 0, 6) / 6), ``"sigmoid"`` or ``"silu"`` (x * sigmoid(x)). The last
        three add an error of at most 2 eps, relative to the exact value or to the smallest
        normal number, whichever is larger.
    layout : {"NCHW", "NHWC", "NCHWc"}, optional
        Of input, residual and output. Weights are OIHW in each. NCHWc, channels in blocks, is
        what `to_blocked` makes; see `conv2d`.
    algorithm : {"auto", "depthwise", "pointwise", "winograd", "direct", "im2col"}, optional
        ``"auto"`` lets the planner choose; another one that cannot serve is an error, which
        says why.
    tolerance : float, optional
        Largest error that the planner may spend on speed, relative to the output's largest
        magnitude, against float64. It says which variants of Winograd may be used: 0 means
        none. All others are direct sums, which any tolerance allows. The bound of what was
        chosen is `Plan.error_bound`. None: what `pplconv.runtime.tolerance` says around the
        call, else ``PPLCONV_TOLERANCE``, else 1e-5. See the notes of `conv2d`.
    precision : {None, "fp32", "fp16"}, optional
        Of the computation. ``"fp32"``: products and sums in float32, also of float16 arrays, whose
        results are rounded once. ``"fp16"`` permits half precision, also for float32 arrays, where
        the CPU has arithmetic for it: the planner weighs it against float32, whose Winograd may be
        faster. None: as the arrays are. See the notes of `conv2d`.
    input_shape : tuple of int, optional
        Prepare for inputs of this shape now rather than at the first call; for NCHWc it says
        how large a block is.
    search : {"estimate", "measure", "exhaustive"}, optional
        How plans are made. ``"estimate"``: at once, by what earlier searches found
        (`pplconv.wisdom`), else by a cost model. ``"measure"``: by timing what the model thinks
        near the best, unless that was found before. ``"exhaustive"``: by timing everything that
        could serve, unless an exhaustive search did before. What a search finds is remembered
        for later plans. It never replaces the model's choice by one that was slower on one
        thread, where methods are compared, or in dividing the work over the team.
    search_seconds : float, optional
        How long a search may take for each input shape, packing included. It ends as soon as
        that is up and the model's choice and one other were timed, which a huge layer exceeds.
        Where too little time is left, the less promising candidates are not timed.
    max_workspace : int, optional
        Bytes of scratch memory that a call may use, the whole team's together; algorithm,
        blocks and team are chosen to keep to it. Packed weights do not count. What a plan uses
        is `Plan.scratch_bytes`.
    threads : int, optional
        Size of the team. None: what `pplconv.runtime.team` says around the call, else
        ``PPLCONV_NUM_THREADS``, else ``OMP_NUM_THREADS``, else the
        affinity mask and the container's CPU quota. The result's bits do not depend on it.

    Attributes
    ----------
    weight, bias : ndarray
        The copies, read-only; `bias` is None if there is none.
    weight_shape, in_channels, out_channels, kernel_size
        What the shape of the weights says, as of ``torch.nn.Conv2d``.
    dtype : numpy.dtype
        That of the weights.
    stride, padding, dilation, groups, activation, layout, algorithm, tolerance, precision, \
search, search_seconds, max_workspace, threads
        The parameters as they were checked: pairs for numbers. All are read-only.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it.
    MemoryError
        If memory for the weights cannot be had.

    See Also
    --------
    conv2d : the same as a function.
    wisdom : what searches found, remembered.

    Notes
    -----
    A search runs where a plan is made: here for `input_shape`, else at the first call with an
    input of another shape. It times candidates in turns on random data, and says nothing;
    ``python -m pplconv search`` does the same for whole networks and shows how it goes on. An
    interrupt ends it and leaves nothing behind. Epilogues are told apart by what they cost: none
    (bias, residual and clips are part of the store), another pass over each tile
    (``"leaky_relu"``, ``"prelu"``, ``"hardswish"``), or one with exponentials (``"sigmoid"``,
    ``"silu"``).

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> conv = pplconv.Conv2d(np.ones((8, 3, 3, 3), np.float32), padding=1, activation="relu")
    >>> conv(np.ones((1, 3, 32, 32), np.float32)).shape
    (1, 8, 32, 32)
    """

    cdef readonly object weight, bias, stride, padding, dilation, activation, dtype, precision
    cdef readonly str layout
    cdef readonly int64_t groups
    cdef object lock
    cdef str dtype_name
    cdef tuple permitted  # types that may be computed in
    cdef dict settings  # as `planner.make_plan` takes them
    cdef object described  # `activation`, checked
    cdef bint free_team, free_tolerance  # no threads=, no tolerance= was given
    cdef bint blocked  # layout NCHWc
    # plans: input shape, with the scope if it has a say, to Ready. `last` is the latest of them,
    # for `latest` and `keep_latest`.
    cdef dict plans
    cdef Ready last

    def __init__(self, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, *,
                 activation=None, layout="NCHW", algorithm="auto", tolerance=None,
                 precision=None, input_shape=None, search="estimate", search_seconds=0.5,
                 max_workspace=None, threads=None):
        shapes.check_weight_is_no_size(weight)
        self.describe(as_array(weight, "weight"), bias, stride, padding, dilation, groups,
                      activation, layout, {
                          "algorithm": algorithm, "tolerance": tolerance, "search": search,
                          "threads": threads, "search_seconds": search_seconds,
                          "max_workspace": max_workspace, "precision": precision,
                      })
        if self.bias is not None:
            self.bias = read_only(np.array(self.bias, self.dtype, order="C"))
        # Packed copies are what is computed with: what is shown had better not be written to.
        self.weight = read_only(np.array(self.weight, self.dtype, order="C", copy=True))
        if input_shape is not None:
            self.ready_for(self.full_shape(input_shape))

    cdef int describe(self, object array, object bias, object stride, object padding,
                      object dilation, object groups, object activation, object layout,
                      dict settings) except -1:
        """Check every argument, and keep it; the arrays are kept as they are."""
        self.dtype_name = dtype_name(array, "weight")
        self.dtype = DTYPES[self.dtype_name]
        self.precision = settings.get("precision")
        self.permitted = arguments.check_precision(self.precision, self.dtype_name)
        self.groups = arguments.integer("groups", groups, 1)
        arguments.check_weight_shape(array.shape, self.groups)
        self.stride = arguments.pair("stride", stride, 1)
        self.dilation = arguments.pair("dilation", dilation, 1)
        self.padding = padding
        if not isinstance(padding, str):
            self.padding = arguments.explicit_padding(
                padding, (1, 1), (1, 1), self.stride, self.dilation)
        else:
            # Words depend on the input; a wrong word or stride is refused here already.
            arguments.explicit_padding(padding, (1, 1), (1, 1), self.stride, self.dilation)
        self.activation = kept_activation(activation, array.shape[0])
        self.described = activation_of(self.activation, array.shape[0])
        self.layout = arguments.check_layout(layout)
        self.blocked = self.layout == "NCHWc"
        self.settings = {
            "algorithm": planner.check_algorithm(settings["algorithm"]),
            "tolerance": arguments.check_tolerance(settings["tolerance"]),
            "search": planner.check_search(settings["search"]),
            "search_seconds": arguments.check_search_seconds(settings["search_seconds"]),
            "max_workspace": arguments.check_max_workspace(settings["max_workspace"]),
            "threads": arguments.check_threads(settings["threads"]),
            "epilogue": self.described.epilogue,
        }
        self.free_team = self.settings["threads"] is None
        self.free_tolerance = self.settings["tolerance"] is None
        self.bias = None if bias is None else plain_bias(bias, array.shape[0], self.dtype)
        self.weight = array
        self.lock = ForkableLock()
        self.plans = {}
        self.last = None
        return 0

    cdef tuple full_shape(self, object shape):
        """The batched shape from a user's, which may lack the batch."""
        cdef int ndim = dimensions(self.layout)
        dims = shapes.dimensions_of(shape)
        if len(dims) == ndim - 1:
            if self.blocked:
                shapes.check_is_blocked("input_shape", dims, self.in_channels)
            dims = (1, *dims)
        if len(dims) != ndim:
            raise ValueError(
                f"input_shape must have {ndim - 1} or {ndim} dimensions with layout "
                f"{self.layout}, got {dims}"
            )
        return dims

    # Without the GIL, a reference that is read while it is replaced may be to what is gone.
    cdef inline Ready latest(self):
        with cython.critical_section(self):
            return self.last

    cdef inline void keep_latest(self, Ready ready) noexcept:
        with cython.critical_section(self):
            self.last = ready

    cdef Ready ready_for(self, tuple shape):
        """Find or make the plan and the packed weights for one input shape."""
        cdef Ready ready
        cdef Prepared prepared
        cdef object scope = scope_around(self.free_team, self.free_tolerance)
        cdef tuple key = shape if scope is None else (scope, shape)
        with self.lock:
            ready = self.plans.get(key)
            if ready is None:
                problem = arguments.make_problem(
                    shape, self.weight.shape, self.dtype_name, stride=self.stride,
                    padding=self.padding, dilation=self.dilation, groups=self.groups,
                    layout=self.layout, permitted=self.permitted)
                prepared = prepare(problem, self.settings)
                ready = self.made_ready(prepared, None, scope)
                while len(self.plans) >= PLANS_PER_CONV:
                    del self.plans[next(iter(self.plans))]
                self.plans[key] = ready
        self.keep_latest(ready)
        return ready

    cdef Ready made_ready(self, Prepared prepared, PackedWeights packed, object scope):
        """Join a plan with packed weights and the epilogue, which plans share where they can."""
        cdef Ready other
        cdef object bias = None
        cdef Activation activation = None
        for other in self.plans.values():
            if other.prepared.bias_type == prepared.bias_type:
                bias, activation = other.bias, other.activation
            # A packing goes with its last plan.
            if packed is None and other.packed.packing == prepared.packing:
                packed = other.packed
        if activation is None:
            bias = computed_bias(self.bias, DTYPES[prepared.bias_type])
            activation = Activation(self.described, prepared.bias_type)
        if packed is None:
            packed = PackedWeights(prepared, self.weight)
        return Ready(prepared, packed, bias, activation, scope)

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
            Under a pin (`pplconv.runtime.pin`) with no more threads than it has cores.

        Raises
        ------
        TypeError, ValueError
            If an input of this shape could not be computed.
        """
        plan = self.ready_for(self.full_shape(input_shape)).prepared.plan
        cores = pinned_cores()
        if cores is None or plan.threads <= cores:
            return plan
        return replace(plan, threads=cores)

    @property
    def weight_shape(self):
        """Shape of the weights, (oc, ic / groups, kh, kw)."""
        return self.weight.shape

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
        """As it was asked for; `plan_for` tells which one runs."""
        return self.settings["algorithm"]

    @property
    def tolerance(self):
        """As it was asked for."""
        return self.settings["tolerance"]

    @property
    def search(self):
        """As it was asked for."""
        return self.settings["search"]

    @property
    def search_seconds(self):
        """As it was asked for."""
        return self.settings["search_seconds"]

    @property
    def max_workspace(self):
        """As it was asked for."""
        return self.settings["max_workspace"]

    @property
    def threads(self):
        """As it was asked for; `plan_for` tells how many run."""
        return self.settings["threads"]

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
            (N, ceil(oc / block), oh, ow, block) for ``layout="NCHWc"``.

        Raises
        ------
        TypeError, ValueError
            If an argument does not fit; `out` is untouched then.
        MemoryError
            If memory for the output or the scratch cannot be had.
        """
        cdef Ready ready = self.latest()
        cdef Operands o
        cdef object x
        cdef bint batched
        cdef object scope = scope_around(self.free_team, self.free_tolerance)
        hold_nothing(&o)
        try:
            if not lies_plain(input, self.dtype, &o.x):
                input = as_array(input, "input", self.dtype)
                if dtype_name(input, "input") != self.dtype_name:
                    raise TypeError(f"input must be {self.dtype} like weight, got {input.dtype}"
                                    f"{conversion(input.dtype, self.dtype)}")
            x = input if o.x.held else None
            if self.blocked and input.ndim == 4:
                shapes.check_is_blocked("input", input.shape, self.in_channels)
            if (x is None or ready is None
                    or ready.scope is not scope and ready.scope != scope
                    or not has_dims(&o.x, ready.prepared.input_dims, ready.prepared.ndim)):
                shape = batched_shape(input, "input", dimensions(self.layout))
                ready = self.plans.get(shape if scope is None else (scope, shape))
                if ready is None:
                    ready = self.ready_for(shape)
                else:
                    self.keep_latest(ready)
                if x is None:
                    x = hold_plain(input, self.dtype, &o.x)
            batched = o.x.buffer.ndim == ready.prepared.ndim
            if ready.bias is not None:
                hold(ready.bias, &o.bias, PyBUF_ND)
            return run(ready.prepared, &o, input, x, ready.packed.data_for(ready.prepared),
                       ready.packed.filters, None, None, residual, ready.activation, out, batched)
        finally:
            release_all(&o)

    def __repr__(self):
        bias = None if self.bias is None else f"<{self.dtype} array of shape {self.bias.shape}>"
        settings = ", ".join(f"{name}={self.settings[name]!r}" for name in SETTINGS)
        return (
            f"{type(self).__name__}(<{self.dtype} array of shape {self.weight.shape}>, "
            f"bias={bias}, stride={self.stride}, padding={self.padding!r}, "
            f"dilation={self.dilation}, groups={self.groups}, "
            f"activation={activation_text(self.activation)}, layout={self.layout!r}, {settings}, "
            f"precision={self.precision!r})"
        )

    cdef tuple arguments_of(self, object weight, object bias):
        """The arguments of `_unpickle`, with these arrays."""
        return (weight, bias, self.stride, self.padding, self.dilation, self.groups,
                self.activation, self.layout, *(self.settings[name] for name in SETTINGS),
                self.precision)

    def __reduce__(self):
        values = self.arguments_of(self.weight, self.bias)
        if type(self) is Conv2d:
            return _unpickle, values
        return _unpickle_subclass, (type(self), *values), state_of(self)

    def __reduce_prepared__(self, threads):
        """Reduce for a process of this machine and version that shares memory with this one.

        Unlike an ordinary pickle it carries the plans and the packed weights, as buffers that
        protocol 5 can leave out of band; `_unpickle_prepared` uses all arrays where they lie.

        Parameters
        ----------
        threads : int
            Team of the other process: plans are made for it, unless `threads` was given to the
            constructor.

        Returns
        -------
        tuple
            As from `object.__reduce__`.
        """
        cdef Ready ready
        cdef Prepared prepared
        # A subclass that has its own way to be pickled is taken at its word.
        if (type(self).__reduce__ is not Conv2d.__reduce__
                or type(self).__reduce_ex__ is not Conv2d.__reduce_ex__):
            return self.__reduce_ex__(5)
        cdef dict settings = dict(self.settings)
        cdef dict packed = {}
        cdef list plans = []
        cdef set wanted = set()
        if settings["threads"] is None:
            settings["threads"] = threads
        if settings["tolerance"] is None:
            settings["tolerance"] = planner.default_tolerance()
        with self.lock:
            kept = list(self.plans.values())
        # A scope has plans of its own here; the other process has one team and one tolerance.
        problems = set()
        for ready in kept:
            packed[ready.packed.packing] = ready.packed
            problems.add(ready.prepared.problem)
        for problem in problems:
            prepared = prepare(problem, settings)
            if prepared.packing not in packed:  # another team may want other panels
                packed[prepared.packing] = PackedWeights(prepared, self.weight)
            plans.append((problem, prepared.plan, prepared.fields))
            wanted.add(prepared.packing)
        values = (self.arguments_of(self.weight, self.bias), plans,
                  {name: PickleBuffer(packed[name]) for name in wanted}, settings["tolerance"])
        if type(self) is Conv2d:
            return _unpickle_prepared, values
        return _unpickle_prepared, (*values, type(self)), state_of(self)

    cdef int take_over(self, list plans, dict packed, double tolerance) except -1:
        """Be ready for what another process of this machine was ready for."""
        cdef Prepared prepared
        cdef PackedWeights weights
        cdef dict taken = {}
        most = planner.share(self.settings["threads"])
        # No more than the tolerance: which team they are for, `__reduce_prepared__` was told.
        cdef object scope = scope_around(False, self.free_tolerance)
        if self.free_tolerance and planner.default_tolerance() != tolerance:
            return 0
        for problem, plan, fields in plans:
            # Another cap on the instruction set: planned and packed when it is wanted.
            if plan.isa != planner.best_isa(plan.numerics):
                continue
            prepared = Prepared(problem, plan, fields, most)
            weights = taken.get(prepared.packing)
            if weights is None:
                weights = PackedWeights(prepared, self.weight, packed[prepared.packing])
                taken[prepared.packing] = weights
            self.last = self.made_ready(prepared, weights, scope)
            shape = problem.input_shape
            self.plans[shape if scope is None else (scope, shape)] = self.last
        return 0


# In the order of 0.1.0, whose pickles end with the fourth.
cdef tuple SETTINGS = (
    "algorithm", "tolerance", "search", "threads", "search_seconds", "max_workspace"
)
cdef tuple PICKLED = (*SETTINGS, "precision")


def _unpickle(weight, bias, stride, padding, dilation, groups, activation, layout, *settings):
    """Rebuild a `Conv2d`."""
    return Conv2d(weight, bias, stride, padding, dilation, groups, activation=activation,
                  layout=layout, **dict(zip(PICKLED, settings)))


def _unpickle_subclass(kind, *values):
    """Rebuild an object of a subclass, whose constructor may take anything."""
    cdef Conv2d conv = Conv2d.__new__(kind)
    weight, bias, stride, padding, dilation, groups, activation, layout, *settings = values
    Conv2d.__init__(conv, weight, bias, stride, padding, dilation, groups, activation=activation,
                    layout=layout, **dict(zip(PICKLED, settings)))
    return conv


cdef object state_of(object conv):
    """What an object of a subclass has beside what `Conv2d` has."""
    # Before Python 3.11 no class has this by itself, and what lies in slots stays behind.
    getstate = getattr(conv, "__getstate__", None)
    return getattr(conv, "__dict__", None) if getstate is None else getstate()


def _unpickle_prepared(tuple values, list plans, dict packed, double tolerance,
                       kind=Conv2d):
    """Rebuild a `Conv2d` on arrays that nobody writes to, with plans and packed weights."""
    cdef Conv2d conv = Conv2d.__new__(kind)
    weight, bias, stride, padding, dilation, groups, activation, layout = values[:8]
    conv.describe(weight, bias, stride, padding, dilation, groups, activation, layout,
                  dict(zip(PICKLED, values[8:])))
    conv.take_over(plans, packed, tolerance)
    return conv


cdef object read_only(object array):
    """A view of an array that refuses to be written to, and to be made writeable again."""
    array.flags.writeable = False
    return array.view()


cdef dict conv2d_plans = {}
cdef object PRELU = object()  # stands in keys for a PReLU of any slopes
cdef object conv2d_lock = ForkableLock()


cdef tuple conv2d_prepared(object x, object w, object stride, object padding, object dilation,
                           object groups, object activation, object layout, object algorithm,
                           object tolerance, object threads, object max_workspace,
                           object precision):
    """Find or make (Prepared, Activation) for one call of `conv2d`."""
    cdef object key = None, found, form = activation
    cdef Prepared prepared
    cdef object scope = get_value(AROUND)
    if scope is not None:
        threads = (<tuple> scope)[0] if threads is None else threads
        tolerance = (<tuple> scope)[1] if tolerance is None else tolerance
    # No key holds slopes: they are taken anew at each call, and plans do not depend on them.
    cdef bint prelu = is_prelu(activation)
    if prelu:
        form = PRELU
    if (is_plain(stride) and is_plain(padding) and is_plain(dilation) and is_plain(groups)
            and (prelu or is_plain_activation(activation)) and is_plain(layout)
            and is_plain(algorithm) and (type(tolerance) is float or is_plain(tolerance))
            and is_plain(threads) and is_plain(max_workspace) and is_plain(precision)):
        key = (x.shape, w.shape, x.dtype.char, stride, padding, dilation, groups,
               form, layout, algorithm, tolerance, threads, max_workspace, precision)
        try:
            found = conv2d_plans.get(key)
        except TypeError:  # an unhashable activation: checked below
            found = key = None
        if found is not None:
            if prelu:
                # In what the plan computes in: the environment may say otherwise by now.
                return found[0], Activation(
                    activation_of(activation, w.shape[0]), (<Prepared> found[0]).bias_type)
            return <tuple> found
    cdef str dtype = dtype_name(x, "input")
    cdef tuple batched = batched_shape(x, "input", dimensions(arguments.check_layout(layout)))
    problem = arguments.make_problem(
        batched, w.shape, dtype, stride=stride, padding=padding, dilation=dilation,
        groups=groups, layout=layout, permitted=arguments.check_precision(precision, dtype))
    if len(batched) == 5 and len(x.shape) == 4:
        shapes.check_is_blocked("input", x.shape, problem.ic)
    described = activation_of(activation, w.shape[0])
    settings = {
        "algorithm": planner.check_algorithm(algorithm),
        "tolerance": arguments.check_tolerance(tolerance),
        "threads": arguments.check_threads(threads),
        "max_workspace": arguments.check_max_workspace(max_workspace),
        "epilogue": described.epilogue,
    }
    prepared = prepare(problem, settings)
    made = prepared, Activation(described, prepared.bias_type)
    if key is not None:
        with conv2d_lock:
            while len(conv2d_plans) >= CONV2D_PLANS:
                del conv2d_plans[next(iter(conv2d_plans))]
            conv2d_plans[key] = (made[0], None) if prelu else made
    return made


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, *,
           activation=None, residual=None, layout="NCHW", algorithm="auto", tolerance=None,
           precision=None, threads=None, max_workspace=None, out=None):
    """Convolve a batch of images: 2-D cross-correlation, as `torch.nn.functional.conv2d`.

    Packs the weights at each call and keeps only plans; a program that uses the same weights
    again should make a `Conv2d`.

    Parameters
    ----------
    input : array_like, shape (N, C, H, W) or (C, H, W)
        float16, float32 or float64; (N, H, W, C) or (H, W, C) for ``layout="NHWC"``;
        (N, ceil(C / block), H, W, block) or the same without N for ``layout="NCHWc"``. Anything
        that `numpy.asarray` or DLPack on the CPU takes.
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
        Applied last; NaN passes through, infinities give the limits. None, ``"relu"``,
        ``"relu6"``, ``("clip", low, high)``, ``("leaky_relu", a)`` (a * x below zero, else x),
        ``("prelu", slope)`` (the same with an array_like of one slope for each output channel,
        or of one for all, cast to what is computed in), ``"hardswish"``
        (x * clip(x + 3, 0, 6) / 6), ``"sigmoid"`` or ``"silu"`` (x * sigmoid(x)). The last
        three add an error of at most 2 eps, relative to the exact value or to the smallest
        normal number, whichever is larger.
    residual : array_like, optional
        Of the output's shape and dtype; added before the activation.
    layout : {"NCHW", "NHWC", "NCHWc"}, optional
        Of input, residual and output. Weights are OIHW in each. NCHWc, channels in blocks, is
        what `to_blocked` makes; see `conv2d`.
    algorithm : {"auto", "depthwise", "pointwise", "winograd", "direct", "im2col"}, optional
        ``"auto"`` lets the planner choose; another one that cannot serve is an error, which
        says why.
    tolerance : float, optional
        Largest error that the planner may spend on speed, relative to the output's largest
        magnitude, against float64. It says which variants of Winograd may be used: 0 means
        none. All others are direct sums, which any tolerance allows. The bound of what was
        chosen is `Plan.error_bound`. None: what `pplconv.runtime.tolerance` says around the
        call, else ``PPLCONV_TOLERANCE``, else 1e-5. See the notes.
    precision : {None, "fp32", "fp16"}, optional
        Of the computation. ``"fp32"``: products and sums in float32, also of float16 arrays, whose
        results are rounded once. ``"fp16"`` permits half precision, also for float32 arrays, where
        the CPU has arithmetic for it: the planner weighs it against float32, whose Winograd may be
        faster. None: as the arrays are.
    threads : int, optional
        Size of the team. None: what `pplconv.runtime.team` says around the call, else
        ``PPLCONV_NUM_THREADS``, else ``OMP_NUM_THREADS``, else the
        affinity mask and the container's CPU quota. The result's bits do not depend on it.
    max_workspace : int, optional
        Bytes of scratch memory that a call may use, the whole team's together; algorithm,
        blocks and team are chosen to keep to it. Packed weights do not count. What a plan uses
        is `Plan.scratch_bytes`.
    out : ndarray, optional
        Written and returned; C-contiguous, native, and apart from every operand.

    Returns
    -------
    ndarray
        Shape (N, oc, oh, ow) or (oc, oh, ow); (N, oh, ow, oc) for ``layout="NHWC"``;
        (N, ceil(oc / block), oh, ow, block) for ``layout="NCHWc"``; of the input's dtype.

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
    Plans are made by what searches found (`pplconv.wisdom`), else by estimate; `Conv2d` and
    ``python -m pplconv search`` can measure instead.

    Convolutions of 3x3 and 5x5 taps at stride 1 may go through Winograd's algorithm. Its error is
    relative to the largest output, not to each, so with numbers such as those of images: sums of
    integers are no integers, and ``y.astype(int)`` makes 2 of 2.9999998 (use `numpy.rint` before);
    zeros near a bright pixel become some 1e-7 of it, and may be negative. ``tolerance=0`` gives
    direct sums, in which zeros stay zero and integers are exact up to 2**24 in float32;
    ``with pplconv.runtime.tolerance(0):`` and ``PPLCONV_TOLERANCE=0`` give them to whole programs.

    In layout NCHWc the last dimension of the input is the block, 1 to 64 channels, and the
    output has the same. C is what the weights say; where the block does not divide it, the last
    block ends in lanes of no channel. Those of the input are multiplied by zero weights: any
    finite numbers may stand there, but infinities and NaN spoil every output that they reach.
    Those of the residual have no effect, and those of the output are written as zero. An image
    without N that is as high as it has channels could be an NCHW array: it is refused, and is
    taken as (1, ceil(C / block), H, W, block).

    NaN and infinities reach the outputs whose windows see them, and no others, whatever the
    algorithm. Only a tap on padding with an infinite weight or NaN is left open: 0 * inf counts
    in ``"im2col"`` alone.

    All arrays are of one dtype, bias, residual and `out` among them; none is ever cast to
    another, as PyTorch and ONNX have it too. Only Python numbers, in lists or tuples, have no
    dtype: they take that of input and weight, and float64 where both are such. A tensor that
    records gradients is taken without them; a masked array is refused, as its mask would be
    lost. float16 arrays give a float16 result. On a CPU
    without arithmetic of half precision they are computed in float32, bias, residual and
    activation included, and each element is rounded once, to the nearest: its error is half a
    unit in its last place beside that of float32. What is beyond 65504 then becomes infinite.
    `tolerance` says what may be spent besides that rounding; yet ``"auto"`` never chooses Winograd
    for float16. Where half precision is computed in, input and weights of float32 are rounded to
    it first, bias, residual and activation are steps of their own in it, and numbers beyond 65504
    are infinite, in lanes of no channel too.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> x = np.ones((1, 3, 32, 32), np.float32)
    >>> w = np.ones((8, 3, 3, 3), np.float32)
    >>> pplconv.conv2d(x, w, padding="same", activation="relu").shape
    (1, 8, 32, 32)
    """
    cdef Prepared prepared
    cdef Activation activated
    cdef Buffer packed
    cdef Operands o
    cdef Schedule schedule
    cdef int team
    cdef bint batched
    cdef object x, w, b = None, plain_x
    if type(input) is list or type(input) is tuple:
        w = as_array(weight, "weight")
        x = as_array(input, "input", w.dtype)
    else:
        x = as_array(input, "input")
        w = as_array(weight, "weight", x.dtype)
    dtype_name(x, "input")
    if w.dtype is not x.dtype and w.dtype.newbyteorder("=") != x.dtype.newbyteorder("="):
        raise TypeError(f"weight must be {x.dtype} like input, got {w.dtype}"
                        f"{conversion(w.dtype, x.dtype)}")
    prepared, activated = conv2d_prepared(x, w, stride, padding, dilation, groups, activation,
                                          layout, algorithm, tolerance, threads, max_workspace,
                                          precision)
    batched = x.ndim == prepared.ndim
    if bias is not None:
        b = plain_bias(bias, w.shape[0], prepared.dtype)
    schedule = prepared.schedule
    hold_nothing(&o)
    try:
        plain_x = hold_plain(x, prepared.dtype, &o.x)
        hold_plain(w, prepared.dtype, &o.weight)
        if b is not None:
            wanted = DTYPES[prepared.bias_type]
            hold_plain(computed_bias(b, wanted), wanted, &o.bias)
        packed = borrow(schedule.packed_bytes())
        try:
            team = take_team(prepared.threads, prepared.most)
            try:
                schedule.pack_weights(<const char *> o.weight.buffer.buf, packed.data, team)
            finally:
                leave_team(team)
            return run(prepared, &o, x, plain_x, packed.data,
                       <const char *> o.weight.buffer.buf, w, b, residual, activated, out,
                       batched)
        finally:
            give_back(packed)
    finally:
        release_all(&o)

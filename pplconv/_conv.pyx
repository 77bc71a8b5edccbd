# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""``conv2d`` and ``Conv2d``: from the caller's arrays to a plan's loops and back.

The way of one call: the arguments become a `Prepared` (problem, plan, compiled schedule;
found in a cache or made), the arrays become pointers, the output is allocated or checked,
scratch is borrowed, and the loops run without the GIL. Everything that can be refused is
refused before the first byte of `out` is written.
"""

from cpython.buffer cimport (
    PyBUF_FORMAT,
    PyBUF_ND,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from libc.stdint cimport int64_t

from pplconv._schedule cimport Schedule, Tensors
from pplconv._workspace cimport Buffer, borrow, give_back

import threading

import numpy as np

from pplconv import _arguments as arguments
from pplconv import planner
from pplconv.runtime import note_openmp_used, safe_team

cdef int safe(int threads):
    if threads > 1:
        threads = safe_team(threads)
        if threads > 1:
            note_openmp_used()
    return threads


cdef object ndarray = np.ndarray
cdef object empty = np.empty
cdef dict DTYPE_NAMES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}

# Bounds of the caches: plans are small (a few hundred bytes each, no tables).
cdef enum:
    CONV2D_PLANS = 256
    PLANS_PER_CONV = 32
    PACKINGS_PER_CONV = 4


cdef class Prepared:
    """A problem, its plan, and the plan compiled."""

    cdef readonly object problem, plan
    cdef Schedule schedule
    cdef tuple input_shape, output_shape
    cdef object dtype
    cdef int64_t dims[4]
    cdef int threads
    cdef str packing

    def __cinit__(self, problem, plan, Schedule schedule, dtype):
        cdef int i
        self.problem = problem
        self.plan = plan
        self.schedule = schedule
        self.dtype = dtype
        self.input_shape = problem.input_shape
        self.output_shape = problem.output_shape
        self.threads = plan.threads
        self.packing = plan.packing
        for i in range(4):
            self.dims[i] = self.input_shape[i]


cdef class Clip:
    """Bounds of the activation in the element type; `data` is NULL where there are none."""

    cdef double storage[2]
    cdef const void *data

    def __cinit__(self, bounds, str dtype):
        cdef float *single = <float *> &self.storage[0]
        self.data = NULL
        if bounds is None:
            return
        self.data = &self.storage[0]
        if dtype == "f32":
            single[0] = bounds[0]
            single[1] = bounds[1]
        else:
            self.storage[0] = bounds[0]
            self.storage[1] = bounds[1]


cdef str dtype_name(object array, str name):
    """"f32" or "f64", or a TypeError that names the argument."""
    cdef object found = DTYPE_NAMES.get(array.dtype.newbyteorder("="))
    if found is None:
        raise TypeError(f"{name} must be float32 or float64, got dtype {array.dtype}")
    return <str> found


cdef object as_array(object value, str name):
    """An ndarray from anything that NumPy or DLPack (on the CPU) takes."""
    if isinstance(value, ndarray):
        return value
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        try:
            device = int(value.__dlpack_device__()[0])
        except (AttributeError, TypeError) as error:
            raise TypeError(f"{name}: object has no usable __dlpack_device__: {error}") from error
        if device != 1:
            raise TypeError(f"{name} must be in CPU memory, got DLPack device type {device}")
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError) as error:
            raise TypeError(f"{name} cannot be taken through DLPack: {error}") from error
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} is no array: {error}") from error


cdef object as_plain(object value, object dtype):
    """`value` as a C-contiguous, aligned array of native `dtype`; itself if it is one."""
    return np.require(value, dtype=dtype, requirements=("C", "A"))


cdef object one_image(object array):
    """Four dimensions from three, without a copy."""
    return array.reshape((1, *array.shape))


cdef int check_dimensions(object array, str name) except -1:
    if array.ndim not in (3, 4):
        raise ValueError(
            f"{name} must have 3 or 4 dimensions, got {array.ndim} (shape {array.shape})"
        )
    return 0


cdef int check_operand(object array, str name, tuple shape, object dtype) except -1:
    """Check that an array has just this shape and dtype (any byte order)."""
    if array.dtype.newbyteorder("=") != dtype:
        raise TypeError(f"{name} must be {dtype} like input, got {array.dtype}")
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    return 0


cdef int check_out(object out, tuple shape, object dtype) except -1:
    """Check that `out` can be written as it lies."""
    if not isinstance(out, ndarray):
        raise TypeError(f"out must be a numpy.ndarray, got {type(out).__name__}")
    if out.dtype != dtype:
        raise TypeError(f"out must be {dtype} in native byte order, got {out.dtype}")
    if out.shape != shape:
        raise ValueError(f"out must have shape {shape}, got {out.shape}")
    flags = out.flags
    if not flags.c_contiguous or not flags.aligned:
        raise ValueError("out must be C-contiguous and aligned")
    if not flags.writeable:
        raise ValueError("out must be writeable, got a read-only array")
    return 0


cdef int check_overlap(object out, object other, str name) except -1:
    """Refuse an `out` that shares memory with an operand."""
    if isinstance(other, ndarray) and np.may_share_memory(out, other):
        try:
            shared = np.shares_memory(out, other, max_work=10_000)
        except np.exceptions.TooHardError:
            shared = True
        if shared:
            raise ValueError(f"out must not overlap {name}")
    return 0


cdef Prepared prepare(object problem, str algorithm, double tolerance, object threads, str search):
    """Plan a problem and compile the plan."""
    plan, fields = planner.make_plan(
        problem, algorithm=algorithm, tolerance=tolerance, threads=threads, search=search
    )
    return compiled(problem, plan, fields)


cdef Prepared compiled(object problem, object plan, dict fields):
    return Prepared(
        problem, plan, Schedule(fields, plan.dtype, plan.isa),
        np.dtype(np.float32 if problem.dtype == "f32" else np.float64),
    )


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


cdef struct View:
    Py_buffer buffer
    bint held


cdef inline void release(View *view) noexcept:
    if view.held:
        PyBuffer_Release(&view.buffer)
        view.held = False


cdef inline int hold(object array, View *view, int flags) except -1:
    PyObject_GetBuffer(array, &view.buffer, flags)
    view.held = True
    return 0


cdef inline bint is_fast(object array) noexcept:
    """Whether the flags of an ndarray allow its memory to be read as it lies."""
    return type(array) is ndarray


cdef object execute(Prepared prepared, object x, const char *weights, object bias,
                    object residual, Clip clip, object out):
    """Run on plain arrays of the right shapes. `out` may be None."""
    cdef View vx, vb, vr, vy
    cdef int team = safe(prepared.threads)
    cdef Tensors t
    cdef Buffer scratch
    cdef Schedule schedule = prepared.schedule
    vx.held = vb.held = vr.held = vy.held = False
    if out is None:
        out = empty(prepared.output_shape, prepared.dtype)
    if prepared.dims[0] == 0:
        return out
    scratch = borrow(schedule.scratch_bytes())
    try:
        hold(x, &vx, PyBUF_ND)
        hold(out, &vy, PyBUF_ND | PyBUF_WRITABLE)
        t.x = <const char *> vx.buffer.buf
        t.y = <char *> vy.buffer.buf
        t.weights = weights
        t.clip = clip.data
        t.bias = NULL
        t.residual = NULL
        if bias is not None:
            hold(bias, &vb, PyBUF_ND)
            t.bias = <const char *> vb.buffer.buf
        if residual is not None:
            hold(residual, &vr, PyBUF_ND)
            t.residual = <const char *> vr.buffer.buf
        with nogil:
            schedule.run(&t, scratch.data, team)
    finally:
        release(&vx)
        release(&vb)
        release(&vr)
        release(&vy)
        give_back(scratch)
    return out


cdef object finish(Prepared prepared, object x, object original, const char *weights,
                   object weight_array, object bias, object residual, Clip clip, object out,
                   bint batched):
    """Check residual and out, run, and drop the batch dimension where the input had none."""
    cdef tuple shape = prepared.output_shape
    cdef object y, plain_residual = None
    cdef tuple expected = shape if batched else shape[1:]
    if residual is not None:
        residual = as_array(residual, "residual")
        check_operand(residual, "residual", expected, prepared.dtype)
    if out is not None:
        check_out(out, expected, prepared.dtype)
        check_overlap(out, original, "input")
        check_overlap(out, weight_array, "weight")
        check_overlap(out, bias, "bias")
        check_overlap(out, residual, "residual")
    if residual is not None:
        plain_residual = as_plain(residual, prepared.dtype)
    y = out if batched or out is None else one_image(out)
    y = execute(prepared, x, weights, bias, plain_residual, clip, y)
    if out is not None:
        return out
    return y if batched else y.reshape(expected)


cdef object plain_bias(object bias, int64_t oc, object dtype):
    """The bias as a plain array of `oc` elements."""
    bias = as_array(bias, "bias")
    check_operand(bias, "bias", (oc,), dtype)
    return bias


cdef class PackedWeights:
    """Weights in the order that a kernel walks; refuses a plan that wants another order.

    Made by `Conv2d`; `packing` says the format, and any plan of that format can use them.
    """

    cdef readonly str packing
    cdef Buffer buffer

    def __cinit__(self, Prepared prepared, weight):
        cdef View view
        cdef int team
        cdef Schedule schedule = prepared.schedule
        self.packing = prepared.packing
        self.buffer = Buffer(schedule.packed_bytes())
        view.held = False
        hold(weight, &view, PyBUF_ND)
        try:
            team = safe(prepared.threads)
            with nogil:
                schedule.pack_weights(<const char *> view.buffer.buf, self.buffer.data, team)
        finally:
            release(&view)

    cdef const char *data_for(self, Prepared prepared) except NULL:
        if prepared.packing != self.packing:
            raise ValueError(
                f"weights are packed as {self.packing}; the plan's kernel wants {prepared.packing}"
            )
        return self.buffer.data


cdef class Conv2d:
    """A 2-D convolution with its weights packed once.

    Safe to call from many threads at once; the GIL is released while it computes. Picklable
    (the weights travel, plans are made again).

    Parameters
    ----------
    weight : array_like, shape (oc, ic / groups, kh, kw)
        float32 or float64. Copied: later changes to the array have no effect.
    bias : array_like, shape (oc,), optional
        Same dtype as `weight`. Copied.
    stride, dilation : int or (int, int), optional
        Vertical and horizontal.
    padding : int, (int, int), ((int, int), (int, int)) or str, optional
        Zeros around the input: one number, (vertical, horizontal), or ((top, bottom),
        (left, right)); or ``"valid"`` (none), ``"same"`` (PyTorch's rule: output as large as
        the input, stride 1 only), ``"same_upper"``, ``"same_lower"`` (ONNX's ``auto_pad``,
        any stride).
    groups : int, optional
        Groups of channels that do not see one another.
    activation : None, "relu", "relu6" or ("clip", low, high), optional
        Applied last; NaN passes through.
    layout : {"NCHW", "NHWC"}, optional
        Of input, residual and output. Weights are OIHW in either.
    algorithm : {"auto", "pointwise", "im2col"}, optional
        ``"auto"`` lets the planner choose.
    tolerance : float, optional
        Largest error that the planner may spend on speed, relative to the output's largest
        magnitude, against float64. Both algorithms of today are direct sums, which meet any
        tolerance that float arithmetic can.
    input_shape : tuple of int, optional
        Prepare for inputs of this shape now rather than at the first call.
    search : {"estimate"}, optional
        How plans are made: by the cost model.
    threads : int, optional
        Size of the team. None: ``PPLCONV_NUM_THREADS``, else ``OMP_NUM_THREADS``, else the
        affinity mask and the container's CPU quota. The result's bits do not depend on it.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it.
    MemoryError
        If memory for the weights cannot be had.

    See Also
    --------
    conv2d : the same as a function.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> conv = pplconv.Conv2d(np.ones((8, 3, 3, 3), np.float32), padding=1, activation="relu")
    >>> conv(np.ones((1, 3, 32, 32), np.float32)).shape
    (1, 8, 32, 32)
    """

    cdef object weight, bias, dtype, lock, threads
    cdef str dtype_name, layout, algorithm, search
    cdef object stride, padding, dilation, activation
    cdef int64_t groups
    cdef double tolerance
    cdef Clip clip
    cdef dict plans, packings

    def __init__(self, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, *,
                 activation=None, layout="NCHW", algorithm="auto", tolerance=1e-5,
                 input_shape=None, search="estimate", threads=None):
        array = as_array(weight, "weight")
        self.dtype_name = dtype_name(array, "weight")
        self.dtype = np.dtype(np.float32 if self.dtype_name == "f32" else np.float64)
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
        self.activation = activation
        self.clip = Clip(arguments.clip_bounds(activation), self.dtype_name)
        self.layout = arguments.check_layout(layout)
        self.algorithm = planner.check_algorithm(algorithm)
        self.search = planner.check_search(search)
        self.tolerance = arguments.check_tolerance(tolerance)
        self.threads = arguments.check_threads(threads)
        self.bias = None
        if bias is not None:
            self.bias = np.array(plain_bias(bias, array.shape[0], self.dtype), self.dtype,
                                 order="C")
        self.weight = np.array(array, self.dtype, order="C", copy=True)
        self.lock = threading.Lock()
        self.plans = {}
        self.packings = {}
        if input_shape is not None:
            self.prepared_for(self.full_shape(input_shape))

    cdef tuple full_shape(self, object shape):
        """A 4-D shape from a user's 3-D or 4-D one."""
        try:
            dims = tuple(shape)
        except TypeError:
            raise TypeError(f"input_shape must be a tuple of ints, got {shape!r}") from None
        dims = tuple(arguments.integer("input_shape", d, 0) for d in dims)
        if len(dims) == 3:
            dims = (1, *dims)
        if len(dims) != 4:
            raise ValueError(f"input_shape must have 3 or 4 dimensions, got {shape!r}")
        return dims

    def _problem(self, tuple shape):
        """The problem that an input of a 4-D shape poses (for the benchmarks of plans)."""
        return arguments.make_problem(
            shape, self.weight.shape, self.dtype_name, stride=self.stride,
            padding=self.padding, dilation=self.dilation, groups=self.groups,
            layout=self.layout)

    def _adopt(self, problem, plan, fields):
        """Use this plan for inputs of the problem's shape (for the benchmarks of plans)."""
        with self.lock:
            self.plans.pop(problem.input_shape, None)
        self.prepared_for(problem.input_shape, compiled(problem, plan, fields))

    cdef Prepared prepared_for(self, tuple shape, Prepared given=None):
        """Find or make the plan and the packed weights for one input shape."""
        cdef Prepared prepared
        cdef PackedWeights packed
        with self.lock:
            prepared = self.plans.get(shape)
            if prepared is None:
                prepared = given or prepare(
                    self._problem(shape), self.algorithm, self.tolerance, self.threads,
                    self.search)
                while len(self.plans) >= PLANS_PER_CONV:
                    del self.plans[next(iter(self.plans))]
                self.plans[shape] = prepared
            packed = self.packings.get(prepared.packing)
            if packed is None:
                packed = PackedWeights(prepared, self.weight)
                while len(self.packings) >= PACKINGS_PER_CONV:
                    del self.packings[next(iter(self.packings))]
                self.packings[prepared.packing] = packed
        return prepared

    def plan_for(self, input_shape):
        """Show how inputs of one shape are computed.

        Parameters
        ----------
        input_shape : tuple of int
            (N, C, H, W) or (C, H, W); (N, H, W, C) or (H, W, C) for ``layout="NHWC"``.

        Returns
        -------
        Plan

        Raises
        ------
        TypeError, ValueError
            If an input of this shape could not be computed.
        """
        return self.prepared_for(self.full_shape(input_shape)).plan

    def __call__(self, input, residual=None, out=None):
        """Convolve.

        Parameters
        ----------
        input : array_like, shape (N, C, H, W) or (C, H, W)
            Same dtype as the weights; (N, H, W, C) or (H, W, C) for ``layout="NHWC"``.
            Anything that `numpy.asarray` or DLPack on the CPU takes.
        residual : array_like, optional
            Of the output's shape; added before the activation.
        out : ndarray, optional
            Written and returned; C-contiguous, native, and apart from every operand.

        Returns
        -------
        ndarray
            Shape (N, oc, oh, ow) or (oc, oh, ow); (N, oh, ow, oc) for ``layout="NHWC"``.

        Raises
        ------
        TypeError, ValueError
            If an argument does not fit; `out` is untouched then.
        MemoryError
            If memory for the output or the scratch cannot be had.
        """
        cdef Prepared prepared
        cdef PackedWeights packed
        cdef bint batched
        cdef object x, original
        original = as_array(input, "input")
        if original.dtype != self.dtype:
            dtype_name(original, "input")
            if original.dtype.newbyteorder("=") != self.dtype:
                raise TypeError(f"input must be {self.dtype} like weight, got {original.dtype}")
        check_dimensions(original, "input")
        batched = original.ndim == 4
        shape = original.shape if batched else (1, *original.shape)
        prepared = self.plans.get(shape)
        packed = None if prepared is None else self.packings.get(prepared.packing)
        while packed is None:
            prepared = self.prepared_for(shape)
            packed = self.packings.get(prepared.packing)
        x = as_plain(original, self.dtype)
        return finish(prepared, x if batched else one_image(x), original, packed.data_for(prepared),
                      None, self.bias, residual, self.clip, out, batched)

    def __repr__(self):
        oc, ic, kh, kw = self.weight.shape
        return (
            f"Conv2d({oc}x{ic}x{kh}x{kw} {self.dtype}, stride={self.stride}, "
            f"padding={self.padding!r}, dilation={self.dilation}, groups={self.groups}, "
            f"bias={self.bias is not None}, activation={self.activation!r}, "
            f"layout={self.layout!r}, algorithm={self.algorithm!r})"
        )

    def __reduce__(self):
        return _unpickle, (self.weight, self.bias, self.stride, self.padding, self.dilation,
                           self.groups, self.activation, self.layout, self.algorithm,
                           self.tolerance, self.search, self.threads)


def _unpickle(weight, bias, stride, padding, dilation, groups, activation, layout, algorithm,
              tolerance, search, threads):
    """Rebuild a `Conv2d`."""
    return Conv2d(weight, bias, stride, padding, dilation, groups, activation=activation,
                  layout=layout, algorithm=algorithm, tolerance=tolerance, search=search,
                  threads=threads)


cdef dict conv2d_plans = {}
cdef object conv2d_lock = threading.Lock()


cdef tuple conv2d_prepared(object x, object w, object stride, object padding, object dilation,
                           object groups, object activation, object layout, object algorithm,
                           object tolerance, object threads):
    """Find or make (Prepared, Clip) for one call of `conv2d`."""
    cdef object key = None, found
    if (is_plain(stride) and is_plain(padding) and is_plain(dilation) and is_plain(groups)
            and (is_plain(activation) or type(activation) is tuple) and is_plain(layout)
            and is_plain(algorithm) and type(tolerance) is float and is_plain(threads)):
        key = (x.shape, w.shape, x.dtype.char, stride, padding, dilation, groups,
               activation, layout, algorithm, tolerance, threads)
        try:
            found = conv2d_plans.get(key)
        except TypeError:  # an unhashable activation: checked below
            found = key = None
        if found is not None:
            return <tuple> found
    cdef str dtype = dtype_name(x, "input")
    bounds = arguments.clip_bounds(activation)
    shape = x.shape if x.ndim == 4 else (1, *x.shape)
    problem = arguments.make_problem(
        shape, w.shape, dtype, stride=stride, padding=padding, dilation=dilation,
        groups=groups, layout=layout)
    made = (
        prepare(problem, planner.check_algorithm(algorithm), arguments.check_tolerance(tolerance),
                arguments.check_threads(threads), "estimate"),
        Clip(bounds, dtype),
    )
    if key is not None:
        with conv2d_lock:
            while len(conv2d_plans) >= CONV2D_PLANS:
                del conv2d_plans[next(iter(conv2d_plans))]
            conv2d_plans[key] = made
    return made


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, *,
           activation=None, residual=None, layout="NCHW", algorithm="auto", tolerance=1e-5,
           threads=None, out=None):
    """Convolve a batch of images: 2-D cross-correlation, as `torch.nn.functional.conv2d`.

    Packs the weights at each call and keeps only plans; a program that uses the same weights
    again should make a `Conv2d`.

    Parameters
    ----------
    input : array_like, shape (N, C, H, W) or (C, H, W)
        float32 or float64; (N, H, W, C) or (H, W, C) for ``layout="NHWC"``. Anything that
        `numpy.asarray` or DLPack on the CPU takes.
    weight : array_like, shape (oc, C / groups, kh, kw)
        Same dtype as `input`.
    bias : array_like, shape (oc,), optional
        Same dtype as `input`.
    stride, dilation : int or (int, int), optional
        Vertical and horizontal.
    padding : int, (int, int), ((int, int), (int, int)) or str, optional
        Zeros around the input: one number, (vertical, horizontal), or ((top, bottom),
        (left, right)); or ``"valid"`` (none), ``"same"`` (PyTorch's rule: output as large as
        the input, stride 1 only), ``"same_upper"``, ``"same_lower"`` (ONNX's ``auto_pad``,
        any stride).
    groups : int, optional
        Groups of channels that do not see one another.
    activation : None, "relu", "relu6" or ("clip", low, high), optional
        Applied last; NaN passes through.
    residual : array_like, optional
        Of the output's shape and dtype; added before the activation.
    layout : {"NCHW", "NHWC"}, optional
        Of input, residual and output. Weights are OIHW in either.
    algorithm : {"auto", "pointwise", "im2col"}, optional
        ``"auto"`` lets the planner choose.
    tolerance : float, optional
        Largest error that the planner may spend on speed, relative to the output's largest
        magnitude, against float64. Both algorithms of today are direct sums, which meet any
        tolerance that float arithmetic can.
    threads : int, optional
        Size of the team. None: ``PPLCONV_NUM_THREADS``, else ``OMP_NUM_THREADS``, else the
        affinity mask and the container's CPU quota. The result's bits do not depend on it.
    out : ndarray, optional
        Written and returned; C-contiguous, native, and apart from every operand.

    Returns
    -------
    ndarray
        Shape (N, oc, oh, ow) or (oc, oh, ow); (N, oh, ow, oc) for ``layout="NHWC"``; of the
        input's dtype.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it, and `out` is untouched.
    MemoryError
        If memory for the output, the packed weights or the scratch cannot be had.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> x = np.ones((1, 3, 32, 32), np.float32)
    >>> w = np.ones((8, 3, 3, 3), np.float32)
    >>> pplconv.conv2d(x, w, padding="same", activation="relu").shape
    (1, 8, 32, 32)
    """
    cdef Prepared prepared
    cdef Clip clip
    cdef Buffer packed
    cdef int team
    cdef View view
    cdef Schedule schedule
    cdef bint batched
    cdef object x, w, b = None
    x = as_array(input, "input")
    w = as_array(weight, "weight")
    if x.dtype not in DTYPE_NAMES:
        dtype_name(x, "input")
    if w.dtype != x.dtype and w.dtype.newbyteorder("=") != x.dtype.newbyteorder("="):
        raise TypeError(f"weight must be {x.dtype} like input, got {w.dtype}")
    check_dimensions(x, "input")
    batched = x.ndim == 4
    prepared, clip = conv2d_prepared(x, w, stride, padding, dilation, groups, activation, layout,
                                     algorithm, tolerance, threads)
    if bias is not None:
        b = plain_bias(bias, w.shape[0], prepared.dtype)
    plain_x = as_plain(x, prepared.dtype)
    plain_w = as_plain(w, prepared.dtype)
    plain_b = None if b is None else as_plain(b, prepared.dtype)
    schedule = prepared.schedule
    packed = borrow(schedule.packed_bytes())
    view.held = False
    try:
        hold(plain_w, &view, PyBUF_ND)
        team = safe(prepared.threads)
        with nogil:
            schedule.pack_weights(<const char *> view.buffer.buf, packed.data, team)
        return finish(prepared, plain_x if batched else one_image(plain_x), x, packed.data, w, plain_b,
                      residual, clip, out, batched)
    finally:
        release(&view)
        give_back(packed)


def _clear_caches():
    """Forget the plans of `conv2d` (for tests)."""
    with conv2d_lock:
        conv2d_plans.clear()


def _cached_plans():
    """Count the plans that `conv2d` keeps (for tests)."""
    return len(conv2d_plans)

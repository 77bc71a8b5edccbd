# cython: boundscheck=False, wraparound=False, initializedcheck=False, binding=True
"""`matmul`: from the caller's arrays to the GEMM nest and back, with a cache of plans."""

from cpython.buffer cimport PyBUF_STRIDES
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uintptr_t

from pplconv.memory.arrays cimport (
    View,
    as_array,
    as_given,
    float_name,
    hold,
    hold_plain,
    release,
)
from pplconv.api.function_operands cimport is_numbers
from pplconv.ops.keys cimport PLANS, is_plain, is_plain_activation, is_prelu, keep_plan
from pplconv.ops.prepared cimport (
    Activation,
    Operands,
    Prepared,
    hold_nothing,
    hold_results,
    release_all,
)
from pplconv.ops.ready cimport computed_bias, plain_bias, scope_around
from pplconv.memory.workspace cimport Buffer, borrow, give_back
from pplconv.schedules.base cimport Schedule, Tensors
from pplconv.schedules.execute cimport execute
from pplconv.schedules.team cimport leave_team, take_team

import numpy as np

from pplconv import planner
from pplconv.arguments import checks
from pplconv.ops import matrices
from pplconv.arguments.activation import activation_of, settled
from pplconv.memory.array_like import renewed
from pplconv.memory.arrays import refuse_overlap
from pplconv.memory.dtypes import DTYPES, array_dtype
from pplconv.runtime import ForkableLock

# Dimensions of an array, as NumPy limits them.
cdef enum:
    MOST_DIMENSIONS = 64


cdef class Multiplication:
    """A compiled plan for a product of arrays of certain shapes and strides."""

    cdef Prepared prepared
    cdef Activation activation  # None: it has slopes, which each call reads anew
    cdef bint swapped  # whether a is packed instead of b
    # None, or the operand to copy first ("a", "b" or "b.T"), and the plan for the copy.
    cdef object copied
    cdef object dtype  # of the result, and of both operands in the computation
    cdef tuple shape
    cdef int64_t dims[MOST_DIMENSIONS]
    # Elements from the beginning of a, b and out, for each of the runs.
    cdef tuple offsets

    def __cinit__(self, tuple shape, copied, dtype):
        cdef int i
        self.shape, self.copied, self.dtype = shape, copied, dtype
        for i in range(len(shape)):
            self.dims[i] = shape[i]


cdef object ndarray = np.ndarray
cdef dict known = {}
# Types of arrays that are read where they lie. NumPy has one object for each; the rare arrays with
# another dtype object are copied.
cdef object F16 = DTYPES["f16"], F32 = DTYPES["f32"], F64 = DTYPES["f64"]
cdef object PRELU = object()  # in keys: a PReLU with any slopes
cdef object UNKNOWN = object()
cdef object lock = ForkableLock()


cdef bint hold_own(object array, object dtype, View *view) except -1:
    """Hold the memory of an array of one of the types above; return whether it has one."""
    if dtype is F32 or dtype is F64 or dtype is F16:
        hold(array, view, PyBUF_STRIDES)
        return True
    return False


cdef bytes places(const View *a, const View *b):
    """Shapes and strides of both, for a key."""
    cdef int64_t numbers[1 + 4 * MOST_DIMENSIONS]
    cdef const View *view = a
    cdef int i, end = 1
    numbers[0] = a.buffer.ndim
    while True:
        for i in range(view.buffer.ndim):
            numbers[end] = view.buffer.shape[i]
            numbers[end + 1] = view.buffer.strides[i]
            end += 2
        if view == b:
            return PyBytes_FromStringAndSize(<char *> numbers, <Py_ssize_t> sizeof(int64_t) * end)
        view = b


cdef object elements(tuple strides, int64_t size):
    return tuple([stride // size for stride in strides])


cdef bint is_whole(object array):
    """Whether strides are whole numbers of elements.

    Strides of an empty array, or along a dimension of length 1, are arbitrary. They would stay so
    in a copy, as NumPy takes such an array to be in order already.
    """
    cdef int64_t size = array.dtype.itemsize
    if not array.size:
        return True
    for length, stride in zip(array.shape, array.strides):
        if length > 1 and stride % size:
            return False
    return True


cdef object copy_of(object array, str how, object dtype):
    """A copy in the type of the computation, in C order or, for "b.T", with dense columns."""
    array = np.require(array, dtype=dtype, requirements=("A", "C"))
    if how == "b.T":
        if array.ndim == 1:
            return np.ascontiguousarray(array)
        return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)
    return array


cdef Multiplication copied_first(object a, object b, str how, str dtype, object activation,
                                 bint with_bias, object threads):
    """Plan a product that copies one operand at each call."""
    cdef Multiplication inner
    copy = copy_of(a if how == "a" else b, how, array_dtype(dtype))
    if how == "a":
        inner = make(copy, b, dtype, activation, with_bias, threads)
    else:
        inner = make(a, copy, dtype, activation, with_bias, threads)
    return Multiplication(inner.shape, (how, inner), inner.dtype)


cdef Multiplication make(object a, object b, str dtype, object activation, bint with_bias,
                         object threads):
    """Plan a product of `a` and `b`; an operand of another type is converted at each call."""
    cdef Multiplication made
    cdef object native = array_dtype(dtype)
    cdef int64_t size = native.itemsize
    for name, operand in (("a", a), ("b", b)):
        if operand.dtype is not native or not is_whole(operand):
            return copied_first(a, b, name, dtype, activation, with_bias, threads)
    permitted = checks.check_precision(None, dtype)
    matrices.matrix_shapes(a.shape, b.shape)  # else slopes might be blamed for the shape of b
    # Bias and slopes follow the columns of the result. A packed `a` would need them along rows, so
    # operands are not swapped then. One plan serves all PReLUs, also those with a single slope.
    columns = b.shape[len(b.shape) - 1] if len(b.shape) > 1 else 1
    described = activation_of(activation, columns)
    # Other sequences than tuples may be a PReLU too.
    prelu = is_prelu(activation) or described.kind == "prelu"
    found = matrices.product_of(
        a.shape, elements(a.strides, size), b.shape, elements(b.strides, size), dtype, permitted,
        may_swap=not with_bias and not prelu, may_read=True)
    if type(found) is str:
        return copied_first(a, b, found, dtype, activation, with_bias, threads)
    made = Multiplication(found.shape, None, native)
    if found.options:
        index, plan, fields = planner.make_cheapest_plan(
            [option.problem for option in found.options], threads=threads,
            epilogue=described.epilogue)
        option = found.options[index]
        made.prepared = Prepared(option.problem, plan, fields, planner.share(threads))
        made.swapped, made.offsets = option.swapped, option.offsets
        if not is_prelu(activation):
            made.activation = Activation(described, made.prepared.bias_type)
    return made


def matmul(a, b, *, bias=None, residual=None, activation=None, out=None, threads=None):
    """Multiply matrices, as `numpy.matmul`, maybe with an epilogue in the same pass.

    ``activation(a @ b + bias + residual)``. It keeps only plans: each call packs the operand that
    the loops read packed. A program that uses the same matrix again should make a `Linear`.

    Parameters
    ----------
    a : array_like, shape (..., m, k) or (k,)
        float16, bfloat16 (of the package ml_dtypes), float32 or float64. Anything that
        `numpy.asarray` or DLPack on the CPU takes. Transposed views, rows with gaps and broadcast
        batches are read where they lie.
    b : array_like, shape (..., k, n) or (k,)
        As `a`. Where the dtypes differ, the operand whose type cannot hold the other's numbers is
        converted; float16 with bfloat16 is refused.
    bias : array_like, shape (n,), optional
        Of the result's dtype; added to each row.
    residual : array_like, optional
        Of the result's shape and dtype; added before the activation.
    activation : optional
        Applied last, as in `conv2d`; the slopes of ``("prelu", slope)`` are one for each column, or
        one for all.
    out : ndarray, optional
        Written and returned; C-contiguous, native, and apart from every operand.
    threads : int, optional
        Size of the team, as in `conv2d`. The result's bits do not depend on it.

    Returns
    -------
    ndarray, shape (..., m, n)
        Without m if `a` is a vector, without n if `b` is one. Of the library of `a`, as in
        `conv2d`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it, and `out` is untouched.
    MemoryError
        If memory for the output, the packed matrix or the scratch cannot be had.

    See Also
    --------
    Linear : the same with the second matrix packed once.

    Notes
    -----
    Every sum is one chain of multiply-adds in ascending order of k, in float64 or float32, or for
    float16 and bfloat16 as in `conv2d`. An infinity or NaN reaches just the results whose row or
    column has it.

    The product is a pointwise convolution, and runs through the same loops: the method, and the
    formulas for its blocks, are those of MegEngine's document on matrix products.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    >>> pplconv.matmul(a, b, bias=np.ones(4, np.float32))[0]
    array([4., 4., 4., 4.], dtype=float32)
    """
    cdef Operands o
    hold_nothing(&o)
    try:
        return as_given(a, multiply(&o, a, b, bias, residual, activation, out, threads), out)
    finally:
        release_all(&o)


cdef object multiply(Operands *o, object a, object b, object bias, object residual,
                     object activation, object out, object threads):
    """Find or make the plan, and run it. `o` holds nothing yet; the caller releases it."""
    cdef Multiplication found = None
    cdef Activation activated
    cdef object x, y, key = None, form, scope, original_a, original_b, x_dtype, y_dtype, layout
    cdef object added = None, extra = None
    cdef str dtype
    cdef bint kept
    if is_numbers(a):
        y = as_array(b, "b")
        x = as_array(a, "a", y.dtype)
    else:
        x = as_array(a, "a")
        y = as_array(b, "b", x.dtype)
    if bias is not None:
        added = taken(bias, "bias", x, y)
    if residual is not None:
        extra = taken(residual, "residual", x, y)
    scope = scope_around(True, False)
    if scope is not None and threads is None:
        threads = (<tuple> scope)[0]
    kept = is_plain(threads)  # calls with another kind of number are planned each time
    if activation is not None and not is_plain_activation(activation) or not kept:
        # Reading these objects may change the arrays, which are not held yet.
        threads, activation = checks.check_threads(threads), settled(activation)
    if x is not a or y is not b or added is not bias or extra is not residual:
        x, y = renewed(a, x), renewed(b, y)
        bias, residual = renewed(bias, added), renewed(residual, extra)
    # No key holds slopes: each call reads them anew, and plans do not depend on them.
    if is_prelu(activation):
        form = PRELU
    elif is_plain_activation(activation):
        form = activation
    else:
        form = UNKNOWN
    x_dtype, y_dtype = x.dtype, y.dtype
    if hold_own(x, x_dtype, &o.x) and hold_own(y, y_dtype, &o.weight):
        layout = places(&o.x, &o.weight)
    else:
        layout = (x.shape, x.strides, y.shape, y.strides)
    if form is not UNKNOWN and kept:
        key = (layout, x_dtype, y_dtype, bias is None, form, threads)
        found = known.get(key)
    if found is None:
        if x.ndim and y.ndim and x.shape[x.ndim - 1] == 0:
            return of_nothing(x, y, bias, residual, activation, out, threads)
        dtype = float_name(x, "a")
        if x_dtype is not y_dtype:
            float_name(y, "b")
            dtype = common_name(x_dtype, y_dtype)
        found = make(x, y, dtype, activation, bias is not None, checks.check_threads(threads))
        if key is not None:
            with lock:
                keep_plan(known, key, found, PLANS)
    original_a, original_b = x, y
    while found.copied is not None:
        how, found = found.copied
        if how == "a":
            release(&o.x)
            x = copy_of(x, how, found.dtype)
        else:
            release(&o.weight)
            y = copy_of(y, how, found.dtype)
    activated = found.activation
    if activated is None and form is PRELU:
        described = activation_of(activation, y.shape[y.ndim - 1] if y.ndim > 1 else 1)
        if found.prepared is not None:
            activated = Activation(described, found.prepared.bias_type)
    if hold_aligned(x, &o.x) and hold_aligned(y, &o.weight):
        return run(found, o, x, y, original_a, original_b, bias, residual, activated, out)
    if issubclass(type(out), ndarray):  # below, the operands are copies
        refuse_overlap(out, a=original_a, b=original_b)
    return matmul(np.require(x, requirements=("A", "C")), np.require(y, requirements=("A", "C")),
                  bias=bias, residual=residual, activation=activation, out=out, threads=threads)


cdef object taken(object value, str name, object x, object y):
    """Bias or residual as an array, before any is held; Python numbers get the result's type."""
    if type(value) is ndarray:
        return value
    dtype = x.dtype
    if y.dtype is not dtype:
        try:
            dtype = np.promote_types(dtype, y.dtype)
        except TypeError:  # refused later, by name
            pass
    return as_array(value, name, dtype)


cdef str common_name(object a_dtype, object b_dtype):
    """The type that holds the numbers of both."""
    try:
        return float_name(np.empty(0, np.promote_types(a_dtype, b_dtype)), "a")
    except TypeError:  # float16 with bfloat16
        raise TypeError(f"b must be {a_dtype} like a, or float32, got {b_dtype}: neither type "
                        "holds the other's numbers") from None


cdef object of_nothing(object x, object y, object bias, object residual, object activation,
                       object out, object threads):
    """Multiply matrices whose k is 0: all sums are zero, as of zeros with k = 1."""
    matrices.matrix_shapes(x.shape, y.shape)
    return matmul(np.zeros((*x.shape[:-1], 1), x.dtype),
                  np.zeros((*y.shape[:-2], 1, *y.shape[-1:]) if y.ndim > 1 else 1, y.dtype),
                  bias=bias, residual=residual, activation=activation, out=out, threads=threads)


cdef bint hold_aligned(object array, View *view) except -1:
    """Hold an array's memory, if it is not held yet; return whether its elements are aligned."""
    if not view.held:
        hold(array, view, PyBUF_STRIDES)
    return (view.buffer.len == 0
            or <uintptr_t> view.buffer.buf % <uintptr_t> view.buffer.itemsize == 0)


cdef object run(Multiplication m, Operands *o, object x, object y, object original_a,
                object original_b, object bias, object residual, Activation activation, object out):
    """Check bias, residual and `out`, then compute. `o` holds `x` and `y` already."""
    cdef Tensors t
    cdef Buffer packed = None
    cdef Prepared prepared = m.prepared
    cdef Schedule schedule
    cdef object dtype = m.dtype
    cdef int64_t size = dtype.itemsize
    cdef int team
    cdef object wanted, offset
    if bias is not None:
        bias = plain_bias(bias, y.shape[len(y.shape) - 1] if len(y.shape) > 1 else 1, dtype)
        if prepared is not None:
            wanted = DTYPES[prepared.bias_type]
            hold_plain(computed_bias(bias, wanted), wanted, &o.bias)
    out = hold_results(o, residual, out, m.shape, m.dims, <int> len(m.shape), dtype,
                       original_a, &o.x if x is original_a else NULL, "a",
                       original_b, &o.weight if y is original_b else NULL, "b", bias)
    if prepared is None:  # no element to compute
        return out
    schedule = prepared.schedule
    t.bias = <const char *> o.bias.buffer.buf if o.bias.held else NULL
    t.clip = activation.clip
    t.follow = activation.follow
    t.after = NULL
    t.offsets = NULL
    t.x_zero = NULL
    t.window_sums = t.weight_zeros = NULL
    t.filters = NULL
    t.weights = NULL
    if schedule.packed_bytes():
        packed = borrow(schedule.packed_bytes())
        t.weights = packed.data
    try:
        for offset in m.offsets:
            t.x = <const char *> o.x.buffer.buf + <int64_t> (<tuple> offset)[0] * size
            t.filters = (<const char *> o.weight.buffer.buf
                         + <int64_t> (<tuple> offset)[1] * size)
            if m.swapped:
                t.x, t.filters = t.filters, t.x
            t.y = <char *> o.y.buffer.buf + <int64_t> (<tuple> offset)[2] * size
            t.residual = NULL
            if o.residual.held:
                t.residual = (<const char *> o.residual.buffer.buf
                              + <int64_t> (<tuple> offset)[2] * size)
            if packed is not None:
                team = take_team(prepared.threads, prepared.most)
                try:
                    schedule.pack_weights(t.filters, packed.data, team)
                finally:
                    leave_team(team)
            execute(schedule, &t, prepared.threads, prepared.most, 1, NULL)
    finally:
        if packed is not None:
            give_back(packed)
    return out

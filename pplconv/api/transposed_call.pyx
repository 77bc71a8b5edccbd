# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""What calls of `conv_transpose2d` and `ConvTranspose2d` have in common: arrays in, output out."""

from libc.stdint cimport int64_t

from pplconv.api.border cimport are_finite
from pplconv.api.prepared cimport Operands, hold_nothing, hold_results, release_all
from pplconv.memory.arrays cimport hold_plain

from pplconv.memory.dtypes import DTYPES


cdef object computed(object transposed, Operands *o, object input, object x, object weight,
                     object bias, object residual, object out, bint batched):
    """Check residual and `out`, then compute. `o.x` is held already; `x` is the array behind it.

    `weight` and `bias` are the caller's arrays, for the check of overlaps, or None; `residual` is
    as in `hold_results`.
    """
    cdef int64_t[5] dims
    cdef object dtype = DTYPES[transposed.problem.dtype]
    cdef object plain = None
    cdef tuple shape = transposed.problem.output_shape
    cdef int i, ndim = <int> len(shape)
    for i in range(ndim):
        dims[i] = shape[i]
    out = hold_results(o, residual, out, shape if batched else shape[1:], dims, ndim, dtype, input,
                       &o.x if x is input else NULL, "input", weight, NULL, "weight", bias)
    if residual is not None:
        plain = plain_array(residual, dtype)
    transposed.run(x, out, plain)
    return out


cdef object plain_array(object array, object dtype):
    """An array that is contiguous, native and aligned."""
    cdef Operands o
    hold_nothing(&o)
    try:
        return hold_plain(array, dtype, &o.x)
    finally:
        release_all(&o)


cdef bint all_finite(object array, object dtype) except -1:
    """Whether no number of a contiguous array is infinite or NaN."""
    cdef Operands o
    hold_nothing(&o)
    try:
        hold_plain(array, dtype, &o.x)
        return are_finite(<const char *> o.x.buffer.buf, o.x.buffer.len, dtype.itemsize)
    finally:
        release_all(&o)

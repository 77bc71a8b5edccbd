"""Calls of transposed convolutions; see ``transposed_function.pyx``."""

from pplconv.ops.prepared cimport Operands


cdef object computed(object transposed, Operands *o, object input, object x, object weight,
                     object bias, object residual, object out, bint batched)
cdef object plain_array(object array, object dtype)
cdef bint all_finite(object array, object dtype) except -1

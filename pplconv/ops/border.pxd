"""Outputs at the border, for weights that are not finite; see ``border.pyx``."""

from libc.stdint cimport int64_t

from pplconv.ops.prepared cimport Activation, Prepared


cdef bint are_finite(const char *numbers, int64_t size, int64_t element) noexcept
cdef bint stay_finite(Prepared prepared, const char *numbers, int64_t size,
                      int64_t element) noexcept
cdef int compute_border(Prepared prepared, object x, object weight, object bias,
                        Activation activation, object residual, object out) except -1

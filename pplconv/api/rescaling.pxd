"""The numbers that finish sums of integers; see ``rescaling.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_quantization


cdef class Rescaling:
    cdef readonly object kept
    cdef const char *offsets
    cdef const char *multipliers
    # NULL where what is left out adds nothing.
    cdef const char *taps
    cdef pplconv_quantization quantization
    cdef int64_t channels, tap_count

    cdef int check(self, int64_t channels, int64_t taps) except -1

"""The numbers that finish sums of integers; see ``rescaling.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_quantization
from pplconv.schedules.base cimport Schedule


cdef class Rescaling:
    cdef readonly object kept
    cdef const char *whole
    # NULL where no loops leave taps out, or they add nothing.
    cdef const char *offsets
    cdef const char *multipliers
    cdef pplconv_quantization quantization
    cdef int64_t x_zero, channels

    cdef int check(self, Schedule schedule) except -1

"""The numbers that finish sums of integers; see ``rescaling.pyx``."""

from libc.stdint cimport int32_t, int64_t

from pplconv._kernels cimport pplconv_quantization
from pplconv.schedules.base cimport Schedule


cdef class Rescaling:
    cdef readonly object kept, computed
    cdef readonly tuple arguments
    # Loops that read offsets count the rectangles of this one.
    cdef Schedule schedule
    cdef const char *whole
    # NULL where no loops leave taps out, or they add nothing.
    cdef const char *offsets
    cdef const char *multipliers
    # NULL where the weights keep no zero points.
    cdef const char *weight_zeros
    cdef pplconv_quantization quantization
    cdef int32_t x_zero
    cdef int64_t channels
    # Whether outputs are no sums, and a step of the program has to compute their multipliers.
    cdef bint lacks_multiplier

    cdef int check(self, Schedule schedule) except -1
    cdef int check_places(self, dict places) except -1

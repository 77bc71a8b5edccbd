"""The GEMM nest compiled: see ``gemm_loops.pyx``."""

from libc.stdint cimport int64_t

from pplconv.schedules.base cimport Memory, Schedule
from pplconv.schedules.gemm_job cimport GemmJob


cdef class GemmSchedule(Schedule):
    cdef GemmJob own

    cdef int64_t input_bytes(self) noexcept nogil
    cdef int64_t output_bytes(self) noexcept nogil
    cdef int64_t matrix_bytes(self, const Memory *m, int64_t element, int64_t channels,
                              int64_t height, int64_t width, int64_t group) noexcept nogil

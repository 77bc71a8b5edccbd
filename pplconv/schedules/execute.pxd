"""Runs of a compiled plan; see ``execute.pyx``."""

from libc.stdint cimport int64_t

from pplconv.schedules.work cimport Tensors, Work


cdef int execute(Work work, const Tensors *tensors, int threads, int most, int runs,
                 int64_t *shortest) except -1

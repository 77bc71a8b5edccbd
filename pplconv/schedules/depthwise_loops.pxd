"""Depthwise convolution's loops compiled: see ``depthwise_loops.pyx``."""

from libc.stdint cimport int64_t

from pplconv.schedules.base cimport Schedule
from pplconv.schedules.depthwise_job cimport DepthwiseJob


cdef class CutSchedule(Schedule):
    cdef DepthwiseJob own

    cdef int check_chunks(self, int64_t together) except -1


cdef class DepthwiseSchedule(CutSchedule):
    cdef int check(self) except -1
    cdef int check_groups(self) except -1
    cdef int check_converted(self) except -1
    cdef int check_gathered(self) except -1
    cdef int check_slab(self, bint inputs, bint outputs) except -1


cdef class DepthwiseBytesSchedule(CutSchedule):
    cdef int check(self) except -1
    cdef int check_scratch(self) except -1

"""Direct convolution's loops compiled: see ``direct_loops.pyx``."""

from pplconv.memory.workspace cimport Buffer
from pplconv.schedules.base cimport Schedule
from pplconv.schedules.direct_job cimport DirectJob


cdef class DirectSchedule(Schedule):
    cdef DirectJob own
    cdef Buffer ranges

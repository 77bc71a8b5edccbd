"""The GEMM nest compiled: see ``gemm.pyx``."""

from pplconv.schedules.base cimport Schedule
from pplconv.schedules.gemm_job cimport GemmJob


cdef class GemmSchedule(Schedule):
    cdef GemmJob own

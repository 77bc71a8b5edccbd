"""Packing of computed weights; see ``packing.pyx``."""

from libc.stdint cimport int64_t

from pplconv.schedules.base cimport pack_function
from pplconv.schedules.gemm_loops cimport GemmSchedule
from pplconv.schedules.work cimport Work


cdef struct PackJob:
    pack_function pack
    const void *job
    int64_t pieces


cdef class Pack(Work):
    cdef PackJob own
    cdef GemmSchedule schedule

"""Packing of computed weights; see ``packing.pyx``."""

from libc.stdint cimport int64_t

from pplconv.schedules.base cimport Schedule, pack_function
from pplconv.schedules.work cimport Work


cdef struct PackJob:
    pack_function pack
    const void *job
    int64_t pieces


cdef class Pack(Work):
    cdef PackJob own
    cdef Schedule schedule

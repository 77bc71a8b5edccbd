"""Offsets of sums whose zero point is computed: see ``zero_point_loops.pyx``."""

from libc.stdint cimport int64_t

from pplconv.schedules.work cimport Work


cdef struct ZeroPointJob:
    int64_t count
    # Whether the zero point is int8; else it is uint8.
    bint is_signed


cdef class ZeroPoint(Work):
    cdef ZeroPointJob own

"""Winograd's loops compiled: see ``winograd_loops.pyx``."""

from pplconv.schedules.base cimport Schedule
from pplconv.schedules.winograd_job cimport WinogradJob


cdef class WinogradSchedule(Schedule):
    cdef WinogradJob own

    cdef int check(self) except -1
    cdef int check_parts(self) except -1
    cdef int set_phases(self) except -1

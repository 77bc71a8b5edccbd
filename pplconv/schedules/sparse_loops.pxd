"""The loops over sparse weights compiled: see ``sparse_loops.pyx``."""

from pplconv.schedules.base cimport Schedule
from pplconv.schedules.sparse_job cimport SparseJob


cdef class SparseSchedule(Schedule):
    cdef SparseJob own

    cdef int check_room(self, const char *packed) except -1

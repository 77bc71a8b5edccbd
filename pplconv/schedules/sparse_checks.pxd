"""Checks of plans for sparse weights: see ``sparse_checks.pyx``."""

from libc.stdint cimport int64_t

from pplconv.schedules.sparse_job cimport SparseJob


cdef int check_plan(SparseJob *j, int64_t tasks, int64_t thread_scratch) except -1
cdef int64_t weight_places(SparseJob *j) except -1

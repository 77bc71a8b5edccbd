"""Checks of the GEMM nest's plans: see ``gemm_checks.pyx``."""

from libc.stdint cimport int64_t

from pplconv.schedules.gemm_job cimport GemmFields, GemmJob


cdef int64_t pixel_tasks(const GemmFields *f) noexcept
cdef int check_plan(const GemmJob *j, int64_t tasks, int64_t thread_scratch) except -1

# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Runs of a plan, for calls and trials: they need a team, scratch, and loops without the GIL."""

from libc.stdint cimport int64_t

from pplconv.memory.workspace cimport Buffer, borrow, give_back
from pplconv.schedules.team cimport leave_team, take_team
from pplconv.schedules.work cimport Tensors, Work

cdef extern from "pplconv_schedules.h" nogil:
    int64_t pplconv_clock()


cdef int execute(Work work, const Tensors *tensors, int threads, int most, int runs,
                 int64_t *shortest) except -1:
    """Run a plan `runs` times with one team, and return the team's number of threads.

    The plan wants `threads`; at most `most` compute at once (``team.pyx``). `shortest` receives the
    nanoseconds of the fastest run; if it is NULL, no run is timed.
    """
    cdef Buffer scratch
    cdef int64_t begin, took, best = <int64_t> 1 << 62
    cdef int _i
    # Comes before any allocation: a pin decides which node's memory is preferred.
    cdef int team = take_team(threads, most)
    try:
        scratch = borrow(work.scratch_bytes())
        with nogil:
            if shortest == NULL:
                for _i in range(runs):
                    work.run(tensors, scratch.data, team)
            else:
                for _i in range(runs):
                    begin = pplconv_clock()
                    work.run(tensors, scratch.data, team)
                    took = pplconv_clock() - begin
                    best = min(best, took)
                shortest[0] = best
        give_back(scratch)
    finally:
        leave_team(team)
    return team

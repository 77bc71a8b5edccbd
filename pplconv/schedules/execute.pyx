# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What calls and trials have in common: a team, scratch for it, and the loops without the GIL."""

from libc.stdint cimport int64_t

from pplconv.memory.workspace cimport Buffer, borrow, give_back
from pplconv.schedules.base cimport Schedule, Tensors
from pplconv.schedules.team cimport leave_team, take_team

cdef extern from "pplconv_schedules.h" nogil:
    int64_t pplconv_clock()


cdef int execute(Schedule schedule, const Tensors *tensors, int threads, int most, int runs,
                 int64_t *shortest) except -1:
    """Run a plan `runs` times with one team, and return how many threads that had.

    `threads` are wanted, and no more than `most` compute at once (``team.pyx``). `shortest`
    becomes the nanoseconds of the fastest run; NULL: none is timed.
    """
    cdef Buffer scratch
    cdef int64_t begin, took, best = <int64_t> 1 << 62
    cdef int _i
    # Before memory is asked for: a pin says of which node it had better be.
    cdef int team = take_team(threads, most)
    try:
        scratch = borrow(schedule.scratch_bytes())
        with nogil:
            if shortest == NULL:
                for _i in range(runs):
                    schedule.run(tensors, scratch.data, team)
            else:
                for _i in range(runs):
                    begin = pplconv_clock()
                    schedule.run(tensors, scratch.data, team)
                    took = pplconv_clock() - begin
                    best = min(best, took)
                shortest[0] = best
        give_back(scratch)
    finally:
        leave_team(team)
    return team

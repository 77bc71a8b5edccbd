# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The one loop of a team: phases of tasks, each phase complete before the next begins. No GIL.

Everything that pplconv does in parallel is a list of phases. So the duties of a team's thread
before and after its work stand here once: to take its place under a pin, and to call the hooks.
"""

from cython.parallel cimport parallel, prange, threadid
from libc.stdint cimport int64_t, uint64_t

from pplconv._binding cimport Lead, current_lead, take_place

cdef extern from "pplconv_schedules.h" nogil:
    uint64_t pplconv_flush_denormals()
    void pplconv_restore_denormals(uint64_t saved)

cdef extern from *:
    """
    /* What Cython makes of prange inside a region does not wait at its end. */
    static void pplconv_wait_for_team(void) {
    #pragma omp barrier
    }
    """
    void pplconv_wait_for_team() nogil


cdef uint64_t flush() noexcept nogil:
    return pplconv_flush_denormals()


cdef void restore(uint64_t saved) noexcept nogil:
    pplconv_restore_denormals(saved)


cdef Hooks FLUSHED
FLUSHED.enter = flush
FLUSHED.leave = restore


cdef const Hooks *flushed() noexcept nogil:
    return &FLUSHED


cdef void run_alone(const Phase *phases, int count, int64_t rounds, char *scratch) noexcept nogil:
    cdef int64_t task, again
    cdef int p
    for again in range(rounds):
        for p in range(count):
            for task in range(phases[p].tasks):
                phases[p].run(phases[p].job, again * phases[p].tasks + task, scratch)


cdef void run_team(const Phase *phases, int count, int64_t rounds, const Hooks *hooks,
                   char *scratch, int64_t thread_scratch, int team) noexcept nogil:
    """Run `phases` on `team` threads, each of which has `thread_scratch` bytes of `scratch`.

    All phases are run `rounds` times, one round after the other.

    Threads fetch tasks one by one, so that slower cores take fewer. `hooks` are each thread's,
    the caller's included; NULL for none.
    """
    cdef int64_t task, again
    cdef uint64_t entered = 0
    cdef int p = 0
    cdef Lead lead
    if team == 1:
        # No parallel region: the caller's thread does all, and OpenMP is not touched.
        if hooks != NULL:
            entered = hooks.enter()
        run_alone(phases, count, rounds, scratch)
        if hooks != NULL:
            hooks.leave(entered)
        return
    lead = current_lead()
    with parallel(num_threads=team):
        entered = 0
        if hooks != NULL:
            entered = hooks.enter()
        if lead.binding != NULL:
            take_place(lead, threadid())
        for again in range(rounds):
            for p in range(count):
                if p > 0 or again > 0:
                    pplconv_wait_for_team()
                for task in prange(phases[p].tasks, schedule="dynamic", chunksize=1):
                    phases[p].run(phases[p].job, again * phases[p].tasks + task,
                                  scratch + threadid() * thread_scratch)
        if hooks != NULL:
            hooks.leave(entered)

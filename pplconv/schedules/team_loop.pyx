# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The one loop of a team: phases of tasks, each phase complete before the next begins. No GIL.

Everything that pplconv does in parallel is a list of phases. So the duties of a team's thread
before and after its work stand here once: to take its place under a pin, and to call the hooks.
"""

from cython.parallel cimport parallel, threadid
from libc.stdint cimport int64_t, uint64_t
from openmp cimport omp_get_num_threads

from pplconv._binding cimport Lead, current_lead, take_place

cdef extern from "pplconv_schedules.h" nogil:
    uint64_t pplconv_flush_denormals()
    void pplconv_restore_denormals(uint64_t saved)

cdef extern from "pplconv_claims.h" nogil:
    int PPLCONV_RANGES
    struct pplconv_claims:
        pass
    void pplconv_begin_claims(pplconv_claims *c, int threads)
    void pplconv_open_claims(pplconv_claims *c, int turn, int range)
    int64_t pplconv_claim(pplconv_claims *c, int turn, int own, int ranges, int64_t tasks)

cdef extern from *:
    """
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
                phases[p].run(phases[p].job, phases[p].first + again * phases[p].tasks + task,
                              scratch)


cdef void run_phase(const Phase *phase, int64_t again, int turn, pplconv_claims *claims,
                    char *scratch) noexcept nogil:
    """What one thread of a team does in a phase."""
    # OpenMP may have given fewer threads than were asked for.
    cdef int ranges = min(omp_get_num_threads(), PPLCONV_RANGES), own = threadid() % ranges
    cdef int64_t task
    # Nobody is in the phase before this one any more, nor in the one after it yet.
    pplconv_open_claims(claims, turn + 1, own)
    task = pplconv_claim(claims, turn, own, ranges, phase.tasks)
    while task >= 0:
        phase.run(phase.job, phase.first + again * phase.tasks + task, scratch)
        task = pplconv_claim(claims, turn, own, ranges, phase.tasks)


cdef void run_team(const Phase *phases, int count, int64_t rounds, const Hooks *hooks,
                   char *scratch, int64_t thread_scratch, int team) noexcept nogil:
    """Run `phases` on `team` threads, each of which has `thread_scratch` bytes of `scratch`.

    All phases are run `rounds` times, one round after the other.

    Threads take tasks one by one, their own range first, so that slower cores take fewer. `hooks`
    are each thread's, the caller's included; NULL for none.
    """
    cdef int64_t again
    cdef uint64_t entered = 0
    cdef int p = 0
    cdef pplconv_claims claims
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
    pplconv_begin_claims(&claims, team)
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
                run_phase(&phases[p], again, <int>((again * count + p) & 1), &claims,
                          scratch + threadid() * thread_scratch)
        if hooks != NULL:
            hooks.leave(entered)

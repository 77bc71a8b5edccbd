# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The one loop of a team: phases of tasks, each phase complete before the next begins. No GIL.

Everything that pplconv does in parallel is a list of phases. ``pplconv_crew.h`` has how threads
share them and wait for each other. This module adds the package's part: places under a pin, and
hooks.
"""

from libc.stdint cimport int64_t, uint64_t

from pplconv._binding cimport Lead, cpus_before, current_lead, take_place

cdef extern from "pplconv_schedules.h" nogil:
    uint64_t pplconv_flush_denormals()
    void pplconv_restore_denormals(uint64_t saved)

cdef extern from "pplconv_crew.h" nogil:
    ctypedef struct pplconv_station:
        void *binding
        uint64_t serial, leader
        int first
    ctypedef struct pplconv_places:
        void (*take)(const pplconv_station *station, int member) noexcept nogil
        int (*before)(unsigned long *cpus, size_t bytes) noexcept nogil
    void pplconv_spread_to(int cpu)
    void pplconv_run(const Phase *phases, int count, int64_t rounds, const Hooks *hooks,
                     char *scratch, int64_t thread_scratch, int team,
                     const pplconv_station *station, const pplconv_places *places)


cdef uint64_t flush() noexcept nogil:
    return pplconv_flush_denormals()


cdef void restore(uint64_t saved) noexcept nogil:
    pplconv_restore_denormals(saved)


cdef Hooks FLUSHED
FLUSHED.enter = flush
FLUSHED.leave = restore


cdef const Hooks *flushed() noexcept nogil:
    return &FLUSHED


cdef void spread_workers_to(int cpu) noexcept nogil:
    pplconv_spread_to(cpu)


cdef void join(const pplconv_station *station, int member) noexcept nogil:
    cdef Lead lead
    lead.binding, lead.serial = station.binding, station.serial
    lead.leader, lead.first = station.leader, station.first
    take_place(lead, member)


cdef int before(unsigned long *cpus, size_t bytes) noexcept nogil:
    return cpus_before(cpus, bytes)


cdef pplconv_places PLACES
PLACES.take = join
PLACES.before = before


cdef void run_team(const Phase *phases, int count, int64_t rounds, const Hooks *hooks,
                   char *scratch, int64_t thread_scratch, int team) noexcept nogil:
    """Run `phases` on `team` threads, each of which has `thread_scratch` bytes of `scratch`.

    All phases are run `rounds` times, one round after the other. There are fewer threads where the
    system has no more; one means the caller's thread alone.

    Threads take tasks one by one, their own range first, so that slower cores take fewer. `hooks`
    are each thread's, the caller's included; NULL for none.
    """
    cdef Lead lead
    cdef pplconv_station station
    station.binding = NULL
    if team > 1:
        lead = current_lead()
        station.binding, station.serial = lead.binding, lead.serial
        station.leader, station.first = lead.leader, lead.first
    pplconv_run(phases, count, rounds, hooks, scratch, thread_scratch, team, &station, &PLACES)

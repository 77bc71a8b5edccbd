"""Phases of tasks over a team; see ``team_loop.pyx``."""

from libc.stdint cimport int64_t, uint64_t


cdef extern from "pplconv_phases.h" nogil:
    ctypedef void (*phase_function "pplconv_phase_function")(const void *job, int64_t task,
                                                             char *scratch) noexcept nogil

    ctypedef struct Phase "pplconv_phase":
        phase_function run
        const void *job
        int64_t tasks
        int64_t first

    ctypedef struct Hooks "pplconv_hooks":
        uint64_t (*enter)() noexcept nogil
        void (*leave)(uint64_t entered) noexcept nogil


# Hooks under which subnormal numbers count as zero. NULL instead leaves arithmetic as the caller
# set it.
cdef const Hooks *flushed() noexcept nogil

# Let workers that start from now on run on this CPU too, instead of inheriting their leader's CPUs.
cdef void spread_workers_to(int cpu) noexcept nogil

cdef void run_team(const Phase *phases, int count, int64_t rounds, const Hooks *hooks,
                   char *scratch, int64_t thread_scratch, int team) noexcept nogil

"""Phases of tasks over a team; see ``team_loop.pyx``."""

from libc.stdint cimport int64_t, uint64_t


# One task from start to finish; `scratch` is the thread's own. Tasks are counted over all rounds.
ctypedef void (*phase_function)(const void *job, int64_t task, char *scratch) noexcept nogil


cdef struct Phase:
    phase_function run
    const void *job
    int64_t tasks
    # Number of the first one.
    int64_t first


cdef struct Hooks:
    # A thread calls `enter` before its first task, and `leave` with the result after its last one.
    uint64_t (*enter)() noexcept nogil
    void (*leave)(uint64_t entered) noexcept nogil


# Hooks under which subnormal numbers count as zero. NULL instead leaves arithmetic as the caller
# set it.
cdef const Hooks *flushed() noexcept nogil

cdef void run_team(const Phase *phases, int count, int64_t rounds, const Hooks *hooks,
                   char *scratch, int64_t thread_scratch, int team) noexcept nogil

"""Threads bound to CPUs: functions for loops and the workspace."""

from libc.stdint cimport uint64_t


cdef struct Lead:
    # Places for the teams of a thread; `binding` is NULL if there is no pin. No two bindings of a
    # process have the same serial number.
    void *binding
    uint64_t serial, leader
    int first


# Whether the process has any pin; if not, a run needs no other function here.
cdef bint pinned() noexcept nogil
# The lead of the calling thread; its team's threads take their places by it.
cdef Lead current_lead() noexcept nogil
cdef void take_place(Lead lead, int thread) noexcept nogil
# `preferred_node`: the node whose memory the calling thread prefers, -1 for none. `prefer_node`
# makes untouched pages come from a node, and returns 0 or an errno.
cdef int preferred_node() noexcept nogil
cdef int prefer_node(void *start, size_t size, int node) noexcept nogil
# Writes the CPUs that the calling thread had before a pin bound it, a bit each, to at most `bytes`
# bytes; returns 0 if it is not bound.
cdef int cpus_before(unsigned long *cpus, size_t bytes) noexcept nogil

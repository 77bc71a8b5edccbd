"""Threads bound to CPUs: what loops and the workspace ask."""

from libc.stdint cimport uint64_t


cdef struct Lead:
    # Where the teams of a thread belong; `binding` is NULL where nothing was asked for. No two
    # bindings of a process have the same serial number.
    void *binding
    uint64_t serial, leader
    int first


# Whether anybody asked for anything; if nobody did, a run looks at nothing else.
cdef bint pinned() noexcept nogil
# The lead of the calling thread; its team's threads take their places by it.
cdef Lead current_lead() noexcept nogil
cdef void take_place(Lead lead, int thread) noexcept nogil
# The node whose memory the calling thread prefers, -1 for none. The second function makes untouched
# pages come from a node, and returns 0 or an errno.
cdef int preferred_node() noexcept nogil
cdef int prefer_node(void *start, size_t size, int node) noexcept nogil
# The CPUs that the calling thread had before a pin bound it, a bit each, in at most so many bytes;
# 0 if it is not bound.
cdef int cpus_before(unsigned long *cpus, size_t bytes) noexcept nogil

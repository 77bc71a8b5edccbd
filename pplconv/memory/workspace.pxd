"""Aligned memory, borrowed and given back."""

from libc.stdint cimport int64_t


cdef class Buffer:
    cdef char *data
    cdef readonly size_t size
    # The node whose memory it prefers, -1 for none. With a node, the buffer is a separate mapping.
    cdef readonly int node


cdef Buffer borrow(int64_t size)
cdef void give_back(Buffer buffer) noexcept

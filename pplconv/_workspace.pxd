"""Aligned memory, borrowed and given back."""


cdef class Buffer:
    cdef char *data
    cdef readonly size_t size


cdef Buffer borrow(size_t size)
cdef void give_back(Buffer buffer) noexcept

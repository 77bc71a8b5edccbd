"""Threads for one call, counted; see ``team.pyx``."""

cdef int take_team(int wanted, int most) except -1
cdef void leave_team(int team) noexcept nogil

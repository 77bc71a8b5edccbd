"""Threads for one call, counted; see ``team.pyx``."""

cdef extern from "pplconv_team.h" nogil:
    void leave_team "pplconv_team_leave"(int team)

cdef int take_team(int wanted, int most) except -1

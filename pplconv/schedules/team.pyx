# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The size of the team that a call gets when it runs: the plan's, or a smaller one.

A plan says how many threads its work justifies; this module says how many may start now. Any
team gives the same bits, so a call may get fewer than its plan has:

* no more than the cores of a pin that it runs under (``runtime/pinning.py``);
* one inside a parallel region of the OpenMP library that pplconv uses: its threads have the
  CPUs already, and each may be computing a convolution of its own;
* as many as ``omp_set_num_threads``, and so ``threadpoolctl.threadpool_limits``, allow the
  calling thread. OpenMP keeps that number for each thread, and a new thread has the number that
  OpenMP began with: only a smaller number is a limit that somebody has set. The first number is no
  limit, as ``threads=`` and ``PPLCONV_NUM_THREADS`` go before it;
* as many as ``OMP_THREAD_LIMIT`` allows a program, if that is set;
* the part of the process's share that other running calls leave, and at least one.

Calls count themselves in and out with one atomic addition each; nobody waits for anybody. A
region of another OpenMP library is not seen, nor are another library's threads counted.

An import of the package loads this module, and with it OpenMP's library, which looks at the CPUs of
the thread that loads it. So all that this module needs besides is imported when it is used.
"""

from pplconv._binding cimport pinned
from pplconv.schedules.team_loop cimport spread_workers_to

import os

cdef extern from "pplconv_team.h" nogil:
    int pplconv_team_take(int wanted, int most)
    void pplconv_team_leave(int team)
    int pplconv_team_in_use()
    void pplconv_team_forget()
    int pplconv_team_unlimited()
    int omp_in_parallel()
    int omp_get_max_threads()
    int omp_get_thread_limit()


cdef int allowed_by_openmp(int wanted) noexcept:
    """Cut `wanted` down by OpenMP's region around, and by the limit that somebody has set."""
    cdef int limit
    if wanted <= 1 or omp_in_parallel():
        return 1
    wanted = min(wanted, max(omp_get_thread_limit(), 1))
    limit = omp_get_max_threads()
    if limit < wanted and limit < pplconv_team_unlimited():
        return max(limit, 1)
    return wanted


cdef int allowed(int wanted) except -1:
    """Cut `wanted` down by the limits that do not depend on other calls."""
    if pinned():
        from pplconv.runtime import pinned_team

        wanted = pinned_team(wanted)
    return allowed_by_openmp(wanted)


cdef bint spread = False


cdef int spread_once() except -1:
    """If OpenMP binds threads, say which CPUs workers may use, before the first worker starts."""
    global spread
    if not spread:
        from pplconv.runtime import team_cpus

        for cpu in team_cpus():
            spread_workers_to(cpu)
        spread = True
    return 0


cdef int take_team(int wanted, int most) except -1:
    """Count in the threads of a call, at most `wanted`; `leave_team` counts them out.

    No more than `most` compute at once, except that every call gets at least one thread.
    """
    cdef int team = pplconv_team_take(allowed(wanted), most)
    if team > 1:
        try:
            spread_once()
        except BaseException:  # an interrupt must not leave the threads counted in
            pplconv_team_leave(team)
            raise
    return team


cdef void leave_team(int team) noexcept nogil:
    pplconv_team_leave(team)


def largest_team(int wanted):
    """How many of `wanted` threads a call of this thread would get if no other call were running.

    This binds no thread and warns of nothing, unlike the call.

    Parameters
    ----------
    wanted : int
        Threads of its plan.

    Returns
    -------
    int
        From 1 to `wanted`.
    """
    if pinned():
        from pplconv.runtime import pinned_cores

        cores = pinned_cores()
        if cores is not None:
            wanted = min(wanted, cores)
    return allowed_by_openmp(wanted)


def threads_in_use():
    """Count the threads that compute just now, over all calls of this process."""
    return pplconv_team_in_use()


cdef class Taken:
    """Threads counted as in use for as long as a ``with`` block lasts.

    Parameters
    ----------
    wanted : int
        How many.
    most : int
        How many may be in use over all.
    """

    cdef int wanted, most, team

    def __cinit__(self, int wanted, int most):
        self.wanted, self.most, self.team = wanted, most, 0

    def __enter__(self):
        self.team = take_team(self.wanted, self.most)
        return self.team

    def __exit__(self, kind, error, trace):
        leave_team(self.team)
        self.team = 0


def _in_child():
    pplconv_team_forget()


# Systems without fork have no such function, and no such problem.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

"""Children forked after OpenMP was used run serially.

A thread that has led a team keeps its workers waiting for the next one.  fork() copies that
thread's memory, not the workers.  OpenMP libraries in the child wait for threads that do not
exist, and hang.  pplconv asks such a library for its limits, so the parent notes that it leads
teams before it does, and a child that finds the note runs everything on the calling thread.
"""

from __future__ import annotations

import os
import threading
import warnings

_used = False
_forked = False
_warned = False
# Held to look at `_warned` and set it.
_telling = threading.Lock()


def note_openmp_used() -> None:
    """Note that this process leads teams; call it before the first region, not after it.

    Another thread may fork while the region runs.
    """
    global _used
    _used = True


def openmp_used() -> bool:
    """Whether children of this process that are forked now will run serially.

    Returns
    -------
    bool
    """
    return _used or _forked


def forked_after_openmp() -> bool:
    """Whether this process descends by fork alone from one that had used OpenMP.

    Returns
    -------
    bool
        True if a team of more than one thread might hang here.
    """
    return _forked


def safe_team(threads: int) -> int:
    """Team size that cannot hang: `threads`, or 1 in a child forked after OpenMP was used.

    Parameters
    ----------
    threads : int
        Team size that would otherwise be used.

    Returns
    -------
    int

    Warns
    -----
    RuntimeWarning
        The first time in a process that a team becomes smaller for this reason.
    """
    global _warned
    if not _forked or threads <= 1:
        return threads
    with _telling:
        told, _warned = _warned, True
    if not told:
        warnings.warn(
            "this process was forked after its parent had used OpenMP, where teams hang: pplconv "
            'runs on one thread here. The "spawn" and "forkserver" start methods of '
            "multiprocessing avoid this.",
            RuntimeWarning,
            stacklevel=3,
        )
    return 1


def _in_child() -> None:
    global _forked, _warned, _telling
    _forked = _used  # copied from the parent, and so from its parents
    _warned = False  # each process says it once
    _telling = threading.Lock()


# Systems without fork have no such function, and no such problem.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

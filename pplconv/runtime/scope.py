"""The default team of a piece of code: what a call that names no team finds there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pplconv._checks import integer
from pplconv.config import MAX_THREADS

TEAM: ContextVar[int] = ContextVar("pplconv_team", default=0)
"""Team of this context, 0 where none was named. A context variable and no global: each thread
has its own, and so has each task of an event loop."""


@contextmanager
def team(threads: int) -> Iterator[None]:
    """Have calls that name no team use `threads` threads, in this thread and within this block.

    For programs that cannot hand ``threads=`` to the calls themselves, such as one that runs a
    whole model beside others.  ``threads=`` of a call goes before it, and it goes before
    ``PPLCONV_NUM_THREADS``.  Blocks nest; other threads, also those that are started inside,
    keep their own default (an interpreter without a GIL hands new ones the starter's), and the
    tasks of an event loop do not see one another's.

    Parameters
    ----------
    threads : int
        Size of the team, 1 to 65536; the planner still makes it smaller where there is little
        work.

    Raises
    ------
    TypeError, ValueError
        If `threads` is no integer, or out of range.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> conv = pplconv.Conv2d(np.ones((64, 64, 3, 3), np.float32), padding=1)
    >>> with pplconv.runtime.team(1):
    ...     conv.plan_for((1, 64, 56, 56)).threads
    1
    """
    token = TEAM.set(integer("threads", threads, 1, MAX_THREADS))
    try:
        yield
    finally:
        TEAM.reset(token)


def scoped_team() -> int | None:
    """Team that the code around the call has named by `team`, None if it has named none."""
    return TEAM.get() or None

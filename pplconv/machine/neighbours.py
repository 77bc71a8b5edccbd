"""CPUs to which threads of this system are bound; read anew each time, as they change.

Linux reports the affinity mask of any visible thread, whoever owns it. Threads in other containers
are not visible. Systems without such masks report nothing.

Source: Linux manual, sched_setaffinity(2); proc(5) for ``stat``; ``PF_KTHREAD`` in sched.h.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from .kernel_files import read_text, under

_KERNEL_THREAD = 0x00200000
# Fields of /proc/PID/stat after the name, which is in parentheses and may hold anything.
_STATE, _FLAGS = 0, 6

_Ask = Callable[[int], Iterable[int]]


def bound_cpus(usable: Iterable[int], root: str = "/", ask: _Ask | None = None) -> frozenset[int]:
    """CPUs of `usable` to which threads of any process are bound.

    A thread counts if its mask holds at most half of `usable`: a wider mask rather keeps it off
    some CPUs. Threads of the kernel do not count, since there are some for every CPU.

    Parameters
    ----------
    usable : iterable of int
        CPU ids that matter.
    root : str, optional
        Directory that holds ``proc``.
    ask : callable, optional
        Returns the mask of a thread by its number, or raises OSError; by default the system's call.

    Returns
    -------
    frozenset of int
        Empty where the system does not tell.
    """
    ask = ask or getattr(os, "sched_getaffinity", None)
    if ask is None:
        return frozenset()
    every = frozenset(usable)
    found: set[int] = set()
    for process, thread in _threads(root):
        try:
            own = every.intersection(ask(thread))
        except OSError:  # it has ended, or a sandbox forbids the call
            continue
        if own and 2 * len(own) <= len(every) and not own <= found and _counts(root, process):
            found |= own
    return frozenset(found)


def _threads(root: str) -> Iterator[tuple[str, int]]:
    """Yield the process and the number of each thread."""
    for process in _numbers(under(root, "/proc")):
        for thread in _numbers(under(root, f"/proc/{process}/task")):
            yield process, int(thread)


def _numbers(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.isdecimal()]
    except OSError:
        return []


def _counts(root: str, process: str) -> bool:
    """Whether a process is not the kernel's, and has not ended."""
    fields = read_text(under(root, f"/proc/{process}/stat")).rpartition(")")[2].split()
    try:
        return not int(fields[_FLAGS]) & _KERNEL_THREAD and fields[_STATE] not in "ZX"
    except (IndexError, ValueError):
        return False

"""Answers of psutil, for systems with neither sysfs nor /proc."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

_Answer = TypeVar("_Answer")


def physical_cores() -> int:
    """Physical cores of the machine; 0 if psutil cannot tell."""
    return _ask(lambda psutil: int(psutil.cpu_count(logical=False) or 0), 0)


def memory() -> int:
    """Memory of the machine in bytes; 0 if psutil cannot tell."""
    return _ask(lambda psutil: int(psutil.virtual_memory().total), 0)


def affinity() -> Iterable[int]:
    """CPU ids that this process may run on; () if psutil cannot tell.

    On systems without affinity masks (macOS), psutil has no such method.
    """
    return _ask(lambda psutil: tuple(psutil.Process().cpu_affinity()), ())


def _ask(question: Callable[[Any], _Answer], default: _Answer) -> _Answer:
    """Return `question(psutil)`, or `default` if psutil cannot tell."""
    try:
        import psutil
    except (ImportError, NotImplementedError):  # the latter on systems that it does not know
        return default
    try:
        return question(psutil)
    except (psutil.Error, OSError, AttributeError, NotImplementedError, RuntimeError, ValueError):
        return default

"""CPUs that OpenMP keeps from a thread that it has bound.

With ``OMP_PROC_BIND`` or ``GOMP_CPU_AFFINITY`` set, libgomp binds the thread that loads it to the
first of its places, before anybody reads the affinity mask.  Its list of places still has the CPUs
that the process had, or that ``OMP_PLACES`` gave it. Only libgomp is asked: other OpenMP libraries
bind when they start a team, and asking them would start one.

Source: OpenMP 5.2, 18.3 (places); libgomp manual, ``GOMP_CPU_AFFINITY``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from .kernel_files import read_text, under

__all__ = ["openmp_binds", "places", "widened"]


def openmp_binds() -> bool:
    """Tell whether a libgomp of this process binds threads."""
    return bool(places())


def places(root: str = "/") -> list[frozenset[int]]:
    """List the CPUs of each place of each libgomp of this process.

    Parameters
    ----------
    root : str, optional
        Directory that holds ``proc``.

    Returns
    -------
    list of frozenset of int
        Empty if they bind no thread.
    """
    found: list[frozenset[int]] = []
    paths = _libraries(root)
    if not paths:
        return []
    try:
        import ctypes
    except ImportError:  # a Python that was built without libffi
        return []
    for path in paths:
        try:
            library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
            if library.omp_get_proc_bind():
                found += _places_of(library)
        except (OSError, AttributeError):  # it is not loaded here, or too old to tell
            continue
    return found


def widened(mask: Iterable[int], root: str = "/") -> tuple[int, ...]:
    """Return the CPUs that a thread with this mask would have if OpenMP had not bound it.

    Parameters
    ----------
    mask : iterable of int
        CPUs that the thread may run on.
    root : str, optional
        Directory that holds ``proc``.

    Returns
    -------
    tuple of int
        Ascending; the CPUs of `mask` if it is not inside a place of OpenMP.
    """
    cpus = frozenset(mask)
    known = places(root)
    if cpus and any(cpus <= place for place in known):
        cpus = cpus.union(*known)
    return tuple(sorted(cpus))


def _libraries(root: str) -> list[str]:
    found: dict[str, None] = {}
    for line in read_text(under(root, "/proc/self/maps")).splitlines():
        path = line[line.find("/") :] if "/" in line else ""
        if "libgomp" in os.path.basename(path):
            found[path] = None
    return list(found)


def _places_of(library: Any) -> list[frozenset[int]]:
    import ctypes

    found = []
    for place in range(library.omp_get_num_places()):
        ids = (ctypes.c_int * max(library.omp_get_place_num_procs(place), 1))()
        library.omp_get_place_proc_ids(place, ids)
        found.append(frozenset(ids[: library.omp_get_place_num_procs(place)]))
    return found

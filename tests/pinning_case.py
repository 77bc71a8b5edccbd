"""Shared by tests of pinning: machines, a recording operating system, work for a team."""

from __future__ import annotations

import ctypes
import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

import pplconv
from pplconv import _binding
from pplconv.machine import Machine


def machine(
    nodes: dict[int, tuple[int, ...]], smt: int = 1, affinity: tuple[int, ...] | None = None
) -> Machine:
    """Describe a machine whose cores are `smt` neighbouring CPUs each."""
    cpus = tuple(sorted(cpu for node in nodes.values() for cpu in node))
    return Machine(
        numa_nodes=tuple(nodes.values()),
        node_ids=tuple(nodes),
        cores=tuple(cpus[i : i + smt] for i in range(0, len(cpus), smt)),
        affinity=cpus if affinity is None else affinity,
    )


TWO_NODES = machine({0: (0, 1, 2, 3), 1: (4, 5, 6, 7)})

_WORD = ctypes.c_ulong
_BITS = 8 * ctypes.sizeof(_WORD)
_MASK = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_int, ctypes.c_size_t, ctypes.POINTER(_WORD))
_MEMORY = ctypes.CFUNCTYPE(
    ctypes.c_long,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.POINTER(_WORD),
    ctypes.c_ulong,
)


class System:
    """A system of 64 CPUs that records its calls; each thread may run on all CPUs at first."""

    def __init__(self) -> None:
        self.masks: dict[int, set[int]] = {}
        self.told: list[tuple[int, frozenset[int]]] = []
        self.memory: list[tuple[int, int, frozenset[int]]] = []
        self.refuse_mask = self.refuse_read = self.refuse_memory = 0
        self.obey = True
        self._lock = threading.Lock()

    def mask(self, tid: int) -> set[int]:
        return self.masks.setdefault(tid, set(range(64)))

    def set_affinity(self, tid: int, size: int, words: object) -> int:
        with self._lock:
            cpus = {i for i in range(8 * size) if words[i // _BITS] >> (i % _BITS) & 1}
            self.told.append((tid, frozenset(cpus)))
            if self.refuse_mask:
                return -self.refuse_mask
            if self.obey:
                self.masks[tid] = cpus
            return 0

    def get_affinity(self, tid: int, size: int, words: object) -> int:
        with self._lock:
            if self.refuse_read:
                return -self.refuse_read
            for cpu in self.mask(tid):
                words[cpu // _BITS] |= 1 << (cpu % _BITS)
            return 8

    def bind_memory(self, start: int, size: int, mode: int, words: object, bits: int) -> int:
        with self._lock:
            nodes = {i for i in range(bits - 1) if words[i // _BITS] >> (i % _BITS) & 1}
            self.memory.append((size, mode, frozenset(nodes)))
            return -self.refuse_memory


@contextmanager
def replaced_system(monkeypatch: object, there: Machine | None) -> Iterator[System]:
    """Replace the operating system by a recording one, and this machine by `there` if given."""
    from pplconv.runtime import pinning

    system = System()
    calls = (
        _MASK(system.set_affinity),
        _MASK(system.get_affinity),
        _MEMORY(system.bind_memory),
    )
    if there is not None:
        monkeypatch.setattr(pinning, "current_machine", lambda: there)
    _binding.replace_system(*(ctypes.cast(call, ctypes.c_void_p).value for call in calls))
    try:
        yield system
    finally:
        _binding.replace_system()


REFUSALS = [errno.EPERM, errno.ENOSYS, errno.EINVAL]


class Work:
    """A convolution that a team of any size runs, and its bits."""

    def __init__(self, threads: int) -> None:
        random = np.random.default_rng(5)
        self.x = random.standard_normal((1, 32, 56, 56), dtype=np.float32)
        weight = random.standard_normal((64, 32, 3, 3), dtype=np.float32)
        self.conv = pplconv.Conv2d(
            weight, padding=1, threads=threads, algorithm="direct", layout="NCHW"
        )
        self.team = self.conv.plan_for(self.x.shape).threads

    def run(self) -> bytes:
        return self.conv(self.x).tobytes()

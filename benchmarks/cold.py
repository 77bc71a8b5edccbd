"""Calls that find neither weights nor arrays in the caches, as those of a large network do.

Before each timed call the caches are filled with other data, by reading memory that is several
times as large as they are, and then a second instance of the engine, with weights and arrays of its
own, computes once. So the timed call finds its data in memory, but everything that the layers of a
network share is warm: code, the interpreter, scratch, and running workers. The result of the second
instance is kept meanwhile, so that no engine is given an output that is still warm.

A ring of instances, larger than the caches, would make data as cold. Small layers would need
hundreds of instances, whose code objects and descriptors would be cold as well; a few instances
would stay in the caches.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import machine

# Read this many times the last cache: a cache that is filled once keeps some of its old lines.
TIMES = 3
LEAST_BYTES = 64 << 20
# A larger last cache is shared by many virtual machines, and reading that much takes too long.
MOST_BYTES = 1 << 30


def evict_bytes(caches: Mapping[int, int], memory: int) -> int:
    """How much to read so that nothing stays in the caches.

    Parameters
    ----------
    caches : mapping of int to int
        Size of each level in bytes, as `benchmarks.machine.cache_bytes` gives it.
    memory : int
        Bytes that the machine has; no more than an eighth of them is used.
    """
    wanted = max(TIMES * max(caches.values(), default=0), LEAST_BYTES)
    return min(wanted, MOST_BYTES, max(memory // 8, 1 << 20))


def memory_bytes() -> int:
    """Memory of the machine, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class Evictor:
    """Fills the caches of a team's cores, private and shared ones.

    Parameters
    ----------
    threads : int
        Cores to read on, all at once: only its own reads fill a core's private caches.
    size : int, optional
        Bytes that each of them reads; by default `evict_bytes` of this machine.
    """

    def __init__(self, threads: int = 1, size: int | None = None) -> None:
        if size is None:
            size = evict_bytes(machine.cache_bytes(), memory_bytes())
        self.threads, self.size = threads, size
        # `arange` writes all pages: pages never written share one page of zeros.
        self._memory: NDArray[np.int64] = np.arange(size // 8, dtype=np.int64)

    def __call__(self) -> None:
        """Read it all, on every core."""
        if self.threads == 1:
            self._memory.max()
            return
        barrier = threading.Barrier(self.threads)

        def read() -> None:
            barrier.wait()
            self._memory.max()

        team = [threading.Thread(target=read) for _ in range(self.threads)]
        for thread in team:
            thread.start()
        for thread in team:
            thread.join()

    def before(self, second: Callable[[], Any]) -> Callable[[], object]:
        """Make the function that is called before each cold call.

        Parameters
        ----------
        second : callable
            A call of the engine's second instance.

        Returns
        -------
        callable
            Fills the caches and calls `second`; gives its result, which must be kept while the cold
            call runs.
        """

        def done() -> object:
            self()
            return second()

        return done

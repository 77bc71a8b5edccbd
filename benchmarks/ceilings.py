"""How fast memory is, in this very run: the sloping roofs of a roofline.

Read by copying arrays whose pair fills half of L2, several L2s, or more than the last cache. A
byte copied counts as two moved, one read and one written.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from benchmarks import machine

# Long enough for starting threads and reading clocks not to count.
BURST_SECONDS = 0.004
BURSTS = 5
# A cache much larger than this is shared by many virtual machines: what lies there is not near.
_LARGEST = 1 << 29


def working_sets(threads: int, caches: Mapping[int, int]) -> dict[str, int]:
    """Choose what the team of `threads` copies, by level: bytes a thread, source and target.

    Parameters
    ----------
    threads : int
    caches : mapping of int to int
        Size of each level in bytes, as `benchmarks.machine.cache_bytes` gives it.
    """
    l2, last = caches.get(2, 1 << 20), caches.get(3, 0)
    sets = {"L2": l2 // 2}
    if last >= 8 * l2 * threads:
        sets["L3"] = 4 * l2
    sets["memory"] = min(_LARGEST, max(1 << 26, 2 * last)) // threads
    return sets


def copy_rate(bytes_each: int, threads: int, now: Callable[[], float] = time.perf_counter) -> float:
    """Copy in `threads` threads, each its own arrays; give bytes moved a second by all of them."""
    elements = max(1, bytes_each // 8)
    pairs = [(np.ones(elements, np.float32), np.ones(elements, np.float32)) for _ in range(threads)]
    repeats = 1
    while True:
        taken = _burst(pairs, repeats, now)
        if taken >= BURST_SECONDS:
            break
        repeats *= 2
    best = min([taken, *(_burst(pairs, repeats, now) for _ in range(BURSTS))])
    return 2.0 * 4 * elements * threads * repeats / best


def _burst(
    pairs: list[tuple[NDArray[np.float32], NDArray[np.float32]]],
    repeats: int,
    now: Callable[[], float],
) -> float:
    """Copy each pair `repeats` times at once; seconds from the first start to the last end."""
    barrier = threading.Barrier(len(pairs))
    spans: list[tuple[float, float]] = []

    def work(target: NDArray[np.float32], source: NDArray[np.float32]) -> None:
        barrier.wait()
        start = now()
        for _ in range(repeats):
            np.copyto(target, source)
        spans.append((start, now()))

    if len(pairs) == 1:
        work(*pairs[0])
    else:
        team = [threading.Thread(target=work, args=pair) for pair in pairs]
        for thread in team:
            thread.start()
        for thread in team:
            thread.join()
    return max(end for _, end in spans) - min(start for start, _ in spans)


def measure(threads: int) -> dict[str, float]:
    """Measure every level for a team of `threads`: bytes a second, nearest level first."""
    sets = working_sets(threads, machine.cache_bytes())
    return {level: copy_rate(size, threads) for level, size in sets.items()}

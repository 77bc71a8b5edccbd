"""The roofs of a roofline, measured on request: FMA units, and each level of memory.

Plans do not use these figures, which differ from process to process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from .. import _kernels
from .._records import record
from .machine import Machine

# Long enough for a clock read not to count, short enough to fall between two interruptions.
BURST_SECONDS = 0.003
# The same for copies, whose threads start later.
COPY_SECONDS = 0.004
_COPIES = 5
# A cache much larger than this is shared by many virtual machines, so its size does not count.
LARGEST = 1 << 29

FmaLoop = Callable[[str, str, int], int]


class PeakUnavailable(RuntimeError):
    """The peak cannot be measured here; the text says why."""


@record
class Peak:
    """Measures the FMA peak of a team and remembers every reading.

    Parameters
    ----------
    loop : callable
        ``loop(isa, dtype, iterations) -> flops executed``, without the GIL.
    isa : str
        Instruction set, in pplconv's words: ``"portable"``, ``"avx2"``, ``"avx512"``.
    threads : int
        How many threads run the loop at once.
    dtype : str
        ``"f32"`` or ``"f64"``, as the kernel table calls them.

    Attributes
    ----------
    readings : list of float
        Every reading so far (flop/s of the whole team).
    """

    loop: FmaLoop
    isa: str
    threads: int
    dtype: str = "f32"
    readings: list[float] = field(default_factory=list)
    now: Callable[[], float] = time.perf_counter
    _iterations: int = 0

    def read(self, bursts: int = 3) -> float:
        """Run the loop `bursts` times and return the best rate (flop/s of the whole team)."""
        if not self._iterations:
            self._iterations = self._calibrate()
        best = max(self._burst() for _ in range(bursts))
        self.readings.append(best)
        return best

    def _calibrate(self) -> int:
        iterations = 1000
        while True:
            start = self.now()
            self.loop(self.isa, self.dtype, iterations)
            taken = self.now() - start
            if taken >= BURST_SECONDS:
                return iterations
            iterations *= 2

    def _burst(self) -> float:
        if self.threads == 1:
            start = self.now()
            flops = self.loop(self.isa, self.dtype, self._iterations)
            return flops / (self.now() - start)
        return self._team_burst()

    def _team_burst(self) -> float:
        barrier = threading.Barrier(self.threads)
        spans: list[tuple[float, float, int]] = []

        def work() -> None:
            # A thread may wake late, so each runs the loop several times; the rate is counted from
            # the first start to the last end.
            barrier.wait()
            start = self.now()
            flops = sum(self.loop(self.isa, self.dtype, self._iterations) for _ in range(3))
            spans.append((start, self.now(), flops))

        team = [threading.Thread(target=work) for _ in range(self.threads)]
        for thread in team:
            thread.start()
        for thread in team:
            thread.join()
        if len(spans) != self.threads:
            raise PeakUnavailable("a thread of the peak loop failed")
        seconds = max(end for _, end, _ in spans) - min(start for start, _, _ in spans)
        return sum(flops for _, _, flops in spans) / seconds


def working_sets(threads: int, caches: Mapping[int, int], largest: int = LARGEST) -> dict[str, int]:
    """Choose the bytes that each of `threads` copies, source and target together, by level.

    Parameters
    ----------
    threads : int
        Size of the team.
    caches : mapping of int to int
        Size of each level in bytes; unknown levels are left out.
    largest : int, optional
        Bytes of all arrays together.
    """
    l2, last = caches.get(2, 1 << 20), caches.get(3, 0)
    sets = {"L2": l2 // 2}
    if last >= 8 * l2 * threads:
        sets["L3"] = 4 * l2
    sets["memory"] = min(largest, max(1 << 26, 2 * last)) // threads
    return sets


def copy_rate(bytes_each: int, threads: int, now: Callable[[], float] = time.perf_counter) -> float:
    """Copy in `threads` threads, each its own arrays; return the bytes a second of all of them.

    A byte copied counts as two moved, one read and one written.
    """
    elements = max(1, bytes_each // 8)
    pairs = [(np.ones(elements, np.float32), np.ones(elements, np.float32)) for _ in range(threads)]
    repeats = 1
    while True:
        taken = _burst(pairs, repeats, now)
        if taken >= COPY_SECONDS:
            break
        repeats *= 2
    best = min([taken, *(_burst(pairs, repeats, now) for _ in range(_COPIES))])
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


@record(frozen=True)
class Ceilings:
    """Measured peak rates of this machine.

    Parameters
    ----------
    isa : str
        Instruction set of the FMA loop.
    threads : int
        Size of the team.
    flops : float
        Floating-point operations a second, float32, in registers.
    bandwidths : dict
        Bytes a second of each level that was measured, ``"L2"``, ``"L3"``, ``"memory"``.
    core_flops : float
        As `flops`, of one thread alone; 0 if it was not measured.
    """

    isa: str
    threads: int
    flops: float
    bandwidths: dict[str, float]
    core_flops: float = 0.0


def measure(isa: str, threads: int, machine: Machine, largest: int = 1 << 28) -> Ceilings:
    """Measure the FMA peak and the speed of memory; takes about a second.

    Parameters
    ----------
    isa : str
        Instruction set that the kernels run on.
    threads : int
        Size of the team.
    machine : Machine
        Its cache sizes determine the sizes of the arrays.
    largest : int, optional
        Bytes that all copied arrays may have together.

    Returns
    -------
    Ceilings

    Raises
    ------
    LookupError
        If there is no FMA loop for `isa`.
    MemoryError
        If there is no room for the arrays.
    """
    caches = {2: machine.l2_share, 3: machine.l3_bytes}
    sets = working_sets(threads, {level: size for level, size in caches.items() if size}, largest)
    peak = alone = Peak(_kernels.fma_peak, isa, threads).read(bursts=20)
    if threads > 1:
        alone = Peak(_kernels.fma_peak, isa, 1).read(bursts=20)
    rates = {level: copy_rate(size, threads) for level, size in sets.items()}
    return Ceilings(isa, threads, peak, rates, alone)

"""The FMA peak: what a register-only loop of fused multiply-adds reaches, in this very run.

"% of peak" always means of this figure, measured between the rounds of the layer it is compared
with, by as many threads, on the instruction set that pplconv runs on (``PPLCONV_MAX_ISA`` caps
both).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

# Long enough for a clock read not to count, short enough to fall between two interruptions.
BURST_SECONDS = 0.003

FmaLoop = Callable[[str, str, int], int]


class PeakUnavailable(RuntimeError):
    """The peak cannot be measured here; the text says why."""


@dataclass
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
        """Run the loop `bursts` times and give the best one (flop/s of the whole team)."""
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
            # Another team-mate may wake late: each runs until all have surely been running, and
            # only what falls between the first start and the last end is counted.
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


def open_peak(threads: int) -> Peak:
    """Find the float32 loop of the instruction set that pplconv runs on.

    Raises
    ------
    PeakUnavailable
        If pplconv is not installed, or has no such loop.
    """
    try:
        import numpy as np

        import pplconv
        from pplconv import _kernels
    except ImportError as error:
        raise PeakUnavailable(f"pplconv cannot be imported: {error}") from None
    loop = getattr(_kernels, "fma_peak", None)
    if loop is None:
        raise PeakUnavailable("this pplconv has no fma_peak")
    conv = pplconv.Conv2d(np.ones((16, 16, 1, 1), np.float32), threads=1)
    isa = conv.plan_for((1, 16, 8, 8)).isa
    try:
        loop(isa, "f32", 1)
    except LookupError as error:
        raise PeakUnavailable(str(error)) from None
    return Peak(loop=loop, isa=isa, threads=threads)

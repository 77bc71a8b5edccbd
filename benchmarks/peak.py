"""The FMA peak: the rate of a register-only loop of fused multiply-adds, in this very run.

"% of peak" always refers to this figure. It is measured between the rounds of the layer that it is
compared with, by as many threads, on the instruction set that pplconv runs on
(``PPLCONV_MAX_ISA`` caps both).
"""

from __future__ import annotations

import numpy as np

import pplconv
from pplconv import _kernels
from pplconv.machine.ceilings import Peak, PeakUnavailable

__all__ = ["Peak", "PeakUnavailable", "open_peak"]


def open_peak(threads: int) -> Peak:
    """Find the float32 loop of the instruction set that pplconv runs on.

    Raises
    ------
    PeakUnavailable
        If pplconv has no such loop.
    """
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

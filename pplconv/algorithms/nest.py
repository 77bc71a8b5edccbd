"""One candidate of the GEMM nest of ``pointwise``, ``im2col`` and ``gemm``, with its cost."""

from __future__ import annotations

from .._records import record
from .core_model import CoreModel
from .nest_blocking import NestBlocking
from .nest_cost import estimate


@record(frozen=True)
class Nest(NestBlocking):
    """One way to run a problem through the GEMM nest."""

    def cost(self, core: CoreModel, threads: int) -> dict[str, float]:
        """Estimate the cycles of the busiest thread; see `nest_cost`."""
        return estimate(self, core, threads)

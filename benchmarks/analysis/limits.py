"""The bound of a loop: the largest of a few lower bounds of its cycles, if one explains them.

The bounds (cycles a turn):

``FMA``
    FMAs of the turn, over how many start in a cycle;
a resource
    the work of its busiest unit;
``dispatch``
    micro-ops of the turn, over how many are handed out in a cycle;
``latency``
    the longest chain of FMAs into one accumulator.

Where none of them comes near the cycles that were simulated, the loop waits for what llvm-mca's own
analysis names, or for the order of its instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.analysis.cores import Core
from benchmarks.analysis.loops import Loop
from benchmarks.analysis.mca import Answer

# How near a bound has to come to the cycles to explain them, as a part of these. The start of a
# simulation takes some.
NEAR = 0.96


@dataclass(frozen=True)
class Verdict:
    """A loop on a core.

    Parameters
    ----------
    rate : float
        FMAs a cycle.
    peak : float
        FMAs that start in a cycle at best, in the model.
    bound : str
        The bound that keeps it from being faster.
    """

    rate: float
    peak: float
    bound: str

    @property
    def share(self) -> float:
        """Part of the model's peak."""
        return self.rate / self.peak


def bounds(loop: Loop, answer: Answer) -> dict[str, float]:
    """Lower bounds of a turn's cycles, by name."""
    found = {
        "FMA": loop.fmas * answer.fma_cycles,
        "latency": loop.chain * answer.fma_latency,
        "dispatch": answer.micro_ops / answer.dispatch_width,
    }
    # Chains are shorter than this where accumulators are forwarded early, or where the latency
    # includes the load of an operand from memory.
    if found["latency"] > answer.cycles / NEAR:
        del found["latency"]
    return found | dict(answer.pressure)


def judge(core: Core, loop: Loop, answer: Answer) -> Verdict:
    """Say how fast a loop is and why not faster."""
    rate = loop.fmas / answer.cycles
    peak = 1 / answer.fma_cycles
    found = bounds(loop, answer)
    # FMAs first: a unit that does nothing else is no second reason.
    name = "FMA" if found["FMA"] >= NEAR * answer.cycles else max(found, key=lambda n: found[n])
    if found[name] >= NEAR * answer.cycles:
        return Verdict(rate, peak, name)
    if core.in_order:
        return Verdict(rate, peak, "order")
    waits = {
        "dependencies": answer.stalls.get("DataDependencyCycles", 0),
        "units": answer.stalls.get("ResourcePressureCycles", 0),
    }
    cause = max(waits, key=lambda n: waits[n])
    # Instructions of several micro-ops leave slots of a group empty, which no view counts.
    return Verdict(rate, peak, cause if waits[cause] else "groups")

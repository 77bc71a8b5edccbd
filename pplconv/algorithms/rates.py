"""What the cost estimates know of a core, and the arithmetic that they share."""

from __future__ import annotations

from dataclasses import dataclass

from ..problem import ConvProblem
from .surroundings import Surroundings

FMA_LATENCY = 4.0
LOADS_PER_CYCLE = 2.0
CALL_CYCLES = 40.0  # a microkernel: its arguments, its tail masks, the call
TASK_CYCLES = 300.0
STORE_CYCLES = 1.0
WIDEN_CYCLES = 2.0  # a vector of halves into scratch
NARROW_CYCLES = 3.0  # a vector of outputs from scratch, its place in memory included
STORE_TRANSPOSED_CYCLES = 5.0  # a vector, L2 to the user array
# Bytes a cycle that a streamed operand comes at, and how much of it hides behind FMAs.
L2_BYTES = 48.0
L2_WRITE_BYTES = 16.0
L3_BYTES = 10.0
HIDDEN = 0.8
CYCLES_PER_MICROSECOND = 3000.0  # nominal: what is measured in time is compared with cycles
LATE = 0.05  # of a task, for which a team waits for its last thread
MOST_STREAMS = 16  # rows of A that are streams of their own
STREAM_CYCLES = 0.05  # a broadcast, where there are more streams than that


@dataclass(frozen=True)
class Rates:
    """What the model knows: vector FMAs a cycle, cache sizes, cycles to start a team."""

    fma_per_cycle: float
    l1_bytes: int
    l2_bytes: int
    team_cycles: float = CYCLES_PER_MICROSECOND

    @classmethod
    def of(cls, around: Surroundings) -> Rates:
        """Take the rates of a machine for one instruction set."""
        machine = around.machine
        return cls(
            float(machine.fma_per_cycle[around.isa]), machine.l1d_bytes, machine.l2_bytes,
            around.team_start * CYCLES_PER_MICROSECOND,
        )  # fmt: skip


def step_cycles(rates: Rates, mr: int, vectors: int) -> float:
    """Cycles of one step of k of the microkernel: mr x vectors FMAs."""
    return max(mr * vectors / rates.fma_per_cycle, (mr + vectors) / LOADS_PER_CYCLE, FMA_LATENCY)


def direct_sum_floor(problem: ConvProblem, lanes: int, rates: Rates) -> float:
    """Cycles on one thread that no direct sum stays below: its FMAs at their peak."""
    return problem.flops / 2 / (lanes * rates.fma_per_cycle)


def conversion_cycles(problem: ConvProblem, lanes: int, reads: float) -> float:
    """Cycles to convert the input, `reads` times, and the output once."""
    p = problem
    inputs, outputs = p.ic * p.ih * p.iw, p.oc * p.oh * p.ow
    return p.batch * (reads * inputs * WIDEN_CYCLES + outputs * NARROW_CYCLES) / lanes


def parts(total: int, size: int) -> list[tuple[int, int]]:
    """Cut `total` into pieces of `size`: [(piece, how many)], the last one shorter."""
    whole, rest = divmod(total, size)
    return [(p, n) for p, n in ((size, whole), (rest, 1 if rest else 0)) if n]


def busiest_share(tasks: int, threads: int, largest: float) -> float:
    """Share of the work that the busiest thread has.

    Tasks are not all alike: it is the `largest` of them (as a share of the whole), as often
    as the busiest thread has a turn, and some of one more, as no machine gives all threads the
    same time.
    """
    late = LATE if threads > 1 else 0.0
    return min(1.0, (-(-tasks // threads) + late) * largest) if tasks else 0.0


def matrix_cycles(rates: Rates, rows: int, columns: int, mr: int, nr: int, lanes: int,
                  k: int, passes: int = 1) -> float:  # fmt: skip
    """Cycles of the microkernel over a whole matrix product of rows x columns x k."""
    total = 0.0
    for m, m_count in parts(rows, mr):
        for n, n_count in parts(columns, nr):
            vectors = -(-n // lanes)
            step = step_cycles(rates, m, vectors)
            call = passes * CALL_CYCLES + m * vectors * STORE_CYCLES * (2 * passes - 1)
            total += m_count * n_count * (k * step + call)
    return total

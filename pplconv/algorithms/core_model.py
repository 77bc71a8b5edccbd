"""The model of a core for cost estimates, and the arithmetic that they share."""

from __future__ import annotations

import math
from functools import lru_cache

from .._records import record
from ..machine import Machine
from ..machine.x86_identity import l3_share, x86_core
from ..numerics import Numerics
from ..problem import Problem
from .context import PlanContext

CALL_CYCLES = 40.0  # a microkernel: its arguments, its tail masks, the call
TASK_CYCLES = 300.0
STORE_CYCLES = 1.0
RUN_CYCLES = 1.5  # neighbouring outputs that a tile stores, if their lines are beyond L2
CONVERT_IN_CYCLES = 2.0  # a vector of elements into scratch
CONVERT_OUT_CYCLES = 3.0  # a vector of outputs from scratch, its place in memory included
STORE_TRANSPOSED_CYCLES = 5.0  # a vector, L2 to the user array
# Rates for cores that were not measured, by the names of `X86Core`; `CoreModel` has the rates of
# its core. The L2 rate is at most the rate at which the core can load.
USUAL_RATES = {"l2_read": 48.0, "l3_read": 10.0, "memory": 5.0, "l2_write": 16.0, "taken": 100.0}
BEYOND_L3 = 1.0  # doublings of a core's share of L3 after which L3 holds nothing of an operand
BROADCASTS_REACHED = 0.92  # of the peak load rate, if each element needs a load of its own
HIDDEN = 0.9  # of the time in which weights and V arrive, behind FMAs
CYCLES_PER_MICROSECOND = 3000.0  # nominal: turns measured times into cycles
LATE = 0.03  # of a task: how long a team waits for its last thread
MOST_STREAMS = 16  # rows of A that a core can follow as streams
FEW_CHANNELS = 8  # their products are too few to hide a stream of planes
STREAM_CYCLES = 0.08  # a broadcast, if there are more streams
L1_WAY_BYTES = 4096
LINES_TOGETHER = 2  # prefetchers fetch cache lines in pairs
CONFLICT_CYCLES = 0.6  # a load that misses L1 because rows share a set
FULL = 1.15  # of L1's size: more lines of rows that share sets cause misses

# Vector bytes of instruction sets that can multiply by one element of a vector: a load of A then
# serves an FMA for each of its elements. Others need a broadcast load for each element of A.
BY_ELEMENT = {"neon": 16, "fp16": 16, "dotprod": 16, "i8mm": 16, "bf16": 16}
# Instruction sets with tile registers, and the groups of k that a row of a register holds.
TILED = ("amx",)
TILE_GROUPS = 16
STAYS = 0.4  # of L1: the rows of a tile stay there while panels of weights are streamed
PART_CYCLES = 180.0  # of a step that is copied and filled with zeros
WHOLE_CYCLES = 64.0  # of a step of the largest tile


@record(frozen=True)
class CoreModel:
    """A core as cost estimates see it.

    Parameters
    ----------
    fma_per_cycle : float
        Vector FMAs that start in a cycle.
    l1_bytes, l2_bytes : int
        Size of the data caches.
    team_cycles : float
        Cycles to start a team.
    fma_latency : float
        Cycles from one FMA to the next into the same accumulator.
    loads_per_cycle : float
        Vector loads that start in a cycle.
    broadcasts : int
        Elements of A that one load brings.
    l2_rate, l3_rate, memory_rate : float
        Bytes a cycle at which a streamed operand arrives from there.
    l2_write : float
        Bytes a cycle at which a stream of stores leaves for L2.
    l3_bytes : int
        A core's share of L3.
    taken : float
        Cycles to get a cache line that another core has written.
    together : int
        Neighbouring k that a lane of an FMA multiplies and adds up.
    exact : bool
        Whether sums are exact, so that they may be cut anywhere.
    rounds : bool
        Whether kernels can convert sums to the output's type as they store them.
    """

    fma_per_cycle: float
    l1_bytes: int
    l2_bytes: int
    team_cycles: float = CYCLES_PER_MICROSECOND
    fma_latency: float = 4.0
    loads_per_cycle: float = 2.0
    broadcasts: int = 1
    l2_rate: float = USUAL_RATES["l2_read"]
    l3_rate: float = USUAL_RATES["l3_read"]
    memory_rate: float = USUAL_RATES["memory"]
    l2_write: float = USUAL_RATES["l2_write"]
    l3_bytes: int = 0
    taken: float = USUAL_RATES["taken"]
    together: int = 1
    exact: bool = False
    rounds: bool = False

    def far_rate(self, size: int, reached: float = 1.0) -> float:
        """Bytes a cycle at which an operand of `size` bytes, too many for L2, is streamed again.

        It comes from L3 if it fits a core's share; from memory, at the `reached` share of its rate,
        if it is `BEYOND_L3` doublings larger; in between, a part comes from each.
        """
        if self.l3_bytes == 0 or size <= self.l3_bytes:
            return self.l3_rate
        part = min(math.log2(size / self.l3_bytes) / BEYOND_L3, 1.0)
        return 1.0 / ((1.0 - part) / self.l3_rate + part / (self.memory_rate * reached))

    @classmethod
    def of(cls, around: PlanContext) -> CoreModel:
        """Model a core of the context's machine, for its instruction set and numerics."""
        return _core_of(
            around.machine, around.isa, around.numerics, around.lanes, around.team_start
        )


@lru_cache(maxsize=64)
def _core_of(
    machine: Machine, isa: str, numerics: Numerics, lanes: int, team_start: float
) -> CoreModel:
    rates = USUAL_RATES
    found = x86_core(machine)
    if found:
        rates = {name: getattr(found.core, name) or usual for name, usual in rates.items()}
    loads, fma = machine.loads_per_cycle, machine.fma_rate(isa, numerics.product)
    if isa == "portable":
        fma /= numerics.kr  # C multiplies singly what instructions take together
    if found and numerics.exact and isa.startswith("avx512"):
        # Products of integers cannot repeat an element of A as they read it: a load repeats it in
        # a whole vector first.
        loads = min(loads, found.core.loads512 or loads)
    broadcasts = lanes if isa in BY_ELEMENT else 1
    if isa in TILED:
        broadcasts = TILE_GROUPS
    return CoreModel(
        float(fma), machine.l1d_bytes, machine.l2_share,
        team_start * CYCLES_PER_MICROSECOND, float(machine.fma_latency), loads,
        broadcasts,
        min(rates["l2_read"], loads * BY_ELEMENT.get(isa, math.inf)),
        rates["l3_read"], rates["memory"], rates["l2_write"], l3_share(machine), rates["taken"],
        numerics.kr, numerics.exact, numerics.rounds_on(isa),
    )  # fmt: skip


def step_cycles(core: CoreModel, mr: int, vectors: int) -> float:
    """Cycles of one step of k of the microkernel: mr x vectors FMAs."""
    loads = (-(-mr // core.broadcasts) + vectors) / core.loads_per_cycle
    if core.broadcasts == 1:
        loads /= BROADCASTS_REACHED
    return max(mr * vectors / core.fma_per_cycle, loads, core.fma_latency)


def conflict_cycles(core: CoreModel, rows: int, apart: int) -> float:
    """Cycles of each load from `rows` rows `apart` bytes apart, if they share too few sets."""
    full = rows * math.gcd(apart, L1_WAY_BYTES) > FULL * core.l1_bytes
    return CONFLICT_CYCLES if full and core.broadcasts < TILE_GROUPS else 0.0


def tile_steps(groups: int, exact: bool) -> tuple[int, bool]:
    """Steps of tile registers over a segment, and whether the last one is copied first.

    A step has at most `TILE_GROUPS`. Tiles are configured for shorter ones, if all steps of the
    segment are equal: there is only one, or the sum is `exact` and may be cut anywhere.
    """
    steps = -(-groups // TILE_GROUPS)
    if groups % TILE_GROUPS == 0 or steps == 1:
        return steps, False
    equal = [n for n in (steps, steps + 1) if exact and groups % n == 0]
    return (equal[0], False) if equal else (steps, True)


def segment_cycles(core: CoreModel, groups: int, step: float) -> float:
    """Cycles of a segment of a sum, of `groups` of k that take `step` cycles each.

    Tile registers take the groups of a step at once, and as long for fewer of them.
    """
    if core.broadcasts < TILE_GROUPS:
        return groups * step
    steps, copied = tile_steps(groups, core.exact)
    return steps * TILE_GROUPS * step + (PART_CYCLES if copied else 0.0)


def streams_cycles(core: CoreModel, mr: int) -> float:
    """Extra cycles of a step of k whose rows of A are too many streams."""
    if core.broadcasts == TILE_GROUPS:
        return 0.0  # lines of rows, loaded whole
    return mr * STREAM_CYCLES if mr > MOST_STREAMS else 0.0


def direct_sum_floor(problem: Problem, lanes: int, core: CoreModel) -> float:
    """Least cycles of any direct sum on one thread: its FMAs at the peak rate."""
    return problem.flops / 2 / (lanes * core.together * core.fma_per_cycle)


def conversion_cycles(
    problem: Problem, numerics: Numerics, lanes: int, reads: float, *, rounded: bool = False
) -> float:
    """Cycles to convert the input `reads` times, and the output once, if they are converted.

    `rounded` says that kernels convert the output as they store it, which costs nothing more.
    """
    p, cycles = problem, 0.0
    if numerics.converts_in:
        cycles += reads * p.ic * p.input_pixels * CONVERT_IN_CYCLES
    if numerics.converts_out and not rounded:
        cycles += p.oc * p.output_pixels * CONVERT_OUT_CYCLES
    return p.batch * cycles / lanes


def taken_cycles(core: CoreModel, threads: int, lines: int) -> float:
    """Cycles that a thread waits for `lines` cache lines at each border with another thread.

    Both sides of a border store into them. Prefetchers bring a second line with each.
    """
    return LINES_TOGETHER * lines * core.taken * min(threads - 1, 2)


def runs_cycles(core: CoreModel, outputs: float, runs: float, *, of_lines: bool) -> float:
    """Cycles to begin `runs` of neighbouring outputs, of `outputs` bytes in all.

    Sums of few products do not hide that lines arrive, if vectors are whole lines (`of_lines`). Of
    64 channels of 320x180, 5x5 of one input, tiles of 6x64 were 2 to 7 % faster on four machines
    than those of 14x32, which store twice as many runs. Vectors of 32 bytes showed no such thing.
    """
    return RUN_CYCLES * runs if outputs > core.l2_bytes and of_lines else 0.0


def parts(total: int, size: int) -> list[tuple[int, int]]:
    """Cut `total` into pieces of `size`: [(piece, how many)], the last one shorter."""
    whole, rest = divmod(total, size)
    found = [(size, whole)] if whole else []
    return [*found, (rest, 1)] if rest else found


def busiest_share(tasks: int, threads: int, largest: float) -> float:
    """Share of the work that the busiest thread has.

    Tasks differ in size. The share is that of the `largest` task (a share of the whole) times the
    tasks of the busiest thread, plus a part of one more: no machine gives all threads the same
    time.
    """
    late = LATE if threads > 1 else 0.0
    return min(1.0, (-(-tasks // threads) + late) * largest) if tasks else 0.0


def matrix_cycles(core: CoreModel, rows: int, columns: int, mr: int, nr: int, lanes: int,
                  k: int, passes: int = 1) -> float:  # fmt: skip
    """Cycles of the microkernel over a whole matrix product of rows x columns x k.

    Rows of A are k elements apart.
    """
    total = 0.0
    for m, m_count in parts(rows, mr):
        for n, n_count in parts(columns, nr):
            vectors = -(-n // lanes)
            step = step_cycles(core, m, vectors) + streams_cycles(core, m)
            call = passes * CALL_CYCLES + m * vectors * STORE_CYCLES * (2 * passes - 1)
            total += m_count * n_count * (k * step + call)
    return total

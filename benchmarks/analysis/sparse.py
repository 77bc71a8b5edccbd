"""Products with sparse weights on models of AArch64 cores: how near their loops come to the limit.

A row of pixels that is loaded serves all channels of a panel, and no more: so the loads for each
FMA follow from the panel, and set a limit beside that of the FMAs.
"""

from __future__ import annotations

from collections.abc import Sequence

from asm.registry import Kernel, kernels
from benchmarks.analysis import mca
from benchmarks.analysis.cores import Core
from benchmarks.analysis.limits import Verdict
from benchmarks.analysis.loops import Loop, loops_of
from benchmarks.analysis.page import KINDS, Row, cells_of
from benchmarks.tables import Table

OPERATIONS = ("sparse_pixels", "sparse_channels")
# Loads of vectors, and one FMA, without which llvm-mca would say nothing about FMAs.
_LOADS = 24
_NOTHING_ELSE = (
    "".join(f"    ldur q{i}, [x1, #{8 * i}]\n" for i in range(_LOADS))
    + "    fmla v31.4s, v30.4s, v29.s[0]\n"
)


def sparse_tiles() -> list[Kernel]:
    """The widest tile of each panel where vectors run over pixels, else the highest."""
    best: dict[tuple[str, str, str, int], Kernel] = {}
    for kernel in kernels("aarch64"):
        if kernel.op in OPERATIONS and kernel.source == "generator":
            panel = kernel.mr if kernel.op == "sparse_pixels" else kernel.nr
            key = kernel.op, kernel.dtype, kernel.isa, panel
            if key not in best or kernel.mr * kernel.nr > best[key].mr * best[key].nr:
                best[key] = kernel
    return list(best.values())


def sparse_loops(dtype: str) -> list[Loop]:
    """Loops of these tiles of a type."""
    found = [
        loop for kernel in sparse_tiles() if kernel.dtype == dtype for loop in loops_of(kernel)
    ]
    return sorted(found, key=lambda o: (OPERATIONS.index(o.kernel.op), o.kernel.mr, -o.kernel.nr))


def load_rate(tool: mca.Tool, core: Core) -> float:
    """Vectors that a loop of loads loads in a cycle."""
    kernel = sparse_tiles()[0]
    answer = mca.ask(tool, core, Loop(kernel, "loads", _NOTHING_ELSE))
    return _LOADS / answer.cycles


def limit(loop: Loop, verdict: Verdict, loads: float) -> float:
    """FMAs a cycle that loads, and the units of FMAs, leave possible."""
    units = verdict.peak * loop.fmas / (loop.fmas + loop.shuffles)
    return min(units, loads * loop.fmas / loop.loads)


def table(dtype: str, rows: Sequence[Row], rates: Sequence[float]) -> Table:
    """FMAs a cycle, the limit, and what bounds the loop; `rates`: loads a cycle of each core."""
    cores = rows[0].cores
    made = Table(
        f"Sparse weights, {KINDS[dtype]}: FMAs a cycle, of the limit, and their bound",
        ("tile", "C", "FMA:load", *(core.name for core in cores)),
    )
    for row in rows:
        loop, cells = row.loop, cells_of(row.loop)
        for verdict, rate in zip(row.verdicts, rates, strict=True):
            cells.append(f"{verdict.rate:.2f} of {limit(loop, verdict, rate):.2f} {verdict.bound}")
        made.add(cells)
    return made

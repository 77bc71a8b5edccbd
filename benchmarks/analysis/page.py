"""``benchmarks/ANALYSIS.md``: one section for each architecture, each written by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.analysis import osaca
from benchmarks.analysis.cores import Core
from benchmarks.analysis.footprint import Footprint
from benchmarks.analysis.limits import Verdict
from benchmarks.analysis.loops import Loop
from benchmarks.analysis.mca import Answer
from benchmarks.tables import NONE, Table

# FMAs for each vector that is loaded, of the tiles of OpenPPL's slides (register allocation of
# the blocked GEMM): vectors of output channels in a tile, and its pixels, to what they state.
SLIDES = {
    "f32": {(1, 15): 3.15, (2, 10): 4.44, (3, 7): 4.42},
    "f16": {(1, 15): 5.21, (2, 10): 6.15, (3, 7): 5.42},
}
KINDS = {
    "f32": "fp32",
    "f64": "fp64",
    "f16": "fp16",
    "s8": "int8 by SDOT",
    "s8m": "int8 by SMMLA (and USMMLA)",
    "s16": "int8 without dot products, by SMLAL",
    "bf16": "bf16 by BFDOT",
    "bf16m": "bf16 by BFMMLA",
}
# M, N and K of the convolution that MNN measured SMMLA and SDOT on: 33x33 pixels, 2x2, 256
# channels to 1024.
PRODUCT = 1024, 1024, 1024
HEAD = """# Analysis of inner loops

This page states the speed of the GEMM tiles' inner loops on other cores. Models of the cores'
pipelines computed the figures; nothing was measured. `make analyze-arm` and `make analyze-x86`
write the page.

A model assumes that every load hits L1 and that every branch is predicted. It ignores the cost of
instruction fetch, caches, prefetches and memory. The table of cores states known differences
between model and core.

A cell has the FMAs (of whole vectors) a cycle, and the bound of the loop: `FMA`, the FMA units;
llvm's name of another unit; `dispatch`, the micro-ops that the model dispatches in a cycle;
`latency`, the chain of sums into one accumulator; `groups`, dispatch slots that instructions of
several micro-ops leave empty; `order`, the program order of in-order cores; `dependencies` or
`units`, the bottleneck that llvm-mca names if no other bound explains the cycles.

In loops of `rows`, elements of neighbouring rows of A are adjacent (packed weights, image planes);
in loops of `k`, the elements of one row are adjacent (channels-last pixels). C is the number of
independent accumulators. FMA:load divides the FMAs of an iteration by the vectors or elements that
it loads into registers or FMAs.

For narrow types an FMA is an instruction that adds several products to each sum: SDOT, BFDOT, SMLAL
(two for each pair), and SMMLA or BFMMLA, which multiply two rows by two columns. SMMLA and BFMMLA
take rows in pairs. If the rows of A lie apart (`k`), an extra instruction joins each pair, on the
units that multiply, and this limits such loops. Cores without the instructions are left out.

Sparse weights: an iteration handles some terms of a panel's list, loads their steps and multiplies
them by the distance from k to k. Each row of pixels (`pixels`) or pixel (`channels`) is loaded once
for all channels of the panel. The number after "of" is the model's limit: the loads a cycle of
a loop of loads alone, times the FMAs for each load (into vector registers), and at most the FMAs
that their units start, less the ZIPs that SDOT's quads need there. All FMAs count: none
multiplies a weight that is pruned in all channels of its panel.

The page has no products by tile registers (AMX): llvm knows neither the latency of their
instructions nor the units that execute them.
"""


@dataclass(frozen=True)
class Row:
    """A loop on every core that can execute it."""

    loop: Loop
    verdicts: Sequence[Verdict]
    cores: Sequence[Core] = ()


def short_of(core: Core, row: Row, verdict: Verdict) -> bool:
    """Whether a loop misses the figure that is wanted of main tiles on the core."""
    kernel = row.loop.kernel
    if kernel.dtype == "f64" or kernel.tuning or not core.wanted:
        return False
    if kernel.kr == 1:
        return verdict.rate < core.wanted
    # Of narrow types as much of the model's peak, where rows of A are neighbours.
    wanted = core.wanted / core.machine.fma_per_cycle[core.machine.isas[-1]]
    return row.loop.name == "rows" and verdict.share < wanted


def core_table(cores: Sequence[Core], answers: Sequence[Answer]) -> Table:
    """The cores, as they are and as they are modelled; `answers` about a loop of a tile."""
    table = Table(
        "Cores: FMAs a cycle, their latency into an accumulator, and how many of these hide it",
        ("core", "found in", "FMAs a cycle", "in the model", "latency", "in the model ",
         "C that hides it", "dispatch", "wanted", "of the model"),
    )  # fmt: skip
    isa = cores[0].machine.isas[-1]
    for core, answer in zip(cores, answers, strict=True):
        fma, latency = core.machine.fma_per_cycle[isa], core.machine.fma_latency
        modelled = 1 / answer.fma_cycles
        table.add(
            (
                core.name,
                core.products or NONE,
                f"{fma}",
                f"{modelled:.0f}",
                f"{latency}",
                f"{answer.fma_latency:.0f}",
                f"{max(fma * latency, round(modelled * answer.fma_latency))}",
                f"{answer.dispatch_width}",
                f"{core.wanted:.2f}" if core.wanted else NONE,
                core.note or NONE,
            )
        )
    return table


def cells_of(loop: Loop) -> list[str]:
    """The cells that identify a loop: its tile, its accumulators, products a load."""
    return [
        f"{loop.title} ({loop.kernel.isa})",
        f"{loop.accumulators}",
        f"{loop.fmas / loop.loads:.2f}",
    ]


def tile_table(dtype: str, cores: Sequence[Core], rows: Sequence[Row]) -> Table:
    """FMAs a cycle of every loop on every core."""
    table = Table(
        f"Tiles of {KINDS[dtype]}: FMAs a cycle, and their bound (bold: short of what is wanted)",
        ("tile", "C", "FMA:load", *(core.name for core in cores)),
    )
    for row in rows:
        cells = cells_of(row.loop)
        bold = []
        for index, (core, verdict) in enumerate(zip(cores, row.verdicts, strict=True)):
            cells.append(f"{verdict.rate:.2f} {verdict.bound}")
            if short_of(core, row, verdict):
                bold.append(3 + index)
        table.add(cells, bold)
    return table


def product_table(cores: Sequence[Core], rows: Sequence[Row]) -> Table:
    """A large product by the fastest packed loop of each type, on cores that have several."""
    m, n, k = PRODUCT
    table = Table(
        f"{m}x{n}x{k}, packed, by the fastest loop of each type: millions of cycles, and how many "
        "times as fast as fp32",
        ("type", *(core.name for core in cores)),
    )
    dtypes = dict.fromkeys(row.loop.kernel.dtype for row in rows)
    best: dict[tuple[str, str], float] = {}
    for row in rows:
        kernel = row.loop.kernel
        if row.loop.name != "rows" or kernel.tuning:
            continue
        padded = -(-n // kernel.nr) * kernel.nr
        for core, verdict in zip(row.cores, row.verdicts, strict=True):
            cycles = m * padded * k / (verdict.rate * row.loop.macs)
            key = kernel.dtype, core.name
            best[key] = min(best.get(key, cycles), cycles)
    for dtype in dtypes:
        cells = [KINDS[dtype]]
        for core in cores:
            found, whole = best.get((dtype, core.name)), best.get(("f32", core.name))
            ratio = f" ({whole / found:.2f})" if found and whole else ""
            cells.append(f"{found / 1e6:.1f}{ratio}" if found else NONE)
        table.add(cells)
    return table


def slides_table(rows: Sequence[Row]) -> Table:
    """Tiles beside those of the slides with as many vectors of output channels."""
    table = Table(
        "FMAs for each load, beside OpenPPL's slides",
        ("type", "vectors", "slides' tile", "slides", "same tile here", "largest tile here"),
    )
    for dtype, stated in SLIDES.items():
        ours = [row.loop for row in rows if row.loop.kernel.dtype == dtype]
        ours = [loop for loop in ours if not loop.kernel.tuning]
        for (vectors, mr), ratio in stated.items():
            alike = [o for o in ours if o.kernel.vectors == vectors]
            if not alike:
                continue
            same = [o for o in alike if o.kernel.mr == mr and o.name == "k"]
            best = max((o for o in alike), key=lambda o: (o.kernel.mr, o.name == "rows"))
            table.add(
                (
                    KINDS[dtype],
                    f"{vectors}",
                    f"{mr}x{vectors * best.kernel.lanes}",
                    f"{ratio:.2f}",
                    _ratio(same[0]) if same else NONE,
                    _ratio(best),
                )
            )
    return table


def _ratio(loop: Loop) -> str:
    return f"{loop.fmas / loop.loads:.2f} ({loop.title})"


def osaca_table(
    cores: Sequence[Core], loops: Sequence[Loop], ask: Callable[[Core, Loop], osaca.Opinion]
) -> Table:
    """FMAs a cycle by OSACA, of the cores that it has."""
    known = [core for core in cores if core.osaca]
    table = Table(
        "The same by OSACA, which knows ports and dependencies, and no dispatch",
        ("tile", *(core.name for core in known)),
    )
    for loop in loops:
        cells = [f"{loop.title} ({loop.kernel.isa}, {KINDS[loop.kernel.dtype]})"]
        for core in known:
            opinion = ask(core, loop)
            rate = f"{loop.fmas / opinion.cycles:.2f} " if opinion.cycles else ""
            cells.append(rate + opinion.reason)
        table.add(cells)
    return table


def footprint_table(cores: Sequence[Core], plans: Sequence[Sequence[Footprint]]) -> Table:
    """Memory in L1 and L2 of the plans that the estimate chooses for each core, one thread."""
    head = []
    for core in cores:
        l1, l2 = core.machine.l1d_bytes >> 10, core.machine.l2_share >> 10
        head.append(f"{core.name} ({l1}, {l2})")
    table = Table(
        "Default blocks of fp32: tile, KiB in L1 and in L2 (of the KiB that a core has of each)",
        ("layer", *head),
    )
    for parts in zip(*plans, strict=True):
        cells = [f"{parts[0].layer}, {parts[0].layout}"]
        cells += [f"{p.algorithm} {p.tile}: {p.l1 / 1024:.0f}, {p.l2 / 1024:.0f}" for p in parts]
        table.add(cells)
    return table


def section(arch: str, parts: Sequence[str]) -> str:
    """Wrap the text of an architecture in the marks that it is found again by."""
    body = "\n\n".join(part.strip() for part in parts)
    return f"<!-- {arch} -->\n## {arch}\n\n{body}\n<!-- end of {arch} -->\n"


def put(page: str, arch: str, text: str) -> str:
    """Replace the section of `arch` in a page, or add it at the end."""
    marks = re.compile(rf"<!-- {arch} -->\n.*?<!-- end of {arch} -->\n", re.DOTALL)
    if marks.search(page):
        return marks.sub(lambda _: text, page)
    return f"{page.rstrip() or HEAD.rstrip()}\n\n{text}"

"""Analyse the inner loops of an architecture: ``python -m benchmarks.analysis aarch64``."""

from __future__ import annotations

import argparse
import datetime
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.analysis import footprint, limits, loops, mca, osaca, page, sparse
from benchmarks.analysis.cores import CORES, Core, cores_of
from benchmarks.analysis.page import Row
from benchmarks.tool import new_parser

PAGE = Path(__file__).resolve().parent.parent / "ANALYSIS.md"
DTYPES = {
    "aarch64": ("f32", "f64", "f16", "s8", "s8m", "s16", "bf16", "bf16m"),
    "x86_64": ("f32", "f64"),
}


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = new_parser("benchmarks.analysis", __doc__)
    made.add_argument("arch", choices=sorted({core.arch for core in CORES}))
    made.add_argument("--llvm-mca", metavar="PROGRAM", help="the newest that is found, by default")
    made.add_argument("--cores", metavar="NAMES", help="some of them, with commas in between")
    made.add_argument("--dtypes", metavar="NAMES", help="some of them, with commas in between")
    made.add_argument("--no-osaca", action="store_true", help="do not ask OSACA, if it is there")
    made.add_argument("--write", action="store_true", help=f"put the section into {PAGE.name}")
    made.add_argument(
        "--check", action="store_true", help="fail if a loop is short of what is wanted"
    )
    return made


def chosen_cores(arch: str, names: str | None) -> list[Core]:
    """Pick cores by name.

    Raises
    ------
    ValueError
        If a name is of none.
    """
    known = {core.name: core for core in cores_of(arch)}
    wanted = names.split(",") if names else list(known)
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(f"--cores must be of {', '.join(known)}, got {', '.join(unknown)}")
    return [known[name] for name in wanted]


def judged(tool: mca.Tool, cores: Sequence[Core], loop: loops.Loop) -> Row:
    """Ask llvm-mca about a loop on every core."""
    print(f"{loop.kernel.symbol} {loop.name}", file=sys.stderr)
    verdicts = [limits.judge(core, loop, mca.ask(tool, core, loop)) for core in cores]
    return Row(loop, verdicts, cores)


def introduction(options: argparse.Namespace, tool: mca.Tool, peaks: Sequence[Row]) -> list[str]:
    """Give date, tools and command, and the rates of loops without loads."""
    asked = "not asked" if options.no_osaca else osaca.version() or "not installed"
    line = shlex.join(mca.command(mca.Tool("llvm-mca", ""), cores_of(options.arch)[0]))
    own = " --no-osaca" if options.no_osaca else ""
    best = "; ".join(
        f"{row.loop.kernel.dtype} ({row.loop.kernel.isa}) "
        + ", ".join(f"{v.rate:.2f}" for v in row.verdicts)
        for row in peaks
    )
    return [
        f"{datetime.date.today().isoformat()}, llvm-mca {tool.version}, OSACA {asked}; "
        f"`python -m benchmarks.analysis {options.arch} --write{own}`, which gives each loop "
        f"on standard input to `{line}`, with each core's name.",
        f"FMAs a cycle of the register-only loop, core by core as below: {best}.",
    ]


def report(options: argparse.Namespace, tool: mca.Tool) -> tuple[str, list[str]]:
    """Make the section, and list the loops that miss the wanted rate."""
    cores = chosen_cores(options.arch, options.cores)
    peaks = [judged(tool, cores, loop) for loop in loops.peak_loops(options.arch)]
    widest = loops.tile_loops(options.arch, "f32")[-1]
    about = [mca.ask(tool, core, widest) for core in cores]
    parts = introduction(options, tool, peaks)
    parts.append(page.core_table(cores, about).markdown())
    rows: list[Row] = []
    dtypes = options.dtypes.split(",") if options.dtypes else DTYPES[options.arch]
    for dtype in dtypes:
        found = loops.tile_loops(options.arch, dtype)
        able = [core for core in cores if all(core.has(loop.kernel.isa) for loop in found)]
        own = [judged(tool, able, loop) for loop in found]
        if own:
            parts.append(page.tile_table(dtype, able, own).markdown())
        rows += own
    if options.arch == "aarch64":
        parts.append(page.product_table([core for core in cores if core.narrow], rows).markdown())
        parts.append(page.slides_table(rows).markdown())
        parts += sparse_tables(dtypes, cores, tool)
    if osaca.version() and not options.no_osaca:
        few = [
            r.loop
            for r in rows
            if (r.loop.kernel.dtype, r.loop.kernel.tuning, r.loop.name) == ("f32", "", "rows")
        ]
        parts.append(page.osaca_table(cores, few, osaca.ask).markdown())
    plans = [list(footprint.footprints(core)) for core in cores]
    parts.append(page.footprint_table(cores, plans).markdown())
    short = [
        f"{row.loop.kernel.symbol} {row.loop.name}: {verdict.rate:.2f} on {core.name}, "
        f"wanted {core.wanted:.2f} of fp32: {verdict.bound}"
        for row in rows
        for core, verdict in zip(row.cores, row.verdicts, strict=True)
        if page.short_of(core, row, verdict)
    ]
    return page.section(options.arch, parts), short


def sparse_tables(dtypes: Sequence[str], cores: Sequence[Core], tool: mca.Tool) -> list[str]:
    """Tables of products with sparse weights, of each type that has kernels for them."""
    made = []
    for dtype in dtypes:
        found = sparse.sparse_loops(dtype)
        able = [core for core in cores if all(core.has(loop.kernel.isa) for loop in found)]
        if found and able:
            rates = [sparse.load_rate(tool, core) for core in able]
            rows = [judged(tool, able, loop) for loop in found]
            made.append(sparse.table(dtype, rows, rates).markdown())
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    made = parser()
    options = made.parse_args(arguments)
    try:
        tool = mca.find(options.llvm_mca)
        text, short = report(options, tool)
    except (mca.ToolError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    if options.write:
        old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        PAGE.write_text(page.put(old, options.arch, text), encoding="utf-8")
    else:
        print(text)
    print("\n".join(short), file=sys.stderr)
    return 1 if options.check and short else 0


if __name__ == "__main__":
    sys.exit(main())

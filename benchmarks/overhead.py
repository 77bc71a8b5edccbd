"""What pplconv costs besides computing: a tiny call, the import, the wheel.

``python -m benchmarks.overhead --help``.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import options
from benchmarks.candidates import make_case, prepare_checked
from benchmarks.engines import ENGINES
from benchmarks.engines.base import Engine
from benchmarks.problems import parse
from benchmarks.runner import Progress, time_checked
from benchmarks.tables import Table
from benchmarks.tool import Run, command, new_parser

# So small that the overhead of a call dominates.
TINY = 'mb1ic8ih8oc8oh8kh3ph1n"tiny:conv*1"'

_IMPORT = (
    "import time, numpy; start = time.perf_counter(); import {module}; "
    "print(time.perf_counter() - start)"
)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.overhead", __doc__)
    options.add_engines(parser, ENGINES)
    parser.add_argument(
        "--imports", type=options.positive, default=10, metavar="N", help="fresh interpreters"
    )
    parser.add_argument(
        "--wheel", type=Path, metavar="FILE", help="default: the newest of dist/pplconv-*.whl"
    )
    options.add_timing(parser, rounds=10)
    options.add_output(parser)
    return parser


def call_times(
    engines: Sequence[Engine], chosen: argparse.Namespace, progress: Progress
) -> tuple[Table, dict[str, float], list[str]]:
    """Time a call of each engine on the tiny problem, one thread.

    Returns
    -------
    table : Table
    seconds : dict of str to float
        Best round of each engine that is right.
    notes : list of str
        Which engines are not, and why.
    """
    case = make_case(parse(TINY))
    candidates = {}
    for engine in engines:
        progress.say(f"checking {engine.name}")
        candidates[engine.name] = prepare_checked(engine, case, 1)
    table = Table(f"A call on {case.problem.sizes}, 1 thread", ["engine", "µs", "spread %"])
    seconds: dict[str, float] = {}
    notes = []
    timed = time_checked(candidates, case, options.settings_of(chosen, 1), progress)
    for name, (checked, timing) in timed.items():
        if checked.prepared is None:
            table.add([name, checked.status, ""])
            notes.append(f"{name}: {checked.status}: {checked.detail}")
            continue
        seconds[name] = timing.best
        table.add([name, f"{timing.best * 1e6:.2f}", f"{100 * timing.spread:.0f}"])
    return table, seconds, notes


def run_python(code: str) -> float:
    """Run `code` in a fresh interpreter, away from the source tree, and read what it prints."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return float(done.stdout)


def import_times(count: int, progress: Progress) -> dict[str, list[float]]:
    """Time ``import pplconv`` once NumPy is there, and an empty module for comparison (seconds).

    Each reading comes from an interpreter of its own; the two take turns.
    """
    modules = {"pplconv": "pplconv", "nothing": "sys"}
    times: dict[str, list[float]] = {label: [] for label in modules}
    for turn in range(count):
        progress.say(f"import {turn + 1}/{count}")
        for label, module in modules.items():
            times[label].append(run_python(_IMPORT.format(module=module)))
    return times


def import_table(times: dict[str, list[float]]) -> Table:
    """Make the table of the import."""
    table = Table(
        "import pplconv, after NumPy, in fresh interpreters: ms",
        ["import", "median", "best", "first"],
    )
    for label, values in times.items():
        figures = (statistics.median(values), min(values), values[0])
        table.add([label, *(f"{1e3 * value:.1f}" for value in figures)])
    return table


def find_wheel(given: Path | None, root: Path) -> Path | None:
    """Give the wheel to weigh: `given`, or the newest one below ``dist``, or None."""
    if given is not None:
        return given
    wheels = sorted((root / "dist").glob("pplconv-*.whl"), key=lambda path: path.stat().st_mtime)
    return wheels[-1] if wheels else None


def wheel_table(wheel: Path) -> Table:
    """Make the table of a wheel's size: packed, unpacked, and its largest members."""
    with zipfile.ZipFile(wheel) as archive:
        members = sorted(archive.infolist(), key=lambda member: -member.file_size)
    table = Table(f"{wheel.name}: MB", ["part", "packed", "unpacked"])
    unpacked = sum(member.file_size for member in members)
    table.add(["wheel", _mega(wheel.stat().st_size), _mega(unpacked)])
    for member in members[:3]:
        table.add([member.filename, _mega(member.compress_size), _mega(member.file_size)])
    return table


def _mega(size: int) -> str:
    return f"{size / 1e6:.2f}"


@command(_parser)
def main(run: Run) -> int:
    """Measure, and give the exit status."""
    chosen = run.chosen
    with run.refusing():
        found = options.find_engines(chosen.engines)
    if chosen.wheel is not None and not chosen.wheel.is_file():
        run.parser.error(f"--wheel: there is no file {chosen.wheel}")
    engines = [engine for engine, availability in found if availability.ok]
    made: list[Table] = []
    seconds: dict[str, float] = {}
    imports: dict[str, list[float]] = {}
    with run.steps(2) as progress:
        progress.begin("a tiny call")
        calls, seconds, notes = call_times(engines, chosen, progress)
        made.append(calls)
        run.notes += notes
        progress.begin("import")
        try:
            imports = import_times(chosen.imports, progress)
            made.append(import_table(imports))
        except RuntimeError as error:
            run.notes.append(f"pplconv cannot be imported: {error}")
    wheel = find_wheel(chosen.wheel, Path(__file__).resolve().parent.parent)
    if wheel is None:
        run.notes.append("no wheel to weigh: name one by --wheel")
    else:
        made.append(wheel_table(wheel))
    plain = {
        "call_seconds": seconds,
        "import_seconds": imports,
        "wheel_bytes": wheel.stat().st_size if wheel else None,
    }
    return run.publish(run.head(engines=found), made, plain)


if __name__ == "__main__":
    sys.exit(main())

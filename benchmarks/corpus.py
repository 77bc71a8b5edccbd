"""Measured candidates, a file a machine: how the files of ``measured/`` are written and read.

A file holds the properties of the machine that plans depend on, the runs that measured, and
*cases*. A case is a problem, a layout and a team, with every candidate that was timed: its blocks,
the model's estimate on that day, and its time. So a changed model can be judged for a machine that
is not there: ``python -m benchmarks.judge_model``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from asm.registry import kernels
from benchmarks.files import read_whole, write_whole
from pplconv.algorithms import Candidate
from pplconv.architecture import canonical
from pplconv.config import TEAM_START_US, Settings
from pplconv.machine import Machine
from pplconv.machine.x86_identity import fma_per_cycle
from pplconv.planner import Request, Target
from pplconv.problem import ConvProblem

MEASURED = Path(__file__).resolve().parent / "measured"

# A recording is half a megabyte to two of text, which compresses to a twelfth.
SUFFIX = ".json.xz"
FORMAT = 1
# Columns of a candidate's line.
COLUMNS = ("algorithm", "numerics", "bits", "blocks", "cost", "us")
VENDORS = {"AuthenticAMD": "amd", "GenuineIntel": "intel", "HygonGenuine": "hygon"}
# Digits that times and estimates are written with: a thousandth is less than any clock here tells.
DIGITS = 4

Blocks = Mapping[str, int | str]
Key = tuple[str, str, str, frozenset[tuple[str, int | str]]]


class CorpusError(ValueError):
    """A file that holds no measured candidates, or those of something else; the text says why."""


@dataclass(frozen=True)
class Measured:
    """A candidate and its time.

    Attributes
    ----------
    algorithm, numerics, bits : str
        The algorithm, the types that it computes with, and method and order of its sums.
    blocks : mapping of str to int or str
        Its blocks and choices: they tell it from other candidates of its algorithm.
    cost : mapping of str to float
        The estimate of the version that measured it, in cycles by term; terms of 0 left out.
    us : float
        Its time in microseconds.
    """

    algorithm: str
    numerics: str
    bits: str
    blocks: Blocks
    cost: Mapping[str, float]
    us: float

    @property
    def key(self) -> Key:
        """What identifies it among the candidates of its problem."""
        return self.algorithm, self.numerics, self.bits, frozenset(self.blocks.items())

    def __str__(self) -> str:
        """Name it in one line."""
        return said(self.algorithm, self.blocks)


@dataclass(frozen=True)
class Case:
    """A problem in one layout, computed by one team, with its measured candidates.

    Attributes
    ----------
    problem : str
        As oneDNN's benchdnn writes it.
    layout, dtype : str
    threads : int
        The team that was asked for.
    run : int
        Index of the run that measured it.
    visits : int
        How often each candidate had its turn; slow ones may have had only one.
    peak : float or None
        GFLOP/s of the FMA loop meanwhile, of the whole team.
    candidates : sequence of Measured
        Fastest first.
    """

    problem: str
    layout: str
    threads: int
    candidates: Sequence[Measured]
    dtype: str = "f32"
    run: int = 0
    visits: int = 0
    peak: float | None = None

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What identifies it in its file."""
        return self.problem, self.layout, self.dtype, self.threads

    @property
    def parsed(self) -> ConvProblem:
        """The problem."""
        return ConvProblem.parse(self.problem, self.dtype, self.layout)


@dataclass
class Recording:
    """Measurements of one machine, up to one instruction set.

    Attributes
    ----------
    machine : Machine
    isa : str
        The instruction set that candidates ran on, which a cap may have lowered.
    tolerance : float
        Error that candidates were allowed.
    runs : list of mapping
        Of each: date, command, versions, how it was measured.
    cases : list of Case
    team_start : int or None
        Microseconds that starting a team costs there; None if no team was measured.
    """

    machine: Machine
    isa: str
    tolerance: float
    runs: list[Mapping[str, Any]] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    team_start: int | None = None

    @property
    def name(self) -> str:
        """Name of its file without the suffix: vendor, family, model, instruction set."""
        m = self.machine
        vendor = VENDORS.get(m.vendor, m.vendor.lower().replace(" ", ""))
        return f"{vendor}-{m.family}-{m.model}-{self.isa}"

    def target(self) -> Target:
        """Give the machine as a target of plans, which any other machine can make."""
        start = self.team_start or TEAM_START_US
        settings = Settings(max_isa=self.isa, team_start_us=start)
        return Target.of(self.machine, kernel_rows(self.machine.arch), settings)

    def request(self, case: Case, target: Target) -> Request:
        """Ask for a plan of `case`; `target` is this recording's, made once for all cases."""
        return Request(case.parsed, tolerance=self.tolerance, threads=case.threads, target=target)

    def whose(self) -> tuple[Any, ...]:
        """Properties that all runs of a file share.

        Of the instruction sets, the one in the name alone: the machine may have gained some of
        narrower numbers since, which pplconv did not know then, or which another host hides.
        """
        m = self.machine
        caches = m.l1d_bytes, m.l2_bytes, m.l3_bytes
        return self.name, m.arch, *caches, self.tolerance


def kernel_rows(arch: str) -> Iterator[dict[str, Any]]:
    """Rows of the kernel table of any architecture, without addresses."""
    names = ("symbol", "op", "dtype", "isa", "tuning", "mr", "nr", "kr", "lanes")
    for kernel in kernels(canonical(arch)):
        yield {name: getattr(kernel, name) for name in names}


def said(algorithm: str, blocks: Blocks) -> str:
    """Name a candidate in one line."""
    rest = dict(blocks)
    tile = f" {rest.pop('mr')}x{rest.pop('nr')}" if {"mr", "nr"} <= rest.keys() else ""
    words = [f"{value}" if isinstance(value, str) else f"{name} {value}"
             for name, value in rest.items()]  # fmt: skip
    return f"{algorithm}{tile}, {', '.join(words)}"


def rounded(value: float) -> float:
    """Keep the significant digits; an integer if they make one."""
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() else short


def measured(candidate: Candidate, cost: Mapping[str, float], seconds: float) -> Measured:
    """Put down a candidate, its estimate and its time."""
    terms = {name: rounded(cycles) for name, cycles in cost.items() if round(cycles)}
    return Measured(
        candidate.algorithm, candidate.numerics.name, candidate.bits, candidate.blocks, terms,
        rounded(1e6 * seconds),
    )  # fmt: skip


def save(recording: Recording, path: Path) -> None:
    """Write a recording, all of it or, if interrupted, nothing."""
    write_whole(path, text_of(recording))


def text_of(recording: Recording) -> str:
    """Lay a recording out: a line a candidate, so that a change shows where it is."""
    head = {
        "format": FORMAT,
        "cpu": "{vendor} family {family} model {model}".format(**recording.machine.as_dict()),
        "machine": recording.machine.as_dict(),
        "isa": recording.isa,
        "tolerance": recording.tolerance,
        "team_start": recording.team_start,
        "runs": recording.runs,
        "columns": COLUMNS,
    }
    lines = [f"{json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    cases = ",\n".join(_case_text(case) for case in recording.cases)
    return "{\n" + "\n".join(lines) + f'\n"cases": [\n{cases}\n]\n}}\n'


def _case_text(case: Case) -> str:
    names = ("problem", "layout", "dtype", "threads", "run", "visits", "peak")
    head = json.dumps({name: getattr(case, name) for name in names})[:-1]
    rows = (
        json.dumps([_plain(getattr(one, name)) for name in COLUMNS], separators=(",", ":"))
        for one in case.candidates
    )
    return head + ', "candidates": [\n' + ",\n".join(rows) + "]}"


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def load(path: Path) -> Recording:
    """Read a file.

    Raises
    ------
    CorpusError
        If it cannot be read, or is something else.
    """
    return read_whole(path, _recording, CorpusError, "holds no measured candidates")


def load_all(paths: Sequence[Path] = ()) -> dict[str, Recording]:
    """Read some files, or all of ``measured/``, by their names without the suffix."""
    return {name_of(path): load(path) for path in paths or recorded()}


def recorded() -> list[Path]:
    """List the files of ``measured/``."""
    return sorted(MEASURED.glob(f"*{SUFFIX}"))


def name_of(path: Path) -> str:
    """Name a file without its suffix."""
    return path.name.removesuffix(".xz").removesuffix(".json")


def _recording(plain: Mapping[str, Any]) -> Recording:
    if plain["format"] != FORMAT or tuple(plain["columns"]) != COLUMNS:
        raise ValueError(f"format {plain['format']}, {FORMAT} is known")
    return Recording(
        machine_of(plain["machine"]), plain["isa"], plain["tolerance"], list(plain["runs"]),
        [_case(one) for one in plain["cases"]], plain["team_start"],
    )  # fmt: skip


def _case(plain: Mapping[str, Any]) -> Case:
    rest = dict(plain)
    rows = rest.pop("candidates")
    found = [Measured(**dict(zip(COLUMNS, row, strict=True))) for row in rows]
    if not found or not all(one.us > 0 for one in found):
        raise ValueError(f"{plain['problem']} has no times")
    return Case(**rest, candidates=found)


def machine_of(plain: Mapping[str, Any]) -> Machine:
    """Rebuild a machine from the plain values of its file.

    FMA rates of x86 cores are looked up anew: no machine reports them, so they are part of the
    model that is judged.
    """
    found = Machine(**{name: _frozen(value) for name, value in plain.items()})
    if canonical(found.arch) != "x86_64":
        return found
    return replace(found, fma_per_cycle=fma_per_cycle(found))


def _frozen(value: Any) -> Any:
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value

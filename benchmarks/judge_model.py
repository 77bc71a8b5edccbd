"""Asks the present model what it would choose on recorded machines: run with ``--help``.

For each case of ``measured/*.json.xz`` the planner estimates as if it were on that machine. Its
choice is looked up among the candidates measured there, so nothing is timed. A figure is the time
of the best candidate as a part of the chosen one's: 1 is a perfect choice, 0.8 one that takes 25 %
too long.

The nearest measured candidate of the same method and tile, with other blocks, stands for a choice
that was not measured. If there is none, the case is left out. Both are counted. Figures say nothing
of candidates that no run has timed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.corpus import Blocks, Case, Measured, Recording, load_all, said
from benchmarks.files import write_whole
from benchmarks.options import positive
from benchmarks.runner import Progress
from benchmarks.tables import NONE, Table
from benchmarks.tool import Run, command, new_parser
from pplconv.algorithms import Candidate
from pplconv.planner.estimating import estimate_plan
from pplconv.problem import ConvProblem

CLASSES = ("1x1", "3x3", "5x5 and larger", "1xN, Nx1", "depthwise", "strided", "other")
EXACT, NEAR, LEFT_OUT = "measured", "nearest", "left out"
WORST = 10
# Blocks that make the method and the tile: candidates that differ in them are not near.
TILE = ("orientation", "n", "mr", "nr")


def class_of(problem: ConvProblem) -> str:
    """Class of a layer; depthwise ones and then strided ones are not told apart any further."""
    p = problem
    if p.groups > 1 and p.groups == p.ic:
        return "depthwise"
    if max(p.stride) > 1:
        return "strided"
    if p.kh == p.kw:
        return {1: "1x1", 2: "other", 3: "3x3"}.get(p.kh, "5x5 and larger")
    return "1xN, Nx1" if 1 in (p.kh, p.kw) else "other"


def short(problem: ConvProblem) -> str:
    """Write a problem without what its other sizes imply; `ConvProblem.parse` still reads it."""
    p = problem
    (top, _), (left, _) = p.padding
    pairs = (
        ("ih", p.ih, "iw", p.iw), ("oc", p.oc, "", p.oc), ("kh", p.kh, "kw", p.kw),
        ("sh", p.stride[0], "sw", p.stride[1]), ("ph", top, "pw", left),
        ("dh", p.dilation[0] - 1, "dw", p.dilation[1] - 1),
    )  # fmt: skip
    implied = {"sh": 1, "ph": 0, "dh": 0}
    text = f"mb{p.batch}" + (f"g{p.groups}" if p.groups > 1 else "") + f"ic{p.ic}"
    for name, size, other, size_across in pairs:
        text += f"{name}{size}" if size != implied.get(name) or size != size_across else ""
        text += f"{other}{size_across}" if size != size_across else ""
    same = ConvProblem.parse(text, p.dtype, p.layout, p.block) == p
    return text if same else str(p)


@dataclass(frozen=True)
class Verdict:
    """The model's choice in one case, and its measured worth.

    Attributes
    ----------
    case : Case
    algorithm : str
    blocks : mapping of str to int or str
        The choice.
    found : str
        ``"measured"``, ``"nearest"`` (another of its tile stands for it) or ``"left out"``.
    taken : Measured or None
        The measured candidate that was found; None if the case was left out.
    """

    case: Case
    algorithm: str
    blocks: Blocks
    found: str
    taken: Measured | None

    @property
    def best(self) -> Measured:
        """The fastest candidate."""
        return min(self.case.candidates, key=lambda one: one.us)

    @property
    def ratio(self) -> float | None:
        """Time of the best as a part of the choice's."""
        return self.best.us / self.taken.us if self.taken is not None else None

    @property
    def kind(self) -> str:
        """Class of the layer."""
        return class_of(self.case.parsed)

    @property
    def where(self) -> str:
        """Layout and team."""
        return f"{self.case.layout}, {self.case.threads}"

    def plain(self) -> dict[str, Any]:
        """Give everything as plain values."""
        return {
            "problem": self.case.problem, "layout": self.case.layout, "threads": self.case.threads,
            "class": self.kind, "chosen": {"algorithm": self.algorithm, **self.blocks},
            "found": self.found, "ratio": self.ratio,
            "us": self.taken.us if self.taken else None,
            "best": {"algorithm": self.best.algorithm, **self.best.blocks}, "best_us": self.best.us,
        }  # fmt: skip


def choices(recording: Recording) -> Iterable[tuple[Case, Candidate]]:
    """The choices of the present model in each case of a recording."""
    target = recording.target()
    for case in recording.cases:
        _, teamed = estimate_plan(recording.request(case, target))
        yield case, teamed[0].candidate


def judge(recording: Recording) -> list[Verdict]:
    """Look the choices of the present model up."""
    verdicts = []
    for case, candidate in choices(recording):
        taken, found = look_up(case, candidate)
        verdicts.append(Verdict(case, candidate.algorithm, candidate.blocks, found, taken))
    return verdicts


def look_up(case: Case, candidate: Candidate) -> tuple[Measured | None, str]:
    """Find a candidate among the measured ones, or the nearest one of its tile."""
    wanted = Measured(
        candidate.algorithm, candidate.numerics.name, candidate.bits, candidate.blocks, {}, 0.0
    )
    for one in case.candidates:
        if one.key == wanted.key:
            return one, EXACT
    near = [one for one in case.candidates if _tile(one) == _tile(wanted)]
    if not near:
        return None, LEFT_OUT
    return min(near, key=lambda one: distance(one.blocks, wanted.blocks)), NEAR


def _tile(one: Measured) -> tuple[object, ...]:
    return one.key[:3], one.blocks.keys(), [one.blocks.get(name) for name in TILE]


def distance(a: Blocks, b: Blocks) -> float:
    """Distance of the blocks of two candidates of one tile: logarithms of factors, 1 a word."""
    total = 0.0
    for name, value in a.items():
        other = b[name]
        if isinstance(value, str) or isinstance(other, str):
            total += value != other
        else:
            total += abs(math.log(max(value, 1) / max(other, 1)))
    return total


def mean(verdicts: Iterable[Verdict]) -> float | None:
    """Geometric mean of the ratios; None if there are none."""
    logs = [math.log(v.ratio) for v in verdicts if v.ratio is not None]
    return math.exp(sum(logs) / len(logs)) if logs else None


def worst(verdicts: Iterable[Verdict], count: int = WORST) -> list[Verdict]:
    """The choices that lose most."""
    known = [v for v in verdicts if v.ratio is not None]
    return sorted(known, key=lambda v: v.ratio or 0.0)[:count]


def class_table(name: str, verdicts: Sequence[Verdict]) -> Table:
    """Make the table of one machine: a row a class, a column a layout and team."""
    places = list(dict.fromkeys(v.where for v in verdicts))
    columns = {place: [place] for place in places} | {"all": places}
    table = Table(
        f"{name}: best time / time of the choice, geometric means by layout and team",
        ["class", "cases", *columns, "worst"],
    )
    for kind in (*CLASSES, "all"):
        some = [v for v in verdicts if kind in (v.kind, "all") and v.ratio is not None]
        if not some:
            continue
        if kind == "all":
            table.rule()
        cells = [_figure(mean(v for v in some if v.where in own)) for own in columns.values()]
        table.add([kind, str(len(some)), *cells, _figure(worst(some, 1)[0].ratio)])
    return table


def worst_table(name: str, verdicts: Sequence[Verdict], count: int) -> Table:
    """Make the table of the choices that lose most."""
    table = Table(
        f"{name}: the worst {count}; ~ stands for a choice that was not measured",
        ["problem", "layout, team", "ratio", "us", "choice", "best us", "best"],
    )
    for v in worst(verdicts, count):
        assert v.taken is not None
        mark = "~ " if v.found == NEAR else ""
        table.add(
            [
                short(v.case.parsed), v.where, _figure(v.ratio), f"{v.taken.us:g}",
                mark + said(v.algorithm, v.blocks), f"{v.best.us:g}", str(v.best),
            ]
        )  # fmt: skip
    return table


def _figure(ratio: float | None) -> str:
    return NONE if ratio is None else f"{ratio:.3f}"


def counted(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Count the choices that were measured, replaced by their nearest, or left out."""
    return {found: sum(v.found == found for v in verdicts) for found in (EXACT, NEAR, LEFT_OUT)}


def heading(name: str, recording: Recording, verdicts: Sequence[Verdict]) -> str:
    """Say whose figures follow, and of how many choices they are."""
    dates = ", ".join(dict.fromkeys(
        f"{run['date']} by {run['versions'].get('pplconv', '?')}" for run in recording.runs
    ))  # fmt: skip
    counts = counted(verdicts)
    exact = mean(v for v in verdicts if v.found == EXACT)
    return (
        f"{name}: {recording.machine.cpu_name or recording.machine.vendor}, {recording.isa}, "
        f"measured {dates}\n{len(verdicts)} choices: {counts[EXACT]} were measured "
        f"(geometric mean {_figure(exact)}), {counts[NEAR]} count as the nearest of their tile, "
        f"{counts[LEFT_OUT]} are left out"
    )


def record(judged: Mapping[str, Sequence[Verdict]]) -> dict[str, Any]:
    """Give everything as plain values."""
    return {
        name: {
            "mean": mean(verdicts), "counts": counted(verdicts),
            "cases": [v.plain() for v in verdicts],
        }
        for name, verdicts in judged.items()
    }  # fmt: skip


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.judge_model", __doc__)
    parser.add_argument("files", nargs="*", type=Path, help="default: all of benchmarks/measured")
    parser.add_argument("--worst", type=positive, default=WORST, help=f"default {WORST}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there")
    return parser


@command(_parser)
def main(run: Run) -> int:
    """Judge, and give the exit status."""
    chosen = run.chosen
    with run.refusing():
        recordings = load_all(chosen.files)
    judged: dict[str, list[Verdict]] = {}
    progress = Progress(len(recordings))
    for name, recording in recordings.items():
        progress.begin(name)
        progress.say(f"{len(recording.cases)} plans")
        verdicts = judged[name] = judge(recording)
        progress.end()
        tables = [class_table(name, verdicts), worst_table(name, verdicts, chosen.worst)]
        parts = [heading(name, recording, verdicts), *(table.text() for table in tables)]
        print("\n\n".join(parts), end="\n\n", flush=True)
    if chosen.json is not None:
        write_whole(chosen.json, json.dumps(record(judged), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

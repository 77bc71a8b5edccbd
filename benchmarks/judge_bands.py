"""Asks the present model of bands what it would choose on recorded machines: run with ``--help``.

For each chain of ``measured/bands/*.json`` the network is compiled as if it were on that machine,
and is not run. The group that is chosen is looked up among the measured heights, the nearest of as
many operators standing for one that was not measured. A figure is the time of the best side, layer
by layer among them, as a part of the chosen one's: 1 is a perfect choice.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pplconv
from benchmarks.chains import INPUT, model_of
from benchmarks.corpus import CorpusError, name_of
from benchmarks.recorded_bands import Chain, Chains, Height, load, recorded
from benchmarks.tables import NONE, Table
from benchmarks.tool import Run, command, new_parser
from pplconv.planner.target import elsewhere, here

Groups = Sequence[tuple[int, int, int]]


@dataclass(frozen=True)
class Verdict:
    """The model's choice for one chain, and its measured worth.

    Attributes
    ----------
    case : Chain
    groups : sequence of (int, int, int)
        The choice, as of `Height`.
    us : float or None
        Time of the choice; None if nothing measured stands for it.
    """

    case: Chain
    groups: Groups
    us: float | None

    @property
    def best(self) -> Height:
        """The fastest side."""
        sides = [Height([], self.case.us), *self.case.heights]
        return min(sides, key=lambda one: one.us)

    @property
    def ratio(self) -> float | None:
        """Time of the best as a part of the choice's."""
        return None if self.us is None else self.best.us / self.us

    @property
    def gain(self) -> float | None:
        """Time layer by layer, as a multiple of the choice's."""
        return None if self.us is None else self.case.us / self.us


def choice(chains: Chains, name: str) -> Groups:
    """Give the groups that the present model chooses on a recorded machine."""
    model, x = model_of(name)
    with elsewhere(chains.of.target()):
        plan = pplconv.InferenceSession(model, threads=1).plan_for({INPUT: x.shape})
    return [(len(g.shapes), g.bands, g.rows) for g in plan.groups]


def judge(chains: Chains) -> list[Verdict]:
    """Look the choices of the present model up.

    Raises
    ------
    CorpusError
        If this CPU lacks the instruction set: a network that is compiled packs its weights.
    """
    if chains.of.isa not in here().machine.usable_isas():
        raise CorpusError(f"weights are packed by kernels of {chains.of.isa}, which this CPU lacks")
    found = []
    for case in chains.cases:
        groups = choice(chains, case.name)
        found.append(Verdict(case, groups, look_up(case, groups)))
    return found


def look_up(case: Chain, groups: Groups) -> float | None:
    """Find the time of a choice: that of the nearest rows in groups of as many operators."""
    if not groups:
        return case.us
    alike = [one for one in case.heights if [g[0] for g in one.groups] == [g[0] for g in groups]]
    if not alike:
        return None
    return min(alike, key=lambda one: _distance(one.groups, groups)).us


def _distance(some: Groups, others: Groups) -> float:
    return sum(abs(math.log(a[2] / b[2])) for a, b in zip(some, others, strict=True))


def mean(ratios: Iterable[float | None]) -> float | None:
    """Geometric mean of those that are known; None if none is."""
    logs = [math.log(ratio) for ratio in ratios if ratio is not None]
    return math.exp(sum(logs) / len(logs)) if logs else None


def table_of(name: str, verdicts: Sequence[Verdict]) -> Table:
    """Make the table of one machine."""
    table = Table(
        f"{name}: best time / time of the choice, and what the choice gains",
        ["chain", "layers us", "equal sides", "choice", "gain", "best", "gain", "ratio"],
    )
    for v in verdicts:
        table.add([
            v.case.name, f"{v.case.us:g}", f"{100 * v.case.apart:.1f} %", _said(v.groups),
            _figure(v.gain), _said(v.best.groups), _figure(v.case.us / v.best.us),
            _figure(v.ratio),
        ])  # fmt: skip
    table.rule()
    gains = mean(v.gain for v in verdicts), mean(v.case.us / v.best.us for v in verdicts)
    table.add([
        "geometric mean", "", "", "", _figure(gains[0]), "", _figure(gains[1]),
        _figure(mean(v.ratio for v in verdicts)),
    ])  # fmt: skip
    return table


def _said(groups: Groups) -> str:
    words = [f"{count} steps in {bands} of {rows} rows" for count, bands, rows in groups]
    return ", ".join(words) or "layers"


def _figure(ratio: float | None) -> str:
    return NONE if ratio is None else f"{ratio:.3f}"


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.judge_bands", __doc__)
    parser.add_argument("files", nargs="*", type=Path, help="default: all of measured/bands")
    return parser


@command(_parser)
def main(run: Run) -> int:
    """Judge, and give the exit status."""
    for path in run.chosen.files or recorded():
        with run.refusing():
            chains = load(path)
            verdicts = judge(chains)
        for about in chains.runs:
            print(f"{about['date']}: {about['method']}. {about['remark']}".rstrip())
        print(table_of(name_of(path), verdicts).text(), end="\n\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The figures that sparse weights are built to reach, and the verdict of a run on each.

Each is about every layer of 64 channels or more: the one that is worst decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.problems import Problem
from benchmarks.sparse.gains import break_evens, gain, lead, mean
from benchmarks.sparse.measured import Measured, Roles, group
from benchmarks.tables import NONE, Table

# Layers with fewer channels hardly fill their panels, so nothing is promised for them.
_CHANNELS = 64
_BLOCKS = (4, 8, 16)


@dataclass(frozen=True)
class Figure:
    """One figure to reach.

    Attributes
    ----------
    precision, kind : str
        Which layers it is about; any kind if it is empty.
    what : str
        In words.
    blocks : tuple of int
        A row for each.
    needed : float
    density : float
        At which it is asked for; 0: at none.
    """

    precision: str
    kind: str
    what: str
    blocks: tuple[int, ...]
    needed: float
    density: float = 0.0

    def concerns(self, one: Measured) -> bool:
        """Whether the figure is about a layer."""
        return self.kind in ("", one.problem.kind) and _wide(one.problem)


_GAIN, _START, _PEERS = "/ own dense", "break-even density", "/ best peer"
FIGURES = (
    Figure("fp32", "1x1", _GAIN, _BLOCKS, 3.0, 0.25),
    Figure("fp32", "1x1", _GAIN, _BLOCKS, 5.5, 0.1),
    Figure("fp32", "3x3", _GAIN, _BLOCKS, 1.2, 0.25),
    Figure("fp32", "3x3", _GAIN, _BLOCKS, 2.2, 0.1),
    Figure("fp32", "1x1", _GAIN, (1,), 2.2, 0.25),
    Figure("fp32", "1x1", _START, _BLOCKS, 0.75),
    Figure("fp32", "", _PEERS, (1, *_BLOCKS), 1.0),
    Figure("int8", "", _GAIN, _BLOCKS, 2.2, 0.25),
    Figure("int8", "", _PEERS, (1, *_BLOCKS), 1.0),
)


def _wide(problem: Problem) -> bool:
    return min(problem.ic, problem.oc) >= _CHANNELS and problem.groups == 1


def _values(
    figure: Figure, block: int, measured: Sequence[Measured], roles: Roles
) -> Mapping[str, float]:
    """The figure of each layer, by name; of peers, at each density."""
    mine = [one for one in measured if figure.concerns(one)]
    if figure.what == _START:
        found = break_evens(mine, block, roles)
        return {name: density for name, (density, _) in found.items() if not math.isnan(density)}
    values: Callable[[Measured], float | None]
    if figure.what == _PEERS:
        values = lambda one: lead(one, block, roles)[1]  # noqa: E731
    else:
        mine = [one for one in mine if one.density == figure.density]
        values = lambda one: gain(one, block, roles)  # noqa: E731
    known = {f"{one.problem.name} at {one.density:g}": values(one) for one in mine}
    return {name: value for name, value in known.items() if value is not None}


def figures_table(measured: Sequence[Measured], roles: Mapping[str, Roles]) -> Table:
    """Hold a run against all of them.

    Parameters
    ----------
    measured : sequence of Measured
    roles : mapping of str to Roles
        By precision.
    """
    table = Table(
        "Figures to reach, layers of 64 channels or more",
        ["layers", "figure", "block", "threads", "needed", "worst", "reached", "by how many",
         "mean", "worst layer"],
    )  # fmt: skip
    groups = group(measured)
    for figure in FIGURES:
        for (precision, threads), some in groups.items():
            if precision != figure.precision:
                continue
            for block in figure.blocks:
                _row(table, figure, block, threads, _values(figure, block, some, roles[precision]))
    return table


def _row(
    table: Table, figure: Figure, block: int, threads: int, values: Mapping[str, float]
) -> None:
    worst = min(values, key=lambda name: values[name], default="")
    reached = sum(value >= figure.needed for value in values.values())
    verdict = "not measured" if not values else "yes" if reached == len(values) else "no"
    at = f" at {figure.density:g}" if figure.density else ""
    average = mean(values.values())
    table.add(
        [
            f"{figure.precision} {figure.kind or 'all'}",
            figure.what + at,
            str(block),
            str(threads),
            f"{figure.needed:.2f}",
            f"{values[worst]:.2f}" if worst else NONE,
            verdict,
            f"{reached} of {len(values)}",
            NONE if average is None else f"{average:.2f}",
            worst or NONE,
        ],
        [6] if verdict == "no" else [],
    )

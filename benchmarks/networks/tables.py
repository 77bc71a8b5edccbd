"""Tables of a run over whole networks: times, ratios, sessions, memory."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.networks.cases import Case
from benchmarks.report import conditions
from benchmarks.tables import NONE, Table

# Titles, attributes of `Entry`, and units.
_GRIDS = (
    ("Networks, {}: best round, ms", "best", 1e3),
    ("First session, imports included, {}: s", "first_seconds", 1.0),
    ("First session and first answer, {}: s", "answer_seconds", 1.0),
    ("Second session, {}: s", "second_seconds", 1.0),
    ("Most memory until the first answer, {}: MiB", "peak_bytes", 2**-20),
)


def tables(cases: Sequence[Case], engines: Sequence[str], ours: Sequence[str]) -> list[Table]:
    """Make the tables of a run.

    Parameters
    ----------
    cases : sequence of Case
    engines : sequence of str
        Names of those that were measured, in the order of the columns.
    ours : sequence of str
        Those among them that are pplconv.

    Returns
    -------
    list of Table
        For each batch size and team: medians and the ratio to the best peer, best rounds, costs
        of a session.
    """
    made = []
    for batch, threads in dict.fromkeys((case.batch, case.threads) for case in cases):
        some = [case for case in cases if (case.batch, case.threads) == (batch, threads)]
        where = conditions(batch, threads)
        made += [
            _medians(f"Networks, {where}: median of the rounds, ms", some, engines, ours),
            *(
                _grid(title.format(where), some, engines, value, unit)
                for title, value, unit in _GRIDS
            ),
        ]
    return made


def remarks(cases: Sequence[Case]) -> list[str]:
    """Say why figures are missing."""
    found = []
    for case in cases:
        where = f"{case.name}, {conditions(case.batch, case.threads)}"
        if case.detail:
            found.append(f"{where}: {case.detail}")
        for name, entry in case.entries.items():
            if entry.detail:
                found.append(f"{where}: {name} {entry.status}: {entry.detail}")
    return found


def _label(case: Case) -> str:
    return case.name if case.network.tuned else f"{case.name} (not tuned on)"


def _number(value: float) -> str:
    """Write three digits, as many of them behind the point as that takes."""
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def _cell(case: Case, name: str, value: str, unit: float) -> str:
    entry = case.entries.get(name)
    if entry is None:
        return NONE
    found = getattr(entry, value)
    if found is not None:
        return _number(unit * found)
    return NONE if entry.status in ("", "ok") else entry.status


def _grid(
    title: str, cases: Sequence[Case], engines: Sequence[str], value: str, unit: float
) -> Table:
    table = Table(title, ["network", *engines])
    for case in cases:
        table.add([_label(case), *(_cell(case, name, value, unit) for name in engines)])
    return table


def _medians(
    title: str, cases: Sequence[Case], engines: Sequence[str], ours: Sequence[str]
) -> Table:
    peers = [name for name in engines if name not in ours]
    header = ["network", *engines, "best peer"]
    for name in ours:
        header += [f"{name} / best peer", "of the rounds"]
    table = Table(title, header)
    for case in cases:
        timed = {
            name: median
            for name in engines
            if name in case.entries and (median := case.entries[name].median) is not None
        }
        fastest = min(timed, key=timed.__getitem__, default=None)
        cells = [_label(case), *(_cell(case, name, "median", 1e3) for name in engines)]
        cells.append(case.best_peer(peers) or NONE)
        for name in ours:
            ratios = case.ratios(name, peers)
            if ratios:
                cells.append(f"{statistics.median(ratios):.2f}")
                cells.append(f"{min(ratios):.2f} to {max(ratios):.2f}")
            else:
                cells += [NONE, NONE]
        table.add(cells, [1 + list(engines).index(fastest)] if fastest else [])
    return table

"""Tables of a run over whole networks: times, ratios, sessions, memory."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from benchmarks.networks.cases import Case, Entry
from benchmarks.report import conditions
from benchmarks.tables import NONE, Table

Value = Callable[[Entry], float | None]


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
        For each batch size and team: medians and the ratio to the best peer, best rounds, what a
        session costs.
    """
    made = []
    for batch, threads in dict.fromkeys((case.batch, case.threads) for case in cases):
        some = [case for case in cases if (case.batch, case.threads) == (batch, threads)]
        where = conditions(batch, threads)
        made += [
            _medians(f"Networks, {where}: median of the rounds, ms", some, engines, ours),
            _grid(f"Networks, {where}: best round, ms", some, engines, lambda e: e.best, 1e3),
            _grid(
                f"First session, imports included, {where}: s",
                some,
                engines,
                lambda e: e.first_seconds,
            ),
            _grid(
                f"First session and first answer, {where}: s",
                some,
                engines,
                lambda e: e.answer_seconds,
            ),
            _grid(f"Second session, {where}: s", some, engines, lambda e: e.second_seconds),
            _grid(
                f"Most memory until the first answer, {where}: MiB",
                some,
                engines,
                lambda e: e.peak_bytes,
                2**-20,
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


def _cell(case: Case, name: str, value: Value, unit: float) -> str:
    entry = case.entries.get(name)
    if entry is None:
        return NONE
    found = value(entry)
    if found is not None:
        return _number(unit * found)
    return NONE if entry.status in ("", "ok") else entry.status


def _grid(
    title: str, cases: Sequence[Case], engines: Sequence[str], value: Value, unit: float = 1.0
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
        cells = [_label(case), *(_cell(case, name, lambda e: e.median, 1e3) for name in engines)]
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

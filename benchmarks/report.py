"""The report of a run: its head, the tables of each network, and where pplconv stands.

A network's first table has a row a layer: GFLOP/s of every engine, and for pplconv the part of the
peak and the ratio to the best peer. The second table has the weighted sums in milliseconds.
`standings` compares the best layout with the best peer, layer by layer, by class and by network,
and holds the run against the figures to reach.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engines.base import Availability, Engine, Identity
from benchmarks.figures import figures_table, outcomes
from benchmarks.files import write_whole
from benchmarks.hot_and_cold import cold_sums, has_cold, side_by_side
from benchmarks.problems import Problem
from benchmarks.results import LayerResult, Sum, sums
from benchmarks.standing import (
    class_table,
    layer_table,
    main_setting,
    networks_table,
    ours_of,
    peers_of,
    settings_of,
    stand,
)
from benchmarks.tables import NONE, Table, giga, milli, percent, ratio

# The figure of weights packed at each call is also read against that of weights packed once.
_PREPARED, _FUNCTION = "pplconv", "pplconv_conv2d"
# With more of our engines in one table, columns of their parts of peak and peer drown the rates.
_DETAILED = 4
# A reason that more layers than this have in common is given once.
_LISTED = 3

# Layers of a run by network, batch size and team.
Groups = Mapping[tuple[str, int, int], Sequence[LayerResult]]


@dataclass(frozen=True)
class Head:
    """The head of a report, above its tables."""

    date: str
    command: str
    machine: Mapping[str, str]
    engines: Sequence[tuple[Engine, Availability]]
    method: str
    notes: Sequence[str] = ()

    def lines(self) -> list[tuple[str, str]]:
        """Label and text of each line."""
        rows = [("date", self.date), ("command", self.command), *self.machine.items()]
        for engine, found in self.engines:
            if found.ok:
                note = f" ({engine.note})" if engine.note else ""
                rows.append((engine.name, f"{found.version}{note}"))
            else:
                rows.append((engine.name, f"absent: {found.reason}"))
        rows.append(("method", self.method))
        return rows

    def plain(self) -> dict[str, object]:
        """Give the values that records keep of it."""
        return {
            "date": self.date,
            "command": self.command,
            "head": [list(line) for line in self.lines()],
            "notes": list(self.notes),
        }

    def text(self) -> str:
        """Give the head for a terminal."""
        width = max(len(label) for label, _ in self.lines())
        lines = [f"{label:<{width}}  {text}" for label, text in self.lines()]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def markdown(self) -> str:
        """Give the head in Markdown."""
        lines = []
        for label, text in self.lines():
            lines.append(f"- {label}: `{text}`" if label == "command" else f"- {label}: {text}")
        return "\n".join([*lines, *(f"- note: {note}" for note in self.notes)])


def publish(
    head: Head,
    made: Sequence[Table],
    plain: Mapping[str, object],
    markdown: Path | None,
    json_file: Path | None,
) -> None:
    """Print a report, and write it to the files that were asked for."""
    print("\n\n".join([head.text(), *(table.text() for table in made)]))
    if markdown is not None:
        parts = [head.markdown(), *(table.markdown() for table in made)]
        write_whole(markdown, "\n\n".join(parts) + "\n")
    if json_file is not None:
        write_whole(json_file, json.dumps(dict(plain), indent=1) + "\n")


def group(layers: Sequence[LayerResult]) -> dict[tuple[str, int, int], list[LayerResult]]:
    """Sort the layers of a run by network, batch size and team, in the order of the run."""
    found: dict[tuple[str, int, int], list[LayerResult]] = {}
    for layer in layers:
        key = (layer.problem.net, layer.problem.mb, layer.threads)
        found.setdefault(key, []).append(layer)
    return found


def conditions(batch: int, threads: int) -> str:
    """Write batch size and team for a title; a batch of 1 goes without saying."""
    team = f"{threads} thread" + ("s" if threads > 1 else "")
    return team if batch == 1 else f"batch {batch}, {team}"


def tables(
    net: str,
    layers: Sequence[LayerResult],
    engines: Sequence[Engine | Identity],
    unit: str = "FLOP",
) -> list[Table]:
    """Make the tables of a network; `layers` have one batch size and number of threads.

    Rates, in billions of `unit` a second, and sums of times. If cold calls were timed, two more
    tables: hot and cold calls side by side, and sums of the cold ones.
    """
    peers = [engine.name for engine in engines if not engine.ours]
    totals = sums(layers, peers)
    where = f"{net}, {conditions(layers[0].problem.mb, layers[0].threads)}"
    made = [
        _rates(f"{where}: G{unit}/s", layers, totals, engines, unit),
        _times(f"{where}: sums over the network, ms", totals, engines),
    ]
    if has_cold(layers):
        names = [engine.name for engine in engines]
        made += [
            side_by_side(f"{where}: hot and cold, ms", layers, names, peers),
            _times(f"{where}: sums over the network, cold, ms", cold_sums(layers, peers), engines),
        ]
    return made


def standings(
    layers: Sequence[LayerResult],
    identities: Sequence[Identity],
    expected: Mapping[str, Sequence[Problem]] | None = None,
) -> list[Table]:
    """Make the tables that say where pplconv stands among its peers, in the whole run.

    Parameters
    ----------
    layers : sequence of LayerResult
        All of the run.
    identities : sequence of Identity
        Its engines.
    expected : mapping of str to sequence of Problem, optional
        The shipped networks, for the figures to reach; no such table if not given.

    Returns
    -------
    list of Table
        The figures; a network's layers; the classes, for each setting of pplconv; the summary.
        Nothing where the run has no prepared pplconv.
    """
    main = main_setting(identities) or next(iter(settings_of(identities)), None)
    if main is None or not layers:
        return []
    peers = peers_of(identities)
    made = []
    if expected is not None:
        made.append(figures_table(outcomes(layers, identities, expected)))
    if peers:
        ours = ours_of(identities, main)
        networks = {}
        for (net, batch, threads), some in group(layers).items():
            where = f"{net}, {conditions(batch, threads)}"
            networks[where] = [stand(one, ours, peers) for one in some]
            title = f"{where}: best layout, best peer ({main.title})"
            made.append(layer_table(title, networks[where]))
        for batch, threads in dict.fromkeys((one.problem.mb, one.threads) for one in layers):
            some = [one for one in layers if (one.problem.mb, one.threads) == (batch, threads)]
            for setting in settings_of(identities):
                ours = ours_of(identities, setting)
                title = f"Classes of layers, {conditions(batch, threads)} ({setting.title})"
                made.append(class_table(title, [stand(one, ours, peers) for one in some]))
        made.append(networks_table(networks))
    return made


def _rates(
    title: str,
    layers: Sequence[LayerResult],
    totals: Sequence[Sum],
    engines: Sequence[Engine | Identity],
    unit: str,
) -> Table:
    names = [engine.name for engine in engines]
    ours = [engine.name for engine in engines if engine.ours]
    detailed = ours if len(ours) <= _DETAILED else []
    header = ["layer", "count", f"M{unit}", "peak"]
    for name in names:
        header.append(name)
        if name in detailed:
            header += ["% peak", "/ peer"]
            if name == _FUNCTION and _PREPARED in names:
                header.append("% prepared")
    table = Table(title, [*header, "best peer"])
    rows = [_Row.of_layer(layer) for layer in layers]
    for index, row in enumerate([*rows, *(_Row.of_sum(total) for total in totals)]):
        if index == len(rows):
            table.rule()
        cells = [row.label, row.count, f"{row.flops / 1e6:.1f}", giga(row.peak)]
        fastest = max(row.rates, key=lambda name: row.rates[name], default=None)
        peer = max((n for n in row.rates if n not in ours), key=row.rates.__getitem__, default=None)
        bold = []
        for name in names:
            rate = row.rates.get(name)
            if name == fastest:
                bold.append(len(cells))
            cells.append(row.marks.get(name) or giga(rate))
            if name in detailed:
                cells.append(percent(rate, row.peak))
                cells.append(ratio(rate, row.rates.get(peer) if peer else None))
                if name == _FUNCTION and _PREPARED in names:
                    cells.append(percent(rate, row.rates.get(_PREPARED)))
        table.add([*cells, peer or NONE], bold)
    return table


@dataclass(frozen=True)
class _Row:
    """A row of rates: a layer or a sum."""

    label: str
    count: str
    flops: int
    peak: float | None
    rates: dict[str, float]
    marks: dict[str, str]

    @classmethod
    def of_layer(cls, layer: LayerResult) -> _Row:
        problem = layer.problem
        rates: dict[str, float] = {}
        marks: dict[str, str] = {}
        for name, entry in layer.entries.items():
            if entry.seconds is None:
                marks[name] = entry.status
            else:
                rates[name] = problem.flops / entry.seconds
        label = problem.layer or problem.sizes
        return cls(label, str(problem.count), problem.flops, layer.peak, rates, marks)

    @classmethod
    def of_sum(cls, total: Sum) -> _Row:
        rates = {name: total.flops / seconds for name, seconds in total.seconds.items()}
        return cls(total.label, "", total.flops, total.peak, rates, {})


def _times(title: str, totals: Sequence[Sum], engines: Sequence[Engine | Identity]) -> Table:
    names = [engine.name for engine in engines]
    ours = [engine.name for engine in engines if engine.ours]
    header = ["layers", "at peak", *names, "best peer of each layer"]
    table = Table(title, header)
    for total in totals:
        fastest = min(total.seconds, key=total.seconds.__getitem__, default=None)
        at_peak = total.flops / total.peak if total.peak else None
        cells = [total.label, milli(at_peak), *(milli(total.seconds.get(n)) for n in names)]
        bold = [2 + names.index(fastest)] if fastest else []
        table.add([*cells, milli(total.floor)], bold)
    if totals and ours:
        table.rule()
        for name in ours:
            _compare(table, totals[-1], name, names)
    return table


def _compare(table: Table, total: Sum, subject: str, names: Sequence[str]) -> None:
    """Add a row: how many times as fast as each other engine `subject` is, over all layers."""
    own = total.seconds.get(subject)
    at_peak = total.flops / total.peak if total.peak else None
    cells = [f"{subject} against", ratio(at_peak, own)]
    cells += [ratio(total.seconds.get(name), own) for name in names]
    table.add([*cells, ratio(total.floor, own)])


def remarks(
    layers: Sequence[LayerResult],
    peak: tuple[str, str] = ("FMA peak", "GFLOP/s"),
    apart: Collection[str] = (),
) -> list[str]:
    """List what a reader must know beside the figures: wrong engines, errors, drift.

    Parameters
    ----------
    layers : sequence of LayerResult
    peak : tuple of str
        Name and unit of the ceiling that was read between the rounds.
    apart : collection of str
        Engines whose errors are not fractions of the largest output; another table has them.
    """
    reasons: dict[tuple[str, str], list[str]] = {}
    worst: dict[str, float] = {}
    for layer in layers:
        for name, entry in layer.entries.items():
            if entry.status != "ok":
                batch = f", batch {layer.problem.mb}" if layer.problem.mb > 1 else ""
                where = f"{layer.problem.name}{batch}, {layer.threads} thread(s)"
                reasons.setdefault((name, f"{entry.status}: {entry.detail}"), []).append(where)
            elif entry.error != float("inf") and name not in apart:
                worst[name] = max(worst.get(name, 0.0), entry.error)
    found = []
    for (name, reason), places in reasons.items():
        if len(places) > _LISTED:
            found.append(f"{name} on {len(places)} layers, such as {places[0]}: {reason}")
        else:
            found += [f"{name} on {place}: {reason}" for place in places]
    if worst:
        listed = ", ".join(f"{name} {error:.1e}" for name, error in worst.items())
        found.append(f"largest error, as a fraction of the largest output: {listed}")
    for threads in sorted({layer.threads for layer in layers}):
        peaks = [one.peak for one in layers if one.threads == threads and one.peak is not None]
        if peaks:
            found.append(
                f"{peak[0]} of {threads} thread(s), layer by layer: "
                f"{min(peaks) / 1e9:.1f} to {max(peaks) / 1e9:.1f} {peak[1]}"
            )
    return found

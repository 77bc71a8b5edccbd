"""The results of a run: one entry an engine and layer, and the sums over a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.candidates import OK
from benchmarks.problems import Problem, parse

# Order of the subtotals.
KINDS = ("stem", "1x1", "3x3", "other", "depthwise")


@dataclass(frozen=True)
class Entry:
    """One engine on one layer.

    Attributes
    ----------
    status, detail : str
        As in `benchmarks.candidates.Candidate`.
    error : float
        Largest error, as a fraction of the largest output.
    rounds : tuple of float
        Median time of a call in each visit (seconds); empty unless it was timed.
    cold : tuple of float
        The same of calls that find nothing in the caches; empty where none were timed.
    isa : str
        Instruction set that its plan named, if any.
    """

    status: str
    detail: str = ""
    error: float = float("inf")
    rounds: tuple[float, ...] = ()
    cold: tuple[float, ...] = ()
    isa: str = ""

    @property
    def seconds(self) -> float | None:
        """Time of a call in the best visit (seconds), None if it was not timed."""
        return min(self.rounds) if self.status == OK and self.rounds else None

    @property
    def cold_seconds(self) -> float | None:
        """The same of a cold call."""
        return min(self.cold) if self.status == OK and self.cold else None


@dataclass(frozen=True)
class LayerResult:
    """One layer with a number of threads: the peak of those moments, and all engines.

    Attributes
    ----------
    peak : float or None
        FMA peak of the team (flop/s), best reading between the rounds of this layer.
    """

    problem: Problem
    threads: int
    peak: float | None
    entries: dict[str, Entry] = field(default_factory=dict)

    def fastest(self, names: Iterable[str]) -> tuple[str, float | None]:
        """Name the fastest of some engines, with its time (seconds); none: "" and None."""
        timed = {
            name: seconds
            for name in names
            if name in self.entries and (seconds := self.entries[name].seconds) is not None
        }
        best = min(timed, key=timed.__getitem__, default="")
        return best, timed.get(best)


@dataclass(frozen=True)
class Sum:
    """Several layers of a network together, each counted as often as it occurs.

    Attributes
    ----------
    label : str
    flops : int
    peak : float or None
        The rate that runs every layer at its own peak (flop/s).
    seconds : dict of str to float
        Time of each engine that ran all of the layers.
    floor : float or None
        Time with the best peer of each layer (seconds).
    """

    label: str
    flops: int
    peak: float | None
    seconds: dict[str, float]
    floor: float | None


def add_up(label: str, layers: Sequence[LayerResult], peers: Iterable[str]) -> Sum:
    """Add up `layers`, each times its count.

    An engine that lacks one of the layers has no sum: it could not be compared with the others.
    """
    flops = sum(layer.problem.flops * layer.problem.count for layer in layers)
    engines = [name for name in layers[0].entries if all(name in one.entries for one in layers)]
    times = {
        name: _total(layers, [layer.entries[name].seconds for layer in layers]) for name in engines
    }
    seconds = {name: time for name, time in times.items() if time is not None}
    floor = _total(layers, [layer.fastest(peers)[1] for layer in layers])
    at_peak = 0.0
    for layer in layers:
        if layer.peak is None:
            at_peak = 0.0
            break
        at_peak += layer.problem.flops * layer.problem.count / layer.peak
    return Sum(label, flops, flops / at_peak if at_peak else None, seconds, floor)


def _total(layers: Sequence[LayerResult], times: Iterable[float | None]) -> float | None:
    """Add up times of layers with their counts; None if one is missing."""
    known = [time for time in times if time is not None]
    if len(known) < len(layers):
        return None
    return sum(time * layer.problem.count for time, layer in zip(known, layers, strict=True))


def sums(layers: Sequence[LayerResult], peers: Iterable[str]) -> list[Sum]:
    """Add up a network: every class, the dense classes together, and all of it."""
    peers = list(peers)
    found = []
    kinds = [kind for kind in KINDS if any(one.problem.kind == kind for one in layers)]
    if len(kinds) > 1:
        for kind in kinds:
            found.append(add_up(kind, [one for one in layers if one.problem.kind == kind], peers))
    dense = [one for one in layers if one.problem.kind != "depthwise"]
    if 0 < len(dense) < len(layers):
        found.append(add_up("all but depthwise", dense, peers))
    found.append(add_up("all", layers, peers))
    return found


def to_json(layer: LayerResult) -> dict[str, Any]:
    """Give a layer as plain values: seconds, flop, flop/s, error as a fraction."""
    problem = layer.problem
    return {
        "net": problem.net,
        "layer": problem.layer,
        "kind": problem.kind,
        "count": problem.count,
        "batch": problem.mb,
        "problem": problem.sizes,
        "flops": problem.flops,
        "threads": layer.threads,
        "peak": layer.peak,
        "engines": {
            name: {
                "status": entry.status,
                "detail": entry.detail,
                "error": entry.error if entry.error != float("inf") else None,
                "seconds": entry.seconds,
                "rounds": list(entry.rounds),
                **_cold_json(entry),
                **({"isa": entry.isa} if entry.isa else {}),
            }
            for name, entry in layer.entries.items()
        },
    }


def _cold_json(entry: Entry) -> dict[str, Any]:
    if not entry.cold:
        return {}
    return {"cold_seconds": entry.cold_seconds, "cold_rounds": list(entry.cold)}


def from_json(plain: Mapping[str, Any]) -> LayerResult:
    """Read back what `to_json` wrote.

    Raises
    ------
    KeyError, TypeError, ValueError
        If it is something else.
    """
    name = f'n"{plain["net"]}:{plain["layer"]}*{plain["count"]}"' if plain["layer"] else ""
    entries = {}
    for engine, one in plain["engines"].items():
        error = float("inf") if one["error"] is None else float(one["error"])
        rounds = tuple(float(time) for time in one["rounds"])
        # Records of runs without cold calls have none, and those of peers no instruction set.
        cold = tuple(float(time) for time in one.get("cold_rounds", ()))
        status, detail, isa = (str(one.get(key, "")) for key in ("status", "detail", "isa"))
        entries[engine] = Entry(status, detail, error, rounds, cold, isa)
    peak = None if plain["peak"] is None else float(plain["peak"])
    return LayerResult(parse(plain["problem"] + name), int(plain["threads"]), peak, entries)

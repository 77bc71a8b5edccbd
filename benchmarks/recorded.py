"""The record of a run: written as JSON, and read back for tables and charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.engines.base import Availability, Engine, Identity
from benchmarks.files import read_whole
from benchmarks.report import Head
from benchmarks.results import LayerResult, from_json, to_json


class RecordError(ValueError):
    """A file that is no record of a run; the text says why."""


@dataclass(frozen=True)
class Run:
    """A run as it was recorded.

    Attributes
    ----------
    head : sequence of (str, str)
        Date, command, machine, engines and method: label and text.
    notes : sequence of str
    identities : sequence of Identity
        The engines that were there, in the order of the tables.
    ceilings : mapping of int to mapping of str to float
        By size of team: rate of a copy in each level of memory (bytes a second).
    layers : sequence of LayerResult
    """

    head: Sequence[tuple[str, str]]
    notes: Sequence[str]
    identities: Sequence[Identity]
    ceilings: Mapping[int, Mapping[str, float]]
    layers: Sequence[LayerResult]


def record(
    head: Head,
    layers: Sequence[LayerResult],
    ceilings: Mapping[int, Mapping[str, float]],
    engines: Sequence[tuple[Engine, Availability]] | None = None,
) -> dict[str, object]:
    """Give a run as plain values, for `publish` to write.

    Parameters
    ----------
    head : Head
    layers : sequence of LayerResult
    ceilings : mapping of int to mapping of str to float
        As `benchmarks.ceilings.measure` gives it, by size of team.
    engines : sequence of (Engine, Availability), optional
        Engines of the layers' entries; by default those of the head.
    """
    return {
        **head.plain(),
        "engines": {
            engine.name: {
                **asdict(engine.identity),
                "installed": found.ok,
                "version": found.version,
                "reason": found.reason,
            }
            for engine, found in (head.engines if engines is None else engines)
        },
        "ceilings": {str(threads): dict(rates) for threads, rates in ceilings.items()},
        "layers": [to_json(layer) for layer in layers],
    }


def load(path: Path) -> Run:
    """Read the record that a tool wrote by ``--json``.

    Raises
    ------
    RecordError
        If the file cannot be read, or is something else.
    """
    return read_whole(path, _run, RecordError, "is no record of a run")


def _run(plain: Mapping[str, Any]) -> Run:
    fields = Identity.__dataclass_fields__
    identities = [
        Identity(**{name: value for name, value in one.items() if name in fields})
        for one in plain["engines"].values()
        if one["installed"]
    ]
    return Run(
        [(str(label), str(text)) for label, text in plain["head"]],
        [str(note) for note in plain["notes"]],
        identities,
        {int(threads): dict(rates) for threads, rates in plain["ceilings"].items()},
        [from_json(layer) for layer in plain["layers"]],
    )

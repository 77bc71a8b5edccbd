"""Measured chains of layers, a file a machine: how the files of ``measured/bands/`` are written.

A case is a chain of `benchmarks.chains`, with its time layer by layer and in bands of several
heights. So a changed model of bands can be judged for a machine that is not there: ``python -m
benchmarks.judge_bands``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.corpus import MEASURED, CorpusError, Recording, machine_of
from benchmarks.files import read_whole, write_whole

MEASURED_BANDS = MEASURED / "bands"
FORMAT = 1


@dataclass(frozen=True)
class Height:
    """Bands of one height, and their time.

    Attributes
    ----------
    groups : sequence of (int, int, int)
        Of each group: its operators, its bands, the rows of a band.
    us : float
        CPU time of the whole chain in microseconds.
    estimated_us : float or None
        Gain that the model of that day expected, at a nominal clock; None of forced bands.
    """

    groups: Sequence[tuple[int, int, int]]
    us: float
    estimated_us: float | None = None


@dataclass(frozen=True)
class Chain:
    """A chain, and its measured heights.

    Attributes
    ----------
    name : str
        Of `benchmarks.chains.CHAINS`.
    threads, run, visits : int
        The team, the index of the run that measured it, how often each side had its turn.
    us : float
        CPU time layer by layer, in microseconds.
    apart : float
        By which part two programs layer by layer, which are the same, differed.
    heights : sequence of Height
        What the model of that day chose, if that was bands, and forced ones.
    """

    name: str
    threads: int
    run: int
    visits: int
    us: float
    apart: float
    heights: Sequence[Height]


@dataclass
class Chains:
    """Measurements of one machine; `of` is the machine, as candidates are recorded for it."""

    of: Recording
    runs: list[Mapping[str, Any]] = field(default_factory=list)
    cases: list[Chain] = field(default_factory=list)


def save(chains: Chains, path: Path) -> None:
    """Write a recording, a line a chain."""
    machine = chains.of.machine.as_dict()
    head = {
        "format": FORMAT,
        "cpu": "{vendor} family {family} model {model}".format(**machine),
        "machine": machine,
        "isa": chains.of.isa,
        "tolerance": chains.of.tolerance,
        "runs": chains.runs,
    }
    lines = [f"{json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    cases = ",\n".join(json.dumps(asdict(case)) for case in chains.cases)
    write_whole(path, "{\n" + "\n".join(lines) + f'\n"cases": [\n{cases}\n]\n}}\n')


def load(path: Path) -> Chains:
    """Read a file.

    Raises
    ------
    CorpusError
        If it cannot be read, or is something else.
    """
    return read_whole(path, _chains, CorpusError, "holds no measured chains")


def recorded() -> list[Path]:
    """List the files of ``measured/bands/``."""
    return sorted(MEASURED_BANDS.glob("*.json"))


def _chains(plain: Mapping[str, Any]) -> Chains:
    if plain["format"] != FORMAT:
        raise ValueError(f"format {plain['format']}, {FORMAT} is known")
    of = Recording(machine_of(plain["machine"]), plain["isa"], plain["tolerance"])
    cases = [
        Chain(**{**case, "heights": [_height(height) for height in case["heights"]]})
        for case in plain["cases"]
    ]  # fmt: skip
    return Chains(of, list(plain["runs"]), cases)


def _height(plain: Mapping[str, Any]) -> Height:
    groups = [(int(a), int(b), int(c)) for a, b, c in plain["groups"]]
    return Height(groups, plain["us"], plain["estimated_us"])

"""The measurements of a layer at one density: its times, and the number of weights left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.engines.base import Identity
from benchmarks.engines.sparse.base import block_in
from benchmarks.engines.sparse.pplconv import DENSE, DIRECT
from benchmarks.problems import Problem
from benchmarks.results import LayerResult, from_json, to_json


@dataclass(frozen=True)
class Measured:
    """One layer at one density and with one size of team.

    Attributes
    ----------
    precision : str
        ``"fp32"`` or ``"int8"``.
    density : float
        Part of the weights that was to stay.
    layer : LayerResult
        All engines; its rates are those of the dense layer's operations.
    kept : mapping of int to int
        Weights that are not zero, by size of block.
    readings : mapping of str to float
        Loops in registers beside it, by level of the ladder (operations a second of the team).
    """

    precision: str
    density: float
    layer: LayerResult
    kept: Mapping[int, int] = field(default_factory=dict)
    readings: Mapping[str, float] = field(default_factory=dict)

    @property
    def problem(self) -> Problem:
        """The layer's sizes."""
        return self.layer.problem

    def useful(self, block: int) -> float:
        """Operations on weights that are not zero: 2 a product, as a dense layer's are counted."""
        weights = self.problem.oc * self.problem.reduction
        return self.problem.flops * self.kept.get(block, 0) / weights

    def ceiling(self, name: str) -> tuple[str, float | None]:
        """Level that an engine's plan names, with its loop's rate; else the fastest level."""
        isa = self.layer.entries[name].isa if name in self.layer.entries else ""
        if isa not in self.readings:
            isa = max(self.readings, key=lambda level: self.readings[level], default="")
        return isa, self.readings.get(isa, self.layer.peak)

    def fastest(self, names: Iterable[str]) -> tuple[str, float | None]:
        """Name the fastest of some engines, as its layer does."""
        return self.layer.fastest(names)


@dataclass(frozen=True)
class Roles:
    """Which engines of a run are compared with which.

    Attributes
    ----------
    sparse : mapping of int to tuple of str
        Ours with sparse weights, by size of block.
    dense, direct : tuple of str
        Ours with the same weights as dense ones, by the best algorithm, and without Winograd.
    peers : mapping of int to tuple of str
        By size of block; 0: those that take any weights.
    """

    sparse: Mapping[int, tuple[str, ...]]
    dense: tuple[str, ...]
    direct: tuple[str, ...]
    peers: Mapping[int, tuple[str, ...]]

    @classmethod
    def of(cls, engines: Iterable[Identity]) -> Roles:
        """Sort the engines of a run by their names."""
        sparse: dict[int, tuple[str, ...]] = {}
        peers: dict[int, tuple[str, ...]] = {}
        plain: dict[str, tuple[str, ...]] = {DENSE: (), DIRECT: ()}
        for one in engines:
            block = block_in(one.name)
            kind = one.name.partition("@")[0].rpartition("_")[2]
            if not one.ours:
                peers[block] = (*peers.get(block, ()), one.name)
            elif block:
                sparse[block] = (*sparse.get(block, ()), one.name)
            elif kind in plain:
                plain[kind] += (one.name,)
        return cls(sparse, plain[DENSE], plain[DIRECT], peers)

    def peers_of(self, block: int) -> tuple[str, ...]:
        """Peers that run weights of such blocks: those for them, and those that take any."""
        return (*self.peers.get(block, ()), *self.peers.get(0, ()))


def group(measured: Sequence[Measured]) -> dict[tuple[str, int], list[Measured]]:
    """Sort by precision and size of team, in the order of the run."""
    found: dict[tuple[str, int], list[Measured]] = {}
    for one in measured:
        found.setdefault((one.precision, one.layer.threads), []).append(one)
    return found


def as_plain(one: Measured) -> dict[str, Any]:
    """Give it as plain values."""
    return {
        "precision": one.precision,
        "density": one.density,
        "kept": {str(block): count for block, count in one.kept.items()},
        "readings": dict(one.readings),
        **to_json(one.layer),
    }


def from_plain(plain: Mapping[str, Any]) -> Measured:
    """Read back what `as_plain` gave.

    Raises
    ------
    KeyError, TypeError, ValueError
        If it is something else.
    """
    kept = {int(block): int(count) for block, count in plain["kept"].items()}
    readings = {str(isa): float(rate) for isa, rate in plain["readings"].items()}
    precision, density = str(plain["precision"]), float(plain["density"])
    return Measured(precision, density, from_json(plain), kept, readings)

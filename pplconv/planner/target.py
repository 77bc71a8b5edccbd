"""The target of plans: a machine, and the kernels that are built for it.

It is nearly always the machine of this process. Plans can also be made for another machine from its
description, as plans name kernels, and only running them needs addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from functools import lru_cache
from typing import Any

from .. import _kernels
from .._lazy import lazy
from .._records import record
from ..algorithms import KernelKey, SparseTiles
from ..config import Settings
from ..machine import Machine, moves_beside_fmas
from ..machine import current as current_machine

Tiles = dict[int, int]

_NO_SETTINGS = Settings()


@record(frozen=True, eq=False)  # compared by identity, as comparing machines is slow
class Target:
    """A machine that is not this one, and its kernels.

    Parameters
    ----------
    machine : Machine
        Caches, cores, rates.
    gemm : tuple of (str, str, int, int, int, int)
        Type, instruction set, KR, NR, largest MR and lanes of a vector, of the GEMM kernels.
    settings : Settings
        Settings of its environment, among them the cost of starting a team.
    sparse : tuple of (str, str, str, int, int, int, int)
        Operation, type, instruction set, KR, lanes, channels of a panel and pixels of a tile, of
        the kernels for sparse weights.
    symbols : mapping of (str, str, str, int, int, int) to str
        Symbol of each kernel, by operation, type, instruction set, MR, NR and KR. If there are
        variants, it is the variant for the machine's kind of cores, which replaces the general
        kernel.
    """

    machine: Machine
    gemm: tuple[tuple[str, str, int, int, int, int], ...]
    settings: Settings = _NO_SETTINGS
    symbols: Mapping[tuple[str, str, str, int, int, int], str] = field(default_factory=dict)
    sparse: tuple[tuple[str, str, str, int, int, int, int], ...] = ()

    @classmethod
    def of(
        cls,
        machine: Machine,
        rows: Iterable[Mapping[str, Any]],
        settings: Settings = _NO_SETTINGS,
    ) -> Target:
        """Describe a target by rows of a kernel table, as ``_kernels.rows()`` gives them.

        Parameters
        ----------
        machine : Machine
            Caches, cores, rates.
        rows : iterable of mapping
            For each kernel ``symbol``, ``op``, ``dtype``, ``isa``, ``tuning``, ``mr``, ``nr``,
            ``kr`` and ``lanes``.
        settings : Settings, optional
            Those of an empty environment by default.

        Returns
        -------
        Target
        """
        found: dict[tuple[str, str, int, int], tuple[int, int]] = {}
        symbols: dict[tuple[str, str, str, int, int, int], str] = {}
        sparse = []
        # Variants follow the kernels that they replace.
        for row in sorted(rows, key=lambda row: str(row["tuning"])):
            op, dtype, isa = row["op"], row["dtype"], row["isa"]
            if op.startswith("depthwise_bytes"):
                dtype += "d"  # a kind of product without GEMM
                found[dtype, isa, 1, 0] = 0, row["lanes"]
            if row["tuning"] in ("", machine.tuning):
                symbols[op, dtype, isa, row["mr"], row["nr"], row["kr"]] = row["symbol"]
            if op in ("sparse_pixels", "sparse_channels"):
                tile = row["mr"], row["nr"]
                panel, pixels = tile if op == "sparse_pixels" else tile[::-1]
                sparse.append((op, dtype, isa, row["kr"], row["lanes"], panel, pixels))
            if op == "gemm":
                key = dtype, isa, row["kr"], row["nr"]
                largest = max(row["mr"], found.get(key, (0, 0))[0])
                found[key] = largest, row["lanes"]
        gemm = tuple((*key, *value) for key, value in found.items())
        return cls(machine, gemm, settings, symbols, tuple(sparse))

    def isas(self, dtype: str, cap: str | None = None, kr: int = 1) -> tuple[str, ...]:
        """Instruction sets that CPU, system, build and `cap` allow for a type, lowest first."""
        levels = self.machine.usable_isas(cap)
        return tuple(isa for isa in levels if (dtype, isa, kr) in self._built)

    @lazy
    def _built(self) -> frozenset[tuple[str, str, int]]:
        """Type, instruction set and KR of all GEMM kernels."""
        return frozenset(row[:3] for row in self.gemm)

    def converting_isa(self, isa: str, cap: str | None = None) -> str:
        """Give the level whose kernels convert arrays, for a plan whose products run on `isa`.

        Levels with products of bfloat16 may round by an instruction.
        """
        levels = self.isas("bf16", cap)
        return levels[-1] if levels and levels[-1] != "portable" else isa

    def brain_isa(self, cap: str | None = None) -> str:
        """Give the level whose kernels load and store bfloat16 in steps of float32."""
        levels = self.machine.usable_isas(cap)
        return [isa for isa in levels if ("elementwise", "f32", isa, 0, 0, 0) in self.symbols][-1]

    def tiles(self, dtype: str, isa: str, kr: int = 1) -> tuple[int, Tiles]:
        """Lanes of a vector, and NR to the largest MR, of the GEMM kernels that are there."""
        rows = [row for row in self.gemm if row[:3] == (dtype, isa, kr)]
        return rows[0][5] if rows else 0, {nr: mr for *_, nr, mr, _ in rows}

    def sparse_tiles(self, op: str, dtype: str, isa: str) -> SparseTiles:
        """Kernels for sparse weights: of `isa`, or of the next lower level that has any."""
        levels = self.machine.isas[: self.machine.isas.index(isa) + 1]
        for level in reversed(levels):
            rows = [row for row in self.sparse if row[:3] == (op, dtype, level)]
            if rows:
                widths: dict[int, tuple[int, ...]] = {}
                for *_, panel, pixels in sorted(rows):
                    widths[panel] = (*widths.get(panel, ()), pixels)
                *_, kr, lanes, _, _ = rows[0]
                return SparseTiles(lanes, kr, widths)
        return SparseTiles()

    def symbol(self, kernel: KernelKey, dtype: str, isa: str) -> str:
        """Symbol of the kernel that runs on `isa`; it may belong to a level below `isa`.

        Raises
        ------
        LookupError
            If the machine has none.
        """
        tile = kernel.mr, kernel.nr, kernel.kr
        levels = self.machine.isas[: self.machine.isas.index(isa) + 1]
        for level in reversed(levels):
            found = self.symbols.get((kernel.op, dtype, level, *tile))
            if found is not None:
                return found
        depth = f" of kr {kernel.kr}" if kernel.kr > 1 else ""
        raise LookupError(f"no kernel for {kernel.op} {kernel.tile}{depth} in {dtype} on {isa}")


_elsewhere: ContextVar[Target | None] = ContextVar("elsewhere", default=None)


def here() -> Target:
    """The machine of this process. Callers read its settings from the environment each time."""
    return _elsewhere.get() or _own()


@contextmanager
def elsewhere(target: Target) -> Iterator[None]:
    """Plan for another machine meanwhile, in this thread. What is planned so must not run."""
    token = _elsewhere.set(target)
    try:
        yield
    finally:
        _elsewhere.reset(token)


def moves_lanes() -> bool:
    """Whether this machine moves lanes of 512-bit vectors by a port that no FMA needs."""
    return moves_beside_fmas(current_machine())


@lru_cache(maxsize=1)
def _own() -> Target:
    machine = current_machine()
    _kernels.tune(machine.tuning)  # same tiles and bits, so plans do not depend on it
    return Target.of(machine, _kernels.rows())

"""Inputs of candidates besides the problem: machine, kernels, types, team."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field

from .._records import record
from ..machine import Machine
from ..numerics import Numerics


@record(frozen=True)
class SparseTiles:
    """Kernels for sparse weights of one orientation.

    Parameters
    ----------
    lanes : int
        Elements of a vector.
    kr : int
        Terms that are multiplied together.
    widths : mapping of int to tuple of int
        Pixels of the tiles, ascending, for each number of channels of a panel.
    """

    lanes: int = 0
    kr: int = 1
    widths: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


NO_TILES = SparseTiles()


@record(frozen=True)
class PlanContext:
    """Inputs of candidates besides the problem: machine, kernels, types, team.

    Parameters
    ----------
    machine : Machine
        Cache sizes.
    numerics : Numerics
        The types that candidates compute with.
    isa : str
        Instruction set of the kernels.
    tiles : mapping of int to int
        The largest MR for each NR, of the kernels for these types and ISA.
    lanes : int
        Elements of a vector.
    threads : int
        Size of the team; decides segments only.
    tolerance : float
        Error that may be spent; candidates that need more are left out.
    team_start : int
        Microseconds that starting a team costs; it matters only in estimates for a team.
    by_pixels, by_channels : SparseTiles
        Kernels for sparse weights whose vectors run over pixels, and over channels.
    """

    machine: Machine
    numerics: Numerics
    isa: str
    tiles: Mapping[int, int]
    lanes: int
    threads: int
    tolerance: float = math.inf
    team_start: int = 1
    by_pixels: SparseTiles = NO_TILES
    by_channels: SparseTiles = NO_TILES

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..api.conv import Conv2d
from ..schedules.work import Work

SUMS: dict[str, int]
READ: dict[np.dtype[Any], frozenset[np.dtype[Any]]]

class Rounding(NamedTuple):
    limits: NDArray[Any]
    taps: NDArray[np.float64]
    again: NDArray[np.float64] | None
    separable: bool
    near: float = 0.0

class RowSums(NamedTuple):
    weights: NDArray[Any]
    passes: int
    running: bool = False
    near: float = 0.0
    digits: NDArray[np.int16] | None = None
    pairs: NDArray[np.int64] | None = None
    factors: NDArray[np.int64] | None = None

class Short(NamedTuple):
    passes: tuple[bool, ...]
    weights: NDArray[np.uint16]
    mode: int
    add: int
    factor: int
    shift: int
    low: int
    high: int
    squares: bool = ...

class Means(NamedTuple):
    factor: NDArray[np.float32]

def has_rows(array: NDArray[Any]) -> bool: ...
def paired_isa() -> str | None: ...
def is_open(rounding: Rounding | Short | Means | None) -> bool: ...

class Banded:
    def __init__(
        self,
        image: NDArray[Any],
        sums: RowSums | tuple[Conv2d, ...],
        rows: NDArray[np.int64],
        runs: NDArray[np.int64],
        value: NDArray[Any],
        results: NDArray[Any],
        rounding: Rounding | Short | Means | None,
        extent: tuple[int, int],
        band: int,
        threads: int,
        share: int,
        origin: int = 0,
    ) -> None: ...
    def step(self) -> tuple[Work, list[NDArray[Any] | None]]: ...
    def __call__(self, image: NDArray[Any], results: NDArray[Any]) -> None: ...

"""Types of the kernel table."""

from collections.abc import Sequence
from typing import TypedDict

class _Row(TypedDict):
    symbol: str
    op: str
    dtype: str
    isa: str
    tuning: str
    mr: int
    nr: int
    kr: int
    vector_bytes: int
    lanes: int
    address: int

HALF_CHAIN: int
INSTRUCTIONS: dict[str, int]
CURVES: frozenset[str]
OF_INTEGERS: frozenset[str]
MOST_REGISTERS: int
SUMS: dict[str, int]
PIXELS: dict[str, int]
STORED: dict[str, int]
POOLINGS: dict[str, int]
REDUCTIONS: dict[str, int]

def rows() -> list[_Row]: ...
def ladder(isa: str) -> list[str]: ...
def serving(op: str, dtype: str, isa: str, mr: int = 0, nr: int = 0, kr: int = 0) -> str: ...
def tune(tuning: str) -> None: ...
def pixel_runs(
    geometry: Sequence[int],
    first: int,
    pixels: int,
    lanes: int,
    width: int,
    panel_elements: int,
    room: int,
) -> bytearray: ...
def fma_peak(isa: str, dtype: str, iterations: int) -> int: ...
def cpuid(leaf: int, subleaf: int = 0) -> tuple[int, int, int, int] | None: ...
def xgetbv(index: int = 0) -> int | None: ...
def permit_tiles() -> bool: ...
def auxval(kind: int) -> int: ...
def midr() -> int: ...

"""Types of the base of all loops; everything else is for C callers."""

from collections.abc import Sequence
from typing import Any

class Work:
    arguments: tuple[Any, ...]
    named: dict[str, Any]

def extent_of(
    last: int,
    counts: Sequence[int],
    strides: Sequence[int],
    element: int,
    written: bool = False,
) -> int: ...
def first_of(counts: Sequence[int], strides: Sequence[int]) -> int: ...
def check_each(name: str, values: Sequence[int], limit: int) -> None: ...
def check_reach(name: str, counts: Sequence[int], strides: Sequence[int]) -> None: ...
def check_numbers(fields: dict[str, object], sizes: frozenset[str]) -> None: ...

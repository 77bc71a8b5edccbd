"""Types of the loops of copies by indices."""

from typing import Any

from .work import Work

AROUND: int
MOST_INDICES: int

class Indexed(Work):
    def __new__(cls, fields: dict[str, Any], isa: str) -> Indexed: ...

"""Types of the loops of element-wise programs."""

from typing import Any

from .work import Work

MOST_CODE: int
MOST_DIMS: int
MOST_STREAMS: int
TILE_ELEMENTS: int

class Elementwise(Work):
    def __new__(cls, fields: dict[str, Any], isa: str) -> Elementwise: ...

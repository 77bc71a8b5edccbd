"""Types of the loops of image filters."""

from typing import Any

from .work import Work

MEANS_BESIDE: int

def has_means(isa: str) -> bool: ...
def has_pairs(isa: str) -> bool: ...

class Bands(Work):
    def __new__(cls, fields: dict[str, Any], passes: Any, isa: str) -> Bands: ...

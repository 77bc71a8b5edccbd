"""Types of the loops of regions of images."""

from typing import Any

from .work import Work

MOST_RATIO: int
"""Most sampling points of a bin along one axis that an attribute may ask for."""

class Regions(Work):
    def __new__(cls, fields: dict[str, Any], isa: str) -> Regions: ...

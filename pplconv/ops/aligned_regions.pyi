"""Types of regions of images compiled."""

from typing import Any

from ..schedules.work import Work

MOST_RATIO: int
"""Most sampling points of a bin along one axis that an attribute may ask for."""

class Regions(Work):
    def __new__(cls, fields: dict[str, Any], isa: str) -> Regions: ...

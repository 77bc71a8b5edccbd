"""Types of the loops of pooling and resampling."""

from typing import Any

from .work import Work

class Pool(Work):
    def __new__(cls, fields: dict[str, Any], isa: str) -> Pool: ...

class PoolPlaces(Work):
    def __new__(cls, fields: dict[str, Any], isa: str) -> PoolPlaces: ...

class Resample(Work):
    def __new__(cls, fields: dict[str, Any], isa: str) -> Resample: ...

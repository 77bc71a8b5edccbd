"""Types of the loops of pooling and resampling."""

from typing import Any

from .work import Work

MOST_ROWS: int
"""Most input rows of an output of a resampling."""

class Pool(Work):
    def __new__(cls, fields: dict[str, Any], isa: str) -> Pool: ...

class Resample(Work):
    def __new__(cls, fields: dict[str, Any], isa: str) -> Resample: ...

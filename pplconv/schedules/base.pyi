"""Types of a compiled plan; everything but the constructor and its limits is for C callers."""

from typing import Any, ClassVar

from .work import Work

class Schedule(Work):
    sizes: ClassVar[frozenset[str]]

    def __new__(cls, fields: dict[str, Any], isa: str) -> Schedule: ...

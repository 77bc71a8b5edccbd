"""Types of a compiled plan; everything but the constructor is for C callers."""

from typing import Any

class Schedule:
    def __new__(cls, fields: dict[str, Any], isa: str) -> Schedule: ...

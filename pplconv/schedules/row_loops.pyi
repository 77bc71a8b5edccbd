"""Types of the loops over matrices."""

from typing import Any

from .work import Work

class Rows(Work):
    def __new__(cls, fields: dict[str, Any], isa: str) -> Rows: ...

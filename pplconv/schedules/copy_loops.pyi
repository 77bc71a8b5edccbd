"""Types of the loops of copies."""

from typing import Any

from .work import Work

class Copy(Work):
    def __new__(cls, fields: dict[str, Any], isa: str) -> Copy: ...

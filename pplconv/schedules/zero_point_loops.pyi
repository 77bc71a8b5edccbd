"""Types of the loops of computed zero points."""

from .work import Work

class ZeroPoint(Work):
    def __new__(cls, count: int, is_signed: bool) -> ZeroPoint: ...

"""`Refused`: the error of a run in which a step met an index that is out of range."""

from __future__ import annotations

__all__ = ["Refused"]


class Refused(IndexError):
    """A step of a program refuses an index.

    Parameters
    ----------
    step : int
        Its number.
    index : int
        The index, clamped to 32 bits.
    """

    def __init__(self, step: int, index: int) -> None:
        super().__init__(f"index {index} is out of range")
        self.step = step

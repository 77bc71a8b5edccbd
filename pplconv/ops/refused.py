"""`Refused`: the error of a run in which a step met a number that is out of range."""

from __future__ import annotations

__all__ = ["Refused"]

# By the number that a step says: why it refuses.
_REASONS = {1: "index {} is out of range", 2: "a region has more than {} points"}


class Refused(IndexError):
    """A step of a program refuses a number.

    Parameters
    ----------
    step : int
        Its number.
    reason : int
        1: an index; 2: points of a region.
    number : int
        The index, clamped to 32 bits, or the bound.
    """

    def __init__(self, step: int, reason: int, number: int) -> None:
        super().__init__(_REASONS[reason].format(number))
        self.step = step

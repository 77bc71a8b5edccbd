"""The rows of an operand that an operator reads for some rows of its result."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["SAME", "Reach"]


class Reach(NamedTuple):
    """Row `i` of a result is computed from `extent` rows of an operand, the first of which is
    `i * stride - before`; rows beyond the image are padding.

    Parameters
    ----------
    stride : int
        Rows of the operand from one row of the result to the next.
    before : int
        Rows of padding above the image.
    extent : int
        Rows of a window.
    """

    stride: int = 1
    before: int = 0
    extent: int = 1

    def first(self, row: int) -> int:
        """Give the first row that row `row` of the result reads; it may be padding."""
        return row * self.stride - self.before

    def end(self, rows: int) -> int:
        """Give the end of what the first `rows` rows of the result read."""
        return (rows - 1) * self.stride - self.before + self.extent


SAME = Reach()
"""Of element-wise operators: each row from the same row."""

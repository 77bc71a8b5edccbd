"""The rows of images that a node reads for some rows of its result: the words of `row_rules`.

Rows are those of an axis of images: images of height 1 are cut into columns, which count as rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Protocol

from ..._records import NamedTuple
from ..nodes import Graph, Node

__all__ = ["SAME", "Band", "Reach", "RowRule", "Rows", "Scattered", "Windows"]


class Reach(Protocol):
    """The rows of an operand behind the rows of a result."""

    @property
    def rate(self) -> Fraction:
        """Rows of the operand for one row of the result."""

    def first(self, row: int) -> int:
        """Give the first row that is read from row `row` of the result on; padding is below 0."""

    def end(self, rows: int) -> int:
        """Give the end of the rows that are read for the first `rows` rows of the result."""

    def repeats(self, begin: int, step: int, turns: int) -> bool:
        """Whether `turns` bands of `step` rows from row `begin` on read alike."""


class Windows(NamedTuple):
    """Row `i` of a result is computed from rows `i * stride - before` on.

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

    @property
    def rate(self) -> Fraction:
        """The stride."""
        return Fraction(self.stride)

    def first(self, row: int) -> int:
        """Give the first row of a window."""
        return row * self.stride - self.before

    def end(self, rows: int) -> int:
        """Give the end of the last window."""
        return (rows - 1) * self.stride - self.before + self.extent

    def repeats(self, begin: int, step: int, turns: int) -> bool:
        """Windows are alike everywhere."""
        return True


SAME = Windows()


class Scattered(NamedTuple):
    """In a transposed convolution row `i` of the operand adds to rows `i * stride - before` on.

    A row of the result to which none adds still reads one, since a band is not empty.

    Parameters
    ----------
    stride : int
        Rows of the result from one row of the operand to the next.
    before : int
        Rows that are cut off above the result.
    extent : int
        Rows that one row of the operand adds to.
    height : int
        Rows of the operand.
    """

    stride: int
    before: int
    extent: int
    height: int

    @property
    def rate(self) -> Fraction:
        """The stride's inverse."""
        return Fraction(1, self.stride)

    def first(self, row: int) -> int:
        """Give the first row that adds to row `row` of the result, or to a later one."""
        at = row + self.before
        return min(-((self.extent - 1 - at) // self.stride), at // self.stride, self.height - 1)

    def end(self, rows: int) -> int:
        """Give the end of the rows that add to the first `rows` rows of the result."""
        return max((rows - 1 + self.before) // self.stride + 1, 1)

    def repeats(self, begin: int, step: int, turns: int) -> bool:
        """Whether each band moves on by whole rows of the operand."""
        return step % self.stride == 0


class Band(NamedTuple):
    """Some rows of a result.

    Parameters
    ----------
    begin, end : int
        Which rows.
    first : int
        First row of the operand that is given.
    before, after : int
        Rows of padding around what is given.
    """

    begin: int
    end: int
    first: int
    before: int
    after: int


class Rows(NamedTuple):
    """How a node can be cut into bands.

    Parameters
    ----------
    reads : mapping of str to Reach
        Images that are read by rows, that of the windows first; other operands are read whole.
    cut : callable
        Gives the node for a band of its result.
    planned : bool
        Whether known weights multiply windows, by plans.
    joins : bool
        Whether the result consists of these images, so that they may lie in it.
    apart : int
        Rows of the result from one row of a plan to its next one; bands begin at their multiples.
    """

    reads: Mapping[str, Reach]
    cut: Callable[[Node, Band], Node]
    planned: bool = False
    joins: bool = False
    apart: int = 1


RowRule = Callable[[Node, Graph, int], Rows | None]

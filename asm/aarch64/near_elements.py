"""Registers of a GEMM's sum where the elements of a row of A are neighbours (channels last).

Every row has a pointer of its own, and a load may bring several elements of the row, one for each
of several steps of k. This module finds the use of the registers with few loads:

- A row that has a register is *held*: one load serves as many steps as a vector has lanes.
- Other rows pass through registers that they share. If several steps go *together*, each with its
  row of B in registers, a load brings the elements of them all.

Rows that pass go in groups, and each group is loaded while the one before is multiplied. Two
products of one element of C wait for each other; between them stand the other products of the
group. To find further independent products, a core has to look ahead by as many products as it has
under way, times the steps that go together. So only as many steps go together as few loads require.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Products between two products of one element of C, if there are registers. Most cores start two a
# cycle with a latency of four cycles, so eight are needed; the next group has the other four.
_APART = 4
# Enough products for each load: a core that dispatches three instructions a cycle and multiplies
# two vectors then has one slot in six for other instructions.
_ENOUGH = 3


@dataclass(frozen=True)
class NearElements:
    """Registers of the rows of A and of further rows of B.

    Parameters
    ----------
    rows : int
        Rows of the tile.
    together : int
        Steps of k whose rows of B are in registers at a time.
    more_b : tuple of int
        Registers of rows of B for the steps after the first of `together`, step by step.
    held : tuple of int
        Registers of the first rows of A, one each.
    passing : tuple of int
        Registers that the other rows share; they hold two groups at a time.
    """

    rows: int
    together: int
    more_b: tuple[int, ...]
    held: tuple[int, ...]
    passing: tuple[int, ...]

    @property
    def registers(self) -> tuple[int, ...]:
        """All these registers."""
        return (*self.more_b, *self.held, *self.passing)

    @property
    def groups(self) -> list[range]:
        """Rows that are multiplied one after the other, those that are held first."""
        held, size = len(self.held), max(len(self.passing) // 2, 1)
        groups = [range(m, min(m + size, self.rows)) for m in range(held, self.rows, size)]
        return [range(held), *groups] if held else groups

    def register(self, m: int) -> int:
        """Register of the elements of row `m`."""
        held = len(self.held)
        return self.held[m] if m < held else self.passing[(m - held) % len(self.passing)]

    def loads(self, vectors: int, lanes: int) -> int:
        """Number of loads for as many steps as a vector has lanes."""
        held = len(self.held)
        return lanes * vectors + held + (self.rows - held) * lanes // self.together


def near_elements(rows: int, vectors: int, lanes: int, free: Sequence[int]) -> NearElements:
    """Find the fewest steps together with few enough loads; if none has, the fewest loads.

    Parameters
    ----------
    rows : int
        Rows of the tile.
    vectors : int
        Vectors of its rows.
    lanes : int
        Elements of a vector.
    free : sequence of int
        Registers besides C's and those of a row of B.

    Raises
    ------
    ValueError
        If rows cannot pass, since fewer than two registers are free.
    """
    found = []
    for together in (1 << shift for shift in range(lanes.bit_length())):
        more = (together - 1) * vectors
        left = free[more:]
        # With one step at a time, all other rows stand between the products of an element of C.
        group = 1 if together == 1 else -(-_APART // vectors)
        passing = 0 if len(left) >= rows else 2 * min(group, len(left) // 2)
        held = min(len(left) - passing, rows)
        if held == rows or passing:
            shared = left[held : held + passing]
            found.append(
                NearElements(rows, together, tuple(free[:more]), tuple(left[:held]), tuple(shared))
            )
    if not found:
        raise ValueError(f"{rows} rows of A cannot pass through the registers {list(free)}")
    products = rows * vectors * lanes
    few = [way for way in found if _ENOUGH * way.loads(vectors, lanes) <= products]
    return few[0] if few else min(found, key=lambda way: way.loads(vectors, lanes))

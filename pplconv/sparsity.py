"""How sparse weights are: a part of problems, and of keys of plans and wisdom."""

from __future__ import annotations

from ._checks import integer, shown
from ._records import NamedTuple

__all__ = ["BLOCKS", "SCALE", "WITHOUT_ZEROS", "Sparsity", "checked_block", "checked_sparsity"]

# Output channels that may share their zeros: blocks of 1xN, along output channels.
BLOCKS = (1, 4, 8, 16)
# Densities are counted in thousandths.
SCALE = 1000
# The algorithm that leaves out zero weights.
WITHOUT_ZEROS = "sparse"


class Sparsity(NamedTuple):
    """Weights of which only some are stored; the others count as zero.

    Parameters
    ----------
    block : int
        Neighbouring output channels of a group that are pruned together, one of `BLOCKS`. The
        remaining channels of a group, beyond whole blocks, are pruned one by one.
    density : int
        Stored weights, in thousandths of all, rounded up: all weights of blocks that are not zero.
    """

    block: int
    density: int

    @classmethod
    def of(cls, block: int, stored: int, total: int) -> Sparsity:
        """Describe weights that store `stored` of `total`."""
        return cls(block, -(-SCALE * stored // total) if total else 0)

    @property
    def text(self) -> str:
        """Text in problem strings: ``sb4sd250`` is blocks of 4, and a quarter of the weights."""
        return f"sb{self.block}sd{self.density}"

    @property
    def share(self) -> float:
        """Share of the weights that is stored."""
        return self.density / SCALE

    def stored(self, total: int) -> int:
        """Return an upper bound of the stored weights, of `total`."""
        return min(-(-self.density * total // SCALE), total)


def checked_sparsity(block: int, density: int) -> Sparsity:
    """Make a `Sparsity` of numbers from a text.

    Raises
    ------
    ValueError
        If there are no such blocks, or no such density.
    """
    found = Sparsity(block, density)
    if block not in BLOCKS or not 0 <= density <= SCALE:
        raise ValueError(f"no such sparse weights: {found.text}")
    return found


def checked_block(block: object) -> tuple[int, int]:
    """Return ``block=``, a block of output channels.

    Raises
    ------
    TypeError, ValueError
        If it is no (1, N) with N one of `BLOCKS`.
    """
    widths = ", ".join(f"(1, {width})" for width in BLOCKS)
    complaint = f"block must be one of {widths}, got {shown(block)}"
    if not isinstance(block, (tuple, list)):
        raise TypeError(complaint)
    if len(block) != 2:
        raise ValueError(complaint)
    down, across = (integer("block", size, complaint=complaint) for size in block)
    if down != 1 or across not in BLOCKS:
        raise ValueError(complaint)
    return down, across

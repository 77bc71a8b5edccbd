"""The memory layout of packed operands: panels, in the format of the kernel that reads them.

`Panels` is derived from the kernel's row in the table. Plans count, name and cut panels with it;
``schedules/panel_offsets.pxd`` packs and reads the same panels.
"""

from __future__ import annotations

from .._records import NamedTuple
from .candidate import KernelKey, round_up

PREFETCH_STEPS = 24  # groups of k that a kernel prefetches ahead


class Panels(NamedTuple):
    """Panels of a packed operand, ``[panel][k / kr][width][kr]``, with zeros where either ends.

    Parameters
    ----------
    width : int
        Rows or columns of the product in a panel.
    kr : int
        Neighbouring k of one row or column that lie side by side; 1: none do.
    step : int
        Number of k that the kernel takes at once, if zeros after k fill whole steps; else 1.
    """

    width: int
    kr: int = 1
    step: int = 1

    @classmethod
    def of_rows(cls, kernel: KernelKey) -> Panels:
        """Panels that fill the rows of a kernel's tile."""
        return cls(kernel.mr, kernel.kr)

    @classmethod
    def of_columns(cls, kernel: KernelKey) -> Panels:
        """Panels that fill the columns of a kernel's tile."""
        return cls(kernel.nr, kernel.kr)

    def inside(self, block: int) -> Panels:
        """Panels that divide a block of channels, as wide as they can be and no wider than these.

        For tiles that store into one block, where wider panels would be cut.
        """
        widest = min(block, self.width)
        return self._replace(width=next(w for w in range(widest, 0, -1) if block % w == 0))

    @property
    def name(self) -> str:
        """How plans name them, in `Plan.packing`."""
        name = f"panels of {self.width}" + (f", kr {self.kr}" if self.kr > 1 else "")
        return name + (f", k in steps of {self.step}" if self.step > self.kr else "")

    @property
    def fields(self) -> dict[str, int]:
        """The fields that loops take."""
        return {"panel_width": self.width, "kr": self.kr}

    def padded(self, n: int) -> int:
        """`n` rows or columns in whole panels."""
        return round_up(n, self.width)

    def depth(self, k: int) -> int:
        """`k` in whole groups of `kr`, or in whole steps."""
        return round_up(k, max(self.kr, self.step))

    def bytes(self, n: int, k: int, element: int) -> int:
        """Size of `n` packed rows or columns of `k` elements, of `element` bytes each."""
        return self.padded(n) * self.depth(k) * element

    def ahead(self, element: int) -> int:
        """How far ahead a kernel prefetches, in bytes."""
        return PREFETCH_STEPS * self.width * self.kr * element

"""The first lanes of a vector to memory on AVX2, without a store under a mask.

Up to Zen 3, AMD's cores take as long for such a store as for some ten plain ones (`masked256` of
``pplconv/machine/x86_cores.py``). So two overlapping halves are stored: the first half of the
vector, and the half that ends with the last wanted lane. No lane beyond it is written. For fewer
lanes, quarters take the place of halves.
"""

from __future__ import annotations

from asm.writer import Writer
from asm.x86_64.emit import Vector


class Partial:
    """Emits stores of the first `count` bytes of vectors, a `part` at the beginning and at the end.

    Parameters
    ----------
    w : Writer
        Writer that takes the instructions.
    v : Vector
        Names of its elements.
    """

    def __init__(self, w: Writer, v: Vector) -> None:
        self.w, self.v = w, v
        # Bytes of a part: half a vector and less, down to an element.
        self.parts = [size for size in (16, 8, 4) if size >= v.size]

    def rodata(self) -> list[str]:
        """Give the numbers of the words of a vector, from which `pick` makes its index."""
        return [".p2align 5", ".Lword_numbers:", "    .long 0, 1, 2, 3, 4, 5, 6, 7"]

    def pick(self, part: int, index: int, count: str, scratch: str) -> None:
        """Let vector register `index` say which words are the last `part` of `count` bytes."""
        if part > self.v.size:
            self.w(f"lea {scratch}, .Lword_numbers[rip]")
            self.w(f"vmovups xmm{index}, [{scratch} + {count} - {part}]")

    def store(self, part: int, r: int, index: int, temp: int, first: str, last: str) -> None:
        """Store register `r` from address `first` on, its last `part` at `last`."""
        move = {16: "vmovups", 8: "vmovlps", 4: "vmovss"}[part]
        self.w(f"{move} {first}, xmm{r}")
        if part > self.v.size:
            if part == 16:
                self.w(f"vpermps ymm{temp}, ymm{index}, ymm{r}")
            else:
                self.w(f"vpermilps xmm{temp}, xmm{r}, xmm{index}")
            self.w(f"{move} {last}, xmm{temp}")

"""Long sums in half precision: chains of a bounded length, added in single precision.

An accumulator of 11 bits loses small terms once it has grown, so no chain of products is longer
than ``HALF_CHAIN``. The total of the chains lies in a block of floats on the stack; a sum of
one chain never touches it. The end of a chain costs eight instructions for each accumulator, four
of which compete with its 64 FMLAs.
"""

from __future__ import annotations

from asm.aarch64.emit import Writer
from asm.contract import HALF_CHAIN

CHAIN = "x28"  # terms in the chain under way
_TOTALS = 3  # bit of x15: the sum has more than one chain


class HalfChains:
    """Emits the chains that GEMM in half precision has besides its tile.

    x14 is the length of a piece, x7 the number of terms of the segment after it. Registers of A and
    B are free where a chain ends: v0 to v3 are among them, or used by nothing.
    """

    def __init__(self, w: Writer, accumulators: list[int]) -> None:
        self.w = w
        self.accumulators = accumulators
        self.totals_at = 0  # in the frame
        self.bytes = 32 * len(accumulators)

    def contract(self) -> list[str]:
        """Lines of the register map."""
        return [
            f"and {len(self.accumulators)} x 8 floats, the sum of the chains that have ended;",
            f"x14 terms of a piece, x7 of the segment after it, {CHAIN} of the chain under way",
        ]

    def begin(self, segment_count: str) -> None:
        """Zero the totals if the sum, x14 terms a segment, is too long for a chain."""
        w = self.w
        w(f"mov {CHAIN}, #0")
        w(f"ldr x8, {segment_count}")
        w("cmp x8, #1")
        w("csinc x8, x8, xzr, ge")
        w("mul x8, x8, x14")
        w(f"cmp x8, #{HALF_CHAIN}")
        w("b.le .Lone_chain")
        self.zero_totals()
        w.label("one_chain")

    def zero_totals(self) -> None:
        """Begin a sum of more than one chain."""
        w = self.w
        w(f"orr x15, x15, #{1 << _TOTALS}")
        w(f"add x8, sp, #{self.totals_at}")
        w("movi v0.2d, #0")
        for index in range(len(self.accumulators)):
            w(f"stp q0, q0, [x8, #{32 * index}]")

    def piece(self, k: str) -> None:
        """Cut a piece off the segment; end the chain first if it would become too long."""
        w = self.w
        w(f"ldr x7, {k}")
        w.label("piece")
        w(f"mov x14, #{HALF_CHAIN}")
        w("cmp x7, x14")
        w("csel x14, x7, x14, lt")
        w("sub x7, x7, x14")
        w(f"add {CHAIN}, {CHAIN}, x14")
        w(f"cmp {CHAIN}, #{HALF_CHAIN}")
        w("b.le .Lchain_goes_on")
        w(f"mov {CHAIN}, x14")
        self.end_chain()
        w.label("chain_goes_on")

    def end_chain(self) -> None:
        """Add the chain under way to the totals, and begin another one."""
        w = self.w
        w(f"add x8, sp, #{self.totals_at}")
        for index, a in enumerate(self.accumulators):
            self.total(index, a)
            w(f"stp q0, q1, [x8, #{32 * index}]")
            w(f"movi v{a}.2d, #0")

    def total(self, index: int, accumulator: int) -> None:
        """v0, v1: total of an accumulator, the chain under way included."""
        w = self.w
        w(f"ldp q0, q1, [x8, #{32 * index}]")
        w(f"fcvtl v2.4s, v{accumulator}.4h")
        w(f"fcvtl2 v3.4s, v{accumulator}.8h")
        w("fadd v0.4s, v0.4s, v2.4s")
        w("fadd v1.4s, v1.4s, v3.4s")

    def end(self) -> None:
        """Add the last chain, and round."""
        w = self.w
        w(f"tbz x15, #{_TOTALS}, .Lrounded")
        w(f"add x8, sp, #{self.totals_at}")
        for index, a in enumerate(self.accumulators):
            self.total(index, a)
            w(f"fcvtn v{a}.4h, v0.4s")
            w(f"fcvtn2 v{a}.8h, v1.4s")
        w.label("rounded")

"""Long sums in half precision: chains of a bounded length, added in single precision.

As on AArch64 (``asm/aarch64/half_chains.py``): no chain of products is longer than ``HALF_CHAIN``,
and their total lies in a block of floats on the stack, which a sum of one chain never touches. The
two numbers that count terms lie below it, as there are no registers for them.
"""

from __future__ import annotations

from asm.contract import HALF_CHAIN
from asm.writer import Writer

_TOTALS = 1 << 9  # bit of r11: the sum has more than one chain
_LEFT, _CHAIN, _BLOCK = "[sp]", "[sp, #4]", 8


class HalfChains:
    """Emits the chains that GEMM in half precision has besides its tile.

    r7 is the length of a piece. Registers of A and B are free where a chain ends.

    Parameters
    ----------
    w : Writer
        Writer that takes the instructions.
    accumulators : list of int
        Registers of C.
    segment_count, k : str
        Memory operands of the number of segments and of their length.
    """

    def __init__(self, w: Writer, accumulators: list[int], segment_count: str, k: str) -> None:
        self.w = w
        self.accumulators = accumulators
        self.segment_count, self.k = segment_count, k
        self.bytes = _BLOCK + 32 * len(accumulators)

    def contract(self) -> list[str]:
        """Lines of the register map."""
        return [
            "stack: terms of the segment after this piece, terms of the chain under way, and",
            f"{len(self.accumulators)} x 8 floats, the sum of the chains that have ended",
        ]

    def begin(self) -> None:
        """Make the frame; zero the totals if the sum is too long for a chain."""
        w = self.w
        w(f"sub sp, sp, #{self.bytes}")
        w("mov r12, #0")
        w(f"str r12, {_CHAIN}")
        w(f"ldr r1, {self.segment_count}")
        w(f"ldr r2, {self.k}")
        w("cmp r1, #1")
        w("movlt r1, #1")
        w("umull r1, r3, r2, r1")
        w("cmp r3, #0")
        w("bne .Lchains")
        w(f"cmp r1, #{HALF_CHAIN}")
        w("bls .Lone_chain")
        w.label("chains")
        w(f"orr r11, r11, #{_TOTALS}")
        w(f"add lr, sp, #{_BLOCK}")
        for r in (0, 1):
            w(f"vmov.i32 q{r}, #0")
        for _ in self.accumulators:
            w("vst1.32 {d0, d1, d2, d3}, [lr]!")
        w.label("one_chain")

    def piece(self) -> None:
        """Cut a piece off the segment; end the chain first if it would become too long."""
        w = self.w
        w(f"ldr r12, {self.k}")
        w.label("piece")
        w(f"mov r7, #{HALF_CHAIN}")
        w("cmp r12, r7")
        w("movlt r7, r12")
        w("sub r12, r12, r7")
        w(f"str r12, {_LEFT}")
        w(f"ldr r12, {_CHAIN}")
        w("add r12, r12, r7")
        w(f"cmp r12, #{HALF_CHAIN}")
        w("ble .Lchain_goes_on")
        w("mov r12, r7")
        w(f"add lr, sp, #{_BLOCK}")
        for a in self.accumulators:
            self.total(a)
            w("vst1.32 {d0, d1, d2, d3}, [lr]!")
            w(f"vmov.i32 q{a}, #0")
        w.label("chain_goes_on")
        w(f"str r12, {_CHAIN}")

    def next_piece(self) -> None:
        """Go on with the rest of the segment."""
        w = self.w
        w(f"ldr r12, {_LEFT}")
        w("cmp r12, #0")
        w("bne .Lpiece")

    def total(self, accumulator: int) -> None:
        """q0, q1: total of an accumulator, the chain under way included; lr stays."""
        w = self.w
        w("vld1.32 {d0, d1, d2, d3}, [lr]")
        for part in (0, 1):
            w(f"vcvt.f32.f16 q{2 + part}, d{2 * accumulator + part}")
        for part in (0, 1):
            w(f"vadd.f32 q{part}, q{part}, q{2 + part}")

    def end(self) -> None:
        """Add the last chain, round, and give the frame back."""
        w = self.w
        w(f"tst r11, #{_TOTALS}")
        w("beq .Lrounded")
        w(f"add lr, sp, #{_BLOCK}")
        for a in self.accumulators:
            self.total(a)
            w("add lr, lr, #32")
            for part in (0, 1):
                w(f"vcvt.f16.f32 d{2 * a + part}, q{part}")
        w.label("rounded")
        w(f"add sp, sp, #{self.bytes}")

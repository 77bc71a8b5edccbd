"""Register-only FMA loop: what one core can do when nothing else is asked of it."""

from __future__ import annotations

from asm.aarch32.emit import Vector, frame
from asm.contract import FMA_PEAK
from asm.registry import Kernel
from asm.writer import Writer

_FREE = [2, 3, *range(8, 16)]  # the caller's q4-q7 stay as they are
CHAINS = 8
TURNS = 3  # of all chains in a turn of the loop


def generate(kernel: Kernel) -> str:
    """Assembly text of the peak kernel for the dtype and ISA of `kernel`."""
    v = Vector(kernel.dtype, kernel.isa)
    w = Writer()
    chains = _FREE[:CHAINS]
    w(f"ldr r2, [r0, #{FMA_PEAK.offset('operations')}]")
    w(f"movw r1, #{operations(kernel)}")
    w("str r1, [r2]")
    w("mov r1, #0")
    w("str r1, [r2, #4]")
    w(f"ldr r1, [r0, #{FMA_PEAK.offset('iterations')}]")
    for r in (0, 1, *chains):
        w(f"vmov.i32 q{r}, #0")
    w("cmp r1, #0")
    w("ble .Ldone")
    w(".p2align 5")
    w.label("peak_loop")
    for _ in range(TURNS):
        for r in chains:
            w(f"vfma.{v.type} q{r}, q0, q1")
    w("subs r1, r1, #1")
    w("bne .Lpeak_loop")
    w.label("done")
    w("bx lr")
    contract = [
        f"{kernel.symbol}: {FMA_PEAK.summary}.",
        f"A turn is {TURNS * CHAINS} FMAs of {v.lanes} lanes: {operations(kernel)} flop.",
        f"{', '.join(f'q{r}' for r in chains)} chains; q0, q1 operands, 0.",
    ]
    return frame(kernel, contract, w.lines)


def operations(kernel: Kernel) -> int:
    """Operations of one turn of the loop: 2 a product."""
    return 2 * TURNS * CHAINS * kernel.lanes

"""Register-only FMA loop: what one core can do when nothing else is asked of it."""

from __future__ import annotations

from asm.contract import FMA_PEAK
from asm.registry import Kernel
from asm.writer import Writer
from asm.x86_64.emit import Vector, frame

# Twelve chains cover latency 4 x 2 ports with room to spare, and fit both register files.
CHAINS = 12


def generate(kernel: Kernel) -> str:
    """Assembly text of the peak kernel for the dtype and ISA of `kernel`."""
    v = Vector(kernel.dtype, kernel.isa)
    w = Writer()
    w(f"mov rax, [rdi + {FMA_PEAK.offset('iterations')}]")
    for r in range(CHAINS + 2):
        w(f"vxorps {v.reg(r)[0]}mm{r}, {v.reg(r)[0]}mm{r}, {v.reg(r)[0]}mm{r}")
    w("test rax, rax")
    w("jle .Ldone")
    w(".p2align 5")
    w.label("loop")
    for _ in range(2):
        for r in range(CHAINS):
            w(f"vfmadd231{v.suffix} {v.reg(r)}, {v.reg(CHAINS)}, {v.reg(CHAINS + 1)}")
    w("dec rax")
    w("jnz .Lloop")
    w.label("done")
    w("vzeroupper")
    w("ret")
    contract = [
        f"{kernel.symbol}: {FMA_PEAK.summary}.",
        f"One turn is {2 * CHAINS} FMAs of {v.lanes} lanes: {4 * CHAINS * v.lanes} flop.",
        f"{v.reg(0)}-{v.reg(CHAINS - 1)} chains; {v.reg(CHAINS)}, {v.reg(CHAINS + 1)} operands, 0.",
    ]
    return frame(kernel, contract, w.lines, [])


def flops_per_iteration(kernel: Kernel) -> int:
    """Floating-point operations in one turn of the loop."""
    return 4 * CHAINS * kernel.lanes

"""Register-only FMA loop: what one core can do when nothing else is asked of it."""

from __future__ import annotations

from asm.aarch64.emit import Vector, Writer, frame
from asm.aarch64.products import BY_MATRIX, by_element, multiply
from asm.contract import FMA_PEAK
from asm.registry import PRODUCTS, Kernel

# Latency 4 x 4 pipes (Neoverse V1, Apple's cores) with room to spare.
CHAINS = 20
_FREE = [*range(2, 8), *range(16, 32)]  # the caller's v8-v15 stay as they are


def generate(kernel: Kernel) -> str:
    """Assembly text of the peak kernel for the dtype and ISA of `kernel`."""
    w = Writer()
    chains = _FREE[:CHAINS]
    w(f"ldr x10, [x0, #{FMA_PEAK.offset('operations')}]")
    w(f"mov x11, #{operations(kernel)}")
    w("str x11, [x10]")
    w(f"ldr x9, [x0, #{FMA_PEAK.offset('iterations')}]")
    for r in (0, 1, *chains):
        w(f"movi v{r}.2d, #0")
    w("cmp x9, #0")
    w("b.le .Ldone")
    w(".p2align 5")
    w.label("peak_loop")
    for _ in range(2):
        for r in chains:
            for text in _product(kernel, r):
                w(text)
    w("subs x9, x9, #1")
    w("b.ne .Lpeak_loop")
    w.label("done")
    w("ret")
    contract = [
        f"{kernel.symbol}: {FMA_PEAK.summary}.",
        f"One turn is {2 * CHAINS} products of registers: {operations(kernel)} flop.",
        f"{', '.join(f'v{r}' for r in chains)} chains; v0, v1 operands, 0.",
    ]
    return frame(kernel, contract, w.lines)


def operations(kernel: Kernel) -> int:
    """Operations of one turn of the loop: 2 a product."""
    return 4 * CHAINS * kernel.lanes * PRODUCTS[kernel.dtype].kr


def _product(kernel: Kernel, chain: int) -> list[str]:
    """Instructions that add one product of registers to a chain."""
    if PRODUCTS[kernel.dtype].kr == 1:
        v = Vector(kernel.dtype, kernel.isa)
        return [f"fmla {v.all(chain)}, {v.all(0)}, {v.all(1)}"]
    if kernel.dtype in BY_MATRIX:
        mnemonic, lanes = BY_MATRIX[kernel.dtype]
        return [f"{mnemonic} v{chain}.4s, v0.{lanes}, v1.{lanes}"]
    parts = by_element(kernel.dtype, Vector(PRODUCTS[kernel.dtype].sum, kernel.isa))
    return [multiply(part, chain, 0, (1, 0)) for part in parts]

"""Register-only loop of products: what one core can do when nothing else is asked of it."""

from __future__ import annotations

from dataclasses import dataclass

from asm.contract import FMA_PEAK
from asm.registry import ELEMENT_BYTES, ISAS, PRODUCTS, Kernel
from asm.writer import Writer
from asm.x86_64.emit import frame
from asm.x86_64.products import MULTIPLIES

# Twelve chains cover latency 4 x 2 ports (5 x 2 of byte products) with room to spare, and fit both
# register files.
CHAINS = 12
TURNS = 2  # of all chains in a turn of the loop
# Of eight tiles two are operands; six chains of 16 cycles each cover a latency of 52.
TILE_CHAINS = 6
TILE_ROWS, TILE_ROW_BYTES = 16, 64

# Instructions of tiles; all others are in :data:`asm.x86_64.products.MULTIPLIES`.
TILE_PRODUCTS = {"u8t": "tdpbusd", "s8t": "tdpbssd", "bf16t": "tdpbf16ps"}


@dataclass(frozen=True)
class _Registers:
    """Registers of a loop: chains first, then both operands, then temporaries of products."""

    kernel: Kernel

    @property
    def tiles(self) -> bool:
        """Whether they are tiles."""
        return self.kernel.isa == "amx"

    @property
    def chains(self) -> int:
        """How many sums there are."""
        return TILE_CHAINS if self.tiles else CHAINS

    def name(self, index: int) -> str:
        """Register `index`."""
        if self.tiles:
            return f"tmm{index}"
        return f"{'zmm' if ISAS[self.kernel.isa].vector_bytes == 64 else 'ymm'}{index}"

    def product(self, chain: int) -> list[str]:
        """Instructions that add one product to a chain."""
        total, a, b = (self.name(r) for r in (chain, self.chains, self.chains + 1))
        if self.tiles:
            return [f"{TILE_PRODUCTS[self.kernel.dtype]} {total}, {a}, {b}"]
        how = MULTIPLIES[self.kernel.dtype]
        # Without the prefix, assemblers write the EVEX instruction of the same name.
        prefix = "{vex} " if how.twins and ISAS[self.kernel.isa].vector_bytes == 32 else ""
        if not how.add:
            return [f"{prefix}{how.instruction} {total}, {a}, {b}"]
        # Two temporaries in turn, so that a core without renaming could still overlap them. With
        # the register of ones, AVX2 has only one left.
        product = self.name(self.chains + 2 + (0 if how.widen else chain % 2))
        ones = self.name(self.chains + 3)
        return [
            f"{prefix}{how.instruction} {product}, {a}, {b}",
            *([f"{how.widen} {product}, {product}, {ones}"] if how.widen else ()),
            f"{how.add} {total}, {total}, {product}",
        ]

    def zero(self, index: int) -> str:
        """Instruction that clears a register."""
        if self.tiles:
            return f"tilezero tmm{index}"
        name = self.name(index)
        return f"vxorps {name}, {name}, {name}"


def generate(kernel: Kernel) -> str:
    """Assembly text of the peak kernel for the products and ISA of `kernel`."""
    r = _Registers(kernel)
    w = Writer()
    w(f"mov rax, [rdi + {FMA_PEAK.offset('operations')}]")
    w(f"mov qword ptr [rax], {operations(kernel)}")
    w(f"mov rax, [rdi + {FMA_PEAK.offset('iterations')}]")
    if r.tiles:
        w("ldtilecfg [rip + .Lconfiguration]")
    for index in range(r.chains + 2):
        w(r.zero(index))
    w("test rax, rax")
    w("jle .Ldone")
    w(".p2align 5")
    w.label("loop")
    for _ in range(TURNS):
        for chain in range(r.chains):
            for text in r.product(chain):
                w(text)
    w("dec rax")
    w("jnz .Lloop")
    w.label("done")
    if r.tiles:
        w("tilerelease")
    w("vzeroupper")
    w("ret")
    contract = [
        f"{kernel.symbol}: {FMA_PEAK.summary}.",
        f"One turn is {TURNS * r.chains} products of registers: {operations(kernel)} operations.",
        f"{r.name(0)}-{r.name(r.chains - 1)} chains; {r.name(r.chains)}, "
        f"{r.name(r.chains + 1)} operands, 0.",
    ]
    return frame(kernel, contract, w.lines, _configuration() if r.tiles else [])


def _configuration() -> list[str]:
    """Palette 1 with all eight tiles at their largest."""
    return [
        ".section .rodata",
        ".p2align 6",
        ".Lconfiguration:",
        "    .byte 1, 0",
        "    .zero 14",
        f"    .rept 8; .short {TILE_ROW_BYTES}; .endr",
        "    .zero 16",
        f"    .rept 8; .byte {TILE_ROWS}; .endr",
        "    .zero 8",
    ]


def operations(kernel: Kernel) -> int:
    """Operations of one turn of the loop: 2 a product."""
    product = PRODUCTS[kernel.dtype]
    if kernel.isa == "amx":
        sums = TILE_ROWS * TILE_ROW_BYTES // ELEMENT_BYTES[product.sum]
        depth = TILE_ROW_BYTES // ELEMENT_BYTES[product.a]
        return 2 * TURNS * TILE_CHAINS * sums * depth
    return 2 * TURNS * CHAINS * kernel.lanes * product.kr

"""Register-only loop of products: what one core can do when nothing else is asked of it."""

from __future__ import annotations

from dataclasses import dataclass

from asm.contract import FMA_PEAK
from asm.registry import ELEMENT_BYTES, ISAS, PRODUCTS, Kernel
from asm.writer import Writer
from asm.x86_64.emit import frame

# Twelve chains cover latency 4 x 2 ports (5 x 2 of byte products) with room to spare, and fit both
# register files.
CHAINS = 12
TURNS = 2  # of all chains in a turn of the loop
# Of eight tiles two are operands; six chains of 16 cycles each cover a latency of 52.
TILE_CHAINS = 6
TILE_ROWS, TILE_ROW_BYTES = 16, 64

# What adds a product to a chain; the order of operands is that of all of them. Without VNNI, words
# are multiplied and added by two instructions.
PRODUCT = {
    "f32": ("vfmadd231ps {sum}, {a}, {b}",),
    "f64": ("vfmadd231pd {sum}, {a}, {b}",),
    "u8": ("vpdpbusd {sum}, {a}, {b}",),
    "s16": ("vpmaddwd {t}, {a}, {b}", "vpaddd {sum}, {sum}, {t}"),
    "bf16": ("vdpbf16ps {sum}, {a}, {b}",),
    "u8t": ("tdpbusd {sum}, {a}, {b}",),
    "bf16t": ("tdpbf16ps {sum}, {a}, {b}",),
}


@dataclass(frozen=True)
class _Registers:
    """Those of a loop: chains first, then both operands, then what holds products for a moment."""

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
        names = {
            "sum": self.name(chain),
            "a": self.name(self.chains),
            "b": self.name(self.chains + 1),
            # Two in turn, so that a core which does not rename could still overlap them.
            "t": self.name(self.chains + 2 + chain % 2),
        }
        # Its EVEX twin of the same name is what assemblers write where they are not told.
        twin = "{vex} " if self.kernel.isa == "avxvnni" else ""
        return [twin + text.format_map(names) for text in PRODUCT[self.kernel.dtype]]

    def zero(self, index: int) -> str:
        """Clear one."""
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

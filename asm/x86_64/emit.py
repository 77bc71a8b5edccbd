"""What the x86-64 generators share: registers by class, element suffixes, file frame."""

from __future__ import annotations

from dataclasses import dataclass

from asm import writer
from asm.registry import ACCUMULATORS, ELEMENT_BYTES, ISAS, Kernel

CALLEE_SAVED = ("rbx", "rbp", "r12", "r13", "r14", "r15")


@dataclass(frozen=True)
class Vector:
    """Names that depend on the dtype and the ISA of a kernel.

    A group of narrow elements that GEMM kernels multiply together counts as one element: it has
    the size of a sum, and moves like a float32.
    """

    dtype: str
    isa: str

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return ELEMENT_BYTES[ACCUMULATORS[self.dtype]]

    @property
    def bytes(self) -> int:
        """Bytes of a vector."""
        return ISAS[self.isa].vector_bytes

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.bytes // self.size

    @property
    def suffix(self) -> str:
        """Packed-arithmetic suffix."""
        return "ps" if self.size == 4 else "pd"

    @property
    def broadcast(self) -> str:
        """Broadcast-load instruction."""
        return "vbroadcastss" if self.size == 4 else "vbroadcastsd"

    @property
    def embedded(self) -> str:
        """Decoration of a broadcast memory operand (AVX-512)."""
        return f"{{1to{self.lanes}}}"

    @property
    def masked(self) -> bool:
        """Whether the ISA has mask registers."""
        return "avx512f" in ISAS[self.isa].features

    def reg(self, index: int) -> str:
        """Vector register `index`."""
        return f"{'zmm' if self.bytes == 64 else 'ymm'}{index}"


def frame(kernel: Kernel, contract: list[str], body: list[str], rodata: list[str]) -> str:
    """Wrap a body into a file that defines one function named like the file."""
    head = [".intel_syntax noprefix", *rodata]
    return writer.function(kernel.symbol, contract, body, comment="#", sign="@", head=head)

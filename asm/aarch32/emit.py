"""Common part of the generators for 32-bit Arm: register names, element suffixes, file frame.

The code is in ARM state, even if compiled code is in Thumb state: callers branch to the address in
the table, and that branch changes the state.
"""

from __future__ import annotations

from dataclasses import dataclass

from asm import writer
from asm.registry import ELEMENT_BYTES, ISAS, Kernel

# Architecture, coprocessor and extensions that the assembler is to allow, for each level.
_ALLOWED = {
    "neon32": (".arch armv7-a", ".fpu neon-vfpv4"),
    "half32": (".arch armv8.2-a", ".fpu neon-fp-armv8", ".arch_extension fp16"),
}
# Tags of the ABI: a file passes no number in a register, so that both float ABIs may call it;
# it expects stacks of eight bytes' alignment, and keeps them.
_ATTRIBUTES = (".eabi_attribute 28, 3", ".eabi_attribute 24, 1", ".eabi_attribute 25, 1")


@dataclass(frozen=True)
class Vector:
    """Names that depend on the dtype of a kernel. A register is a number of q."""

    dtype: str
    isa: str

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return ELEMENT_BYTES[self.dtype]

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return ISAS[self.isa].vector_bytes // self.size

    @property
    def bits(self) -> int:
        """Suffix of an instruction that moves elements."""
        return 8 * self.size

    @property
    def type(self) -> str:
        """Suffix of an instruction of arithmetic."""
        return f"f{self.bits}"

    def piece(self, register: int, offset: int, size: int) -> str:
        """Part of a register, as structure loads and stores name it, with their suffix.

        Parameters
        ----------
        register : int
            Number of the register.
        offset, size : int
            Bytes, of which `size` is a power of two.
        """
        half = 2 * register + offset // 8
        if size == 8:
            return f".{self.bits} {{d{half}}}"
        return f".{8 * size} {{d{half}[{offset % 8 // size}]}}"

    def whole(self, *registers: int) -> str:
        """Registers that follow each other, as structure loads and stores name them."""
        halves = [f"d{2 * r + part}" for r in registers for part in (0, 1)]
        return f".{self.bits} {{{', '.join(halves)}}}"

    def every_lane(self, register: int) -> str:
        """A register as the load names it that puts one element into each lane."""
        return f".{self.bits} {{d{2 * register}[], d{2 * register + 1}[]}}"


def frame(kernel: Kernel, contract: list[str], body: list[str]) -> str:
    """Wrap a body into a file that defines one function named like the file."""
    head = [".syntax unified", *_ALLOWED[kernel.isa], *_ATTRIBUTES, ".arm"]
    return writer.function(kernel.symbol, contract, body, comment="@", sign="%", head=head)

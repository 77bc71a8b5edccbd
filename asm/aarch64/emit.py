"""What the AArch64 generators share: names of registers, element suffixes, file frame."""

from __future__ import annotations

from dataclasses import dataclass

from asm import writer
from asm.registry import ELEMENT_BYTES, ISAS, Kernel

# GNU_PROPERTY_AARCH64_FEATURE_1_AND: indirect calls may arrive here (BTI), and no return address
# is stored unsigned (PAC).
_PROPERTIES = 3


class Writer(writer.Writer):
    """Lines of one assembly file, GNU syntax."""

    def integer(self, register: str, value: int) -> None:
        """Load a constant of up to 64 bits."""
        parts = [(value >> shift & 0xFFFF, shift) for shift in (0, 16, 32, 48)]
        parts = [part for part in parts if part[0]] or [(0, 0)]
        for index, (part, shift) in enumerate(parts):
            self(f"{'movk' if index else 'movz'} {register}, #{part:#x}, lsl #{shift}")


@dataclass(frozen=True)
class Vector:
    """Names that depend on the dtype of a kernel."""

    dtype: str
    isa: str

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return ELEMENT_BYTES[self.dtype]

    @property
    def bytes(self) -> int:
        """Bytes of a vector."""
        return ISAS[self.isa].vector_bytes

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.bytes // self.size

    @property
    def letter(self) -> str:
        """Letter of an element: of its lanes, and of a register that holds one."""
        return {1: "b", 2: "h", 4: "s", 8: "d"}[self.size]

    def all(self, register: int) -> str:
        """Vector register with all of its lanes: ``v3.4s``."""
        return f"v{register}.{self.lanes}{self.letter}"

    def lane(self, register: int, index: int) -> str:
        """One lane: ``v3.s[1]``."""
        return f"v{register}.{self.letter}[{index}]"


def chunk_letter(size: int) -> str:
    """Letter of a register of so many bytes."""
    return {1: "b", 2: "h", 4: "s", 8: "d", 16: "q"}[size]


def arch_of(march: str) -> str:
    """The assembler's directive for the compiler's flag."""
    return f".arch {march.removeprefix('-march=')}"


def frame(kernel: Kernel, contract: list[str], body: list[str]) -> str:
    """Wrap a body into a file that defines one function named like the file."""
    return writer.function(
        kernel.symbol,
        contract,
        ["    hint #34 // bti c, on cores that know it", *body],
        comment="//",
        sign="%",
        head=[arch_of(ISAS[kernel.isa].cflags[0])],
        tail=[
            '.section .note.gnu.property, "a", %note',
            ".p2align 3",
            ".long 4, 16, 5",
            '.asciz "GNU"',
            f".long 0xc0000000, 4, {_PROPERTIES}, 0",
        ],
    )

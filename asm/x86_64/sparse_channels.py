"""Products with sparse weights whose vectors run over output channels: see ``sparse.py``.

A term loads the weights of all channels of the panel and broadcasts an element of each pixel, from
directly from the user's array, where channels are neighbours. On AVX-512 the FMA itself broadcasts:
28 pixels are 28 FMAs and 29 loads.
"""

from __future__ import annotations

from asm.contract import SPARSE_CHANNELS
from asm.fitting import require
from asm.registry import Kernel
from asm.x86_64.gemm import ROWS_PER_POINTER, row_address, row_multiples
from asm.x86_64.sparse import SparseFloats

_POINTERS = ("rsi", "r14")


class _Channels(SparseFloats):
    arguments = SPARSE_CHANNELS
    steps = "r15"
    free = ("r8", "r11", "rbx", "rbp", "r12", "r13", "r14")

    def taken(self) -> list[str]:
        return [*self.multiples.values(), *self.pointers[1:]]

    @property
    def multiples(self) -> dict[int, str]:
        """Registers of multiples of the distance between pixels."""
        return row_multiples(self.mr)

    @property
    def pointers(self) -> tuple[str, ...]:
        """Registers that point to the input, for the pixels of each."""
        needed = -(-self.mr // ROWS_PER_POINTER)
        require(self.kernel, needed, len(_POINTERS), "general registers that point to pixels")
        return _POINTERS[:needed]

    @property
    def width(self) -> int:
        return self.kernel.nr

    def registers(self) -> list[str]:
        v = self.v
        apart = ", ".join(f"{r} {m} x_rs" for m, r in self.multiples.items())
        return [
            f"{v.reg(self.b[0])}-{v.reg(self.b[-1])} weights, the rest broadcasts of pixels",
            f"{', '.join(self.pointers)} pixels, {ROWS_PER_POINTER} apart; {apart}",
        ]

    def place(self) -> None:
        """Put the input back, and the multiples of the distance between its pixels."""
        super().place()
        w, multiples = self.w, self.multiples
        w(f"mov rcx, {self.field('x_rs')}")
        if len(self.pointers) > 1:
            w("lea r14, [rsi + rcx]")
            w(f"add r14, {multiples[13]}")

    def prepare(self) -> None:
        """Load the multiples of the distance between pixels; the epilogue takes the first alone."""
        w, multiples = self.w, self.multiples
        if len(multiples) > 1:
            w(f"mov rcx, {self.field('x_rs')}")
        for m, register in multiples.items():
            if m > 1:
                w(f"lea {register}, [{multiples[m - 2]} + rcx*2]")

    def move(self) -> None:
        for pointer in self.pointers:
            self.w(f"add {pointer}, rax")

    def term(self, index: int, *, tail: bool) -> None:
        w, v = self.w, self.v
        at = index * self.width * v.size
        for j, r in enumerate(self.b):
            w(f"vmovu{v.suffix} {v.reg(r)}, [r10 + {at + j * v.bytes}]")
        for m in range(self.mr):
            pointer = self.pointers[m // ROWS_PER_POINTER]
            address = row_address(pointer, m % ROWS_PER_POINTER, 0)
            if self.embedded:
                operands = f"{v.reg(self.b[0])}, {address}{v.embedded}"
                w(f"{self.instruction} {self.acc(m, 0)}, {operands}")
                continue
            t = v.reg(self.temps[m % min(2, len(self.temps))])
            w(f"{v.broadcast} {t}, {address}")
            for j, r in enumerate(self.b):
                w(f"{self.instruction} {self.acc(m, j)}, {t}, {v.reg(r)}")


def generate(kernel: Kernel) -> str:
    """Assembly text of the kernel that `kernel` describes."""
    return _Channels(kernel).generate()

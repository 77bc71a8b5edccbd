"""Loops over a block of rows that change it in place, for kernels without a tile.

Several vectors go through each step of the arithmetic together, which covers its latency; the
rest of a row goes one vector at a time, and the rest of a vector through a mask. Masks of AVX2 are
fast for loads alone, so there the rest is stored in parts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from asm.registry import ISAS, Kernel
from asm.writer import Writer
from asm.x86_64.emit import Vector
from asm.x86_64.lanes import Partial

PER_VECTOR = 5  # registers of one vector under way


class Block:
    """Emits the loops; a kernel's own class adds the arithmetic.

    General registers: r8 row, r9 from one row to the next, rsi rows left, r10 columns, rax
    position in the row, rdx columns left, rcx position in r11's elements, which is counted like
    columns; rdi is scratch. In a tail of AVX2, rdx counts bytes.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.v = Vector(kernel.dtype, kernel.isa)
        self.w = Writer()
        self.unroll = 4 if self.v.masked else 2
        free = range(self.unroll * PER_VECTOR, ISAS[kernel.isa].vector_registers)
        # Constants that are not the last operand of their instruction; the tail mask of AVX2.
        self.held = [self.v.reg(r) for r in free[:3]]
        self.spare = free[3]
        self.tail_mask = self.v.reg(self.spare)
        self.partial = Partial(self.w, self.v)
        self.tails = 0
        self.constants: dict[str, int] = {}

    def vectors(self, count: int) -> list[list[str]]:
        """Registers of each vector under way."""
        return [
            [self.v.reg(i * PER_VECTOR + part) for part in range(PER_VECTOR)] for i in range(count)
        ]

    def constant(self, value: float | int) -> str:
        """Memory operand of a constant in every lane: a float's value or an integer's bits."""
        if isinstance(value, float):
            code, bits = ("<f", "<I") if self.v.size == 4 else ("<d", "<Q")
            value = int(struct.unpack(bits, struct.pack(code, value))[0])
        name = f".Lconstant_{value:x}"
        self.constants[name] = value
        return f"[rip + {name}]" + (self.v.embedded if self.v.masked else "")

    def hold(self, index: int, value: float) -> str:
        """Broadcast a constant into one of the held registers."""
        operand = self.constant(value).removesuffix(self.v.embedded)
        self.w(f"{self.v.broadcast} {self.held[index]}, {operand}")
        return self.held[index]

    def rodata(self) -> list[str]:
        """AVX-512 broadcasts constants from memory; AVX2 has whole vectors of them."""
        v = self.v
        directive = ".long" if v.size == 4 else ".quad"
        copies = 1 if v.masked else v.lanes
        lines = [".section .rodata", f".p2align {2 if v.masked else 5}"]
        for name, value in self.constants.items():
            lines += [f"{name}:", f"    {directive} " + ", ".join([f"{value:#x}"] * copies)]
        if not v.masked:
            lines.append(".Lmask_window:")
            lines += [f"    {directive} " + ", ".join([x] * v.lanes) for x in ("-1", "0")]
            lines += self.partial.rodata()
        return lines

    def loops(
        self,
        name: str,
        body: Callable[[int, bool], None],
        *,
        row_start: Callable[[], None] | None = None,
        columns_counted: bool = False,
    ) -> None:
        """Run `body(vectors, tail)` over the block: several vectors at a time, one, the tail."""
        w, v = self.w, self.v
        w.label(f"{name}_row")
        if row_start:
            row_start()
        w("mov rax, r8")
        w("mov rdx, r10")
        if columns_counted:
            w("mov rcx, r11")
        for count, label, after in ((self.unroll, "many", "few"), (1, "one", "rest")):
            step = count * v.lanes
            w(f"sub rdx, {step}")
            w(f"jl .L{name}_{after}")
            w(".p2align 5")
            w.label(f"{name}_{label}")
            body(count, False)
            w(f"add rax, {count * v.bytes}")
            if columns_counted:
                w(f"add rcx, {count * v.bytes}")
            w(f"sub rdx, {step}")
            w(f"jge .L{name}_{label}")
            w.label(f"{name}_{after}")
            w(f"add rdx, {step}")
        w(f"jz .L{name}_next")
        self.make_tail_mask()
        body(1, True)
        w.label(f"{name}_next")
        w("add r8, r9")
        w("dec rsi")
        w(f"jnz .L{name}_row")
        w("jmp .Ldone")

    def make_tail_mask(self) -> None:
        """Select the first rdx lanes."""
        w, v = self.w, self.v
        if v.masked:
            w("mov edi, -1")
            w("bzhi edi, edi, edx")
            w("kmovw k1, edi")
            return
        w(f"lea rdi, [rip + .Lmask_window + {v.bytes}]")
        w(f"shl rdx, {v.size.bit_length() - 1}")
        w("sub rdi, rdx")
        w(f"vmovups {self.tail_mask}, [rdi]")

    def load(self, target: str, address: str, *, tail: bool) -> None:
        """Load one vector; of a tail, its first lanes."""
        w, s = self.w, self.v.suffix
        if not tail:
            w(f"vmovu{s} {target}, {address}")
        elif self.v.masked:
            w(f"vmovu{s} {target}{{k1}}{{z}}, {address}")
        else:
            w(f"vmaskmov{s} {target}, {self.tail_mask}, {address}")

    def load_all(self, vectors: list[list[str]], *, tail: bool) -> None:
        """Load the first register of each vector under way."""
        for i, (x, *_) in enumerate(vectors):
            self.load(x, f"[rax + {i * self.v.bytes}]", tail=tail)

    def store_all(self, results: list[str], *, tail: bool) -> None:
        """Store the results of the vectors under way."""
        w, s = self.w, self.v.suffix
        if tail and not self.v.masked:
            self.store_parts(*results)
            return
        mask = "{k1}" if tail else ""
        for i, result in enumerate(results):
            w(f"vmovu{s} [rax + {i * self.v.bytes}]{mask}, {result}")

    def store_parts(self, result: str) -> None:
        """Store the first rdx bytes of a vector, whose mask is no longer needed."""
        w, partial = self.w, self.partial
        self.tails += 1
        name = f"stored_{self.tails}"
        for part in partial.parts:
            certain = part == self.v.size
            if not certain:
                w(f"cmp rdx, {part}")
                w(f"jl .L{name}_less_{part}")
            partial.pick(part, self.spare, "rdx", "rdi")
            register, last = int(result[3:]), f"[rax + rdx - {part}]"
            partial.store(part, register, self.spare, self.spare, "[rax]", last)
            if not certain:
                w(f"jmp .L{name}")
                w.label(f"{name}_less_{part}")
        w.label(name)

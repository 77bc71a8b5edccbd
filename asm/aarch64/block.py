"""Loops over a block of rows that change it in place, for kernels without a tile.

Several vectors go through each step of the arithmetic together, which covers its latency; the
rest of a row goes one vector at a time, and the rest of a vector in chunks. Half precision is
loaded and stored as such and computed in single precision, four elements to a vector.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from asm.aarch64.emit import Vector, Writer, chunk_letter
from asm.aarch64.lanes import Partial
from asm.registry import Kernel

PER_VECTOR = 5  # registers of one vector under way
UNROLL = 4
_UNDER_WAY = [*range(8), *range(16, 28)]
_CONSTANTS = [28, 29, 30, 31, *range(8, 16)]  # the caller's v8-v15 last


class Block:
    """Emits the loops; a kernel's own class adds the arithmetic.

    General registers: x1 row, x2 from one row to the next, x3 rows left, x4 columns, x7
    position in the row, x8 columns left, x9 position in x5's elements, which is counted like
    columns; x10 and x11 are scratch.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.half = kernel.dtype == "f16"
        self.v = Vector("f32" if self.half else kernel.dtype, kernel.isa)
        self.storage = Vector(kernel.dtype, kernel.isa)
        self.step = self.v.lanes * self.storage.size  # bytes of a vector in memory
        self.w = Writer()
        self.partial = Partial(self.w, self.storage, self.v.lanes)
        self.pools: dict[str, list[int]] = {}

    def vectors(self, count: int) -> list[list[int]]:
        """Registers of each vector under way."""
        return [_UNDER_WAY[i * PER_VECTOR : (i + 1) * PER_VECTOR] for i in range(count)]

    def bits(self, value: float) -> int:
        """Bits of a number."""
        code, bits = ("<f", "<I") if self.v.size == 4 else ("<d", "<Q")
        return int(struct.unpack(bits, struct.pack(code, value))[0])

    def hold(self, name: str, whole: list[float | int], single: list[float]) -> None:
        """Load constants: `whole` in every lane of a register each, `single` one to a lane.

        Their registers are then :meth:`constant` 0 and so on, their lanes :meth:`element` 0.
        """
        lanes = self.v.lanes
        padded = [*single, *[0.0] * (-len(single) % lanes)]
        values = [value for constant in whole for value in [constant] * lanes] + padded
        bits = [value if isinstance(value, int) else self.bits(value) for value in values]
        self.pools[name] = bits
        self.first_single = len(whole)
        count = len(values) // lanes
        self.w(f"adr x11, .Lconstants_{name}")
        for index in range(count):
            self.w(f"ldr q{self.constant(index)}, [x11, #{index * self.v.bytes}]")

    def constant(self, index: int) -> int:
        """Register of a constant that is in every lane."""
        register: int = _CONSTANTS[index]
        return register

    def element(self, index: int) -> str:
        """Lane of a constant."""
        lanes = self.v.lanes
        return self.v.lane(_CONSTANTS[self.first_single + index // lanes], index % lanes)

    def pool_lines(self) -> list[str]:
        """Constants, in the code itself: no other section, no relocation."""
        directive = ".long" if self.v.size == 4 else ".quad"
        lines = []
        for name, bits in self.pools.items():
            lines += [".p2align 4", f".Lconstants_{name}:"]
            lines += [f"    {directive} {', '.join(f'{b:#x}' for b in bits)}"]
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
        w = self.w
        w.label(f"{name}_row")
        if row_start:
            row_start()
        w("mov x7, x1")
        w("mov x8, x4")
        if columns_counted:
            w("mov x9, x5")
        for count, label, after in ((UNROLL, "many", "few"), (1, "one", "rest")):
            lanes = count * self.v.lanes
            w(f"subs x8, x8, #{lanes}")
            w(f"b.lt .L{name}_{after}")
            w(".p2align 5")
            w.label(f"{name}_{label}")
            body(count, False)
            w(f"add x7, x7, #{count * self.step}")
            if columns_counted:
                w(f"add x9, x9, #{count * self.step}")
            w(f"subs x8, x8, #{lanes}")
            w(f"b.ge .L{name}_{label}")
            w.label(f"{name}_{after}")
            w(f"adds x8, x8, #{lanes}")
        w(f"b.eq .L{name}_next")
        body(1, True)
        w.label(f"{name}_next")
        w("add x1, x1, x2")
        w("subs x3, x3, #1")
        w(f"b.ne .L{name}_row")
        w("b .Ldone")

    def load(self, register: int, pointer: str, index: int, *, tail: bool) -> None:
        """Load vector `index` from `pointer`; of a tail, its first lanes."""
        w = self.w
        if tail:
            w(f"mov x10, {pointer}")
            self.partial.load(register, "x10", "x8")
        else:
            w(f"ldr {chunk_letter(self.step)}{register}, [{pointer}, #{index * self.step}]")
        if self.half:
            w(f"fcvtl v{register}.4s, v{register}.4h")

    def load_all(self, vectors: list[list[int]], *, tail: bool) -> None:
        """Load the first register of each vector under way."""
        for i, (x, *_) in enumerate(vectors):
            self.load(x, "x7", i, tail=tail)

    def store_all(self, results: list[int], *, tail: bool) -> None:
        """Store the results of the vectors under way."""
        w = self.w
        for i, result in enumerate(results):
            if self.half:
                w(f"fcvtn v{result}.4h, v{result}.4s")
            if tail:
                w("mov x10, x7")
                self.partial.store(result, "x10", "x8")
            else:
                w(f"str {chunk_letter(self.step)}{result}, [x7, #{i * self.step}]")

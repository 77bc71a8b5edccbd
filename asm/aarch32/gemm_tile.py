"""The edges of a GEMM tile on 32-bit Arm: C into registers, the epilogue, and the one store.

A row of C is a run of vectors at a stride of its own: side by side in a row-major matrix, a
block of channels apart in a blocked image. Memory between the vectors is not touched.

Whole tiles go row by row. In other tiles each vector goes down its column. A vector that is not
whole goes in pieces, which are powers of two of elements, as the bits of their number say:
structure loads and stores name part of a register, and step from row to row by a register.
"""

from __future__ import annotations

from collections.abc import Callable

from asm.aarch32.emit import Vector
from asm.contract import FLAGS, GEMM
from asm.fitting import require
from asm.registry import ISAS, Kernel
from asm.writer import Writer, pieces

_OPERANDS = 4  # q0-q3 are B and A
Action = Callable[[int, int, str], None]


class Tile:
    """Registers of a tile, and the code before and after its sum.

    r0 arguments, r10 n and r11 flags stay as they are. The code here runs before the pointers of
    the sum are loaded, or after their last use. So it may change r1 to r3, r12 and lr, and q0 to
    q3.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.v = Vector(kernel.dtype, kernel.isa)
        self.w = Writer()
        self.mr = kernel.mr
        self.nv = kernel.vectors
        registers = ISAS[kernel.isa].vector_registers
        self.b = list(range(self.nv))
        self.a = list(range(self.nv, _OPERANDS))
        require(kernel, self.nv + 1, _OPERANDS, "vector registers of A and B")
        require(kernel, _OPERANDS + self.mr * self.nv)
        # The caller's q4-q7 come last.
        free = [*range(8, registers), *range(_OPERANDS, 8)]
        self.accumulators = free[: self.mr * self.nv]
        self.saved_vectors = [r for r in range(4, 8) if r in self.accumulators]
        self.labels = 0

    def acc(self, m: int, j: int) -> int:
        """Register of vector `j` of row `m` of C."""
        register: int = self.accumulators[m * self.nv + j]
        return register

    def field(self, name: str) -> str:
        """Memory operand of an argument; of an integer, its lower half."""
        return f"[r0, #{GEMM.offset(name)}]"

    def flag(self, name: str, target: str) -> None:
        """Jump to `target` unless the flag is set."""
        self.w(f"tst r11, #{FLAGS[name]}")
        self.w(f"beq .L{target}")

    def strides_of(self, matrix: str) -> None:
        """r1: its first row; r2: from row to row; r3: from vector to vector."""
        w = self.w
        w(f"ldr r1, {self.field(matrix)}")
        w(f"ldr r2, {self.field(f'{matrix}_rs')}")
        w(f"ldr r3, {self.field(f'{matrix}_vs')}")

    def pieces(self, count: str, action: Callable[[int, int], None]) -> None:
        """Run `action(offset, size)`, in bytes, over the pieces of a vector that is not whole.

        `count` is a register: its elements, at least one and fewer than a vector has.
        """
        self.labels += 1

        def unless(bit: int, label: str) -> None:
            self.w(f"tst {count}, #{1 << bit}")
            self.w(f"beq .L{label}")

        name = f"pieces_{self.labels}"
        pieces(self.w, name, self.v.lanes, self.v.size, unless, action)

    def load_part(self, register: int, address: str, count: str) -> None:
        """Load `count` elements, fewer than a vector has; other lanes stay. Moves `address`."""

        def load(offset: int, size: int) -> None:
            self.w(f"vld1{self.v.piece(register, offset, size)}, [{address}]!")

        self.pieces(count, load)

    def columns(
        self, name: str, whole: Callable[[int], None], partial: Callable[[int], None]
    ) -> None:
        """Run over the vectors of a row: whole ones, and the one that n ends in.

        Of the partial vector, r12 is the number of its elements.
        """
        w, lanes = self.w, self.v.lanes
        for j in range(self.nv):
            w(f"cmp r10, #{(j + 1) * lanes}")
            w(f"blt .L{name}_partial_{j}")
            whole(j)
        w(f"b .L{name}_done")
        for j in range(self.nv):
            w.label(f"{name}_partial_{j}")
            w(f"subs r12, r10, #{j * lanes}")
            w(f"ble .L{name}_done")
            partial(j)
            if j + 1 < self.nv:
                w(f"b .L{name}_done")
        w.label(f"{name}_done")

    def by_vector(self, name: str, op: str) -> None:
        """Load (``vld1``) or store (``vst1``) the tile; :meth:`strides_of` was emitted."""
        w, v = self.w, self.v
        w(f"cmp r10, #{self.kernel.nr}")
        w(f"bne .L{name}_some")
        for m in range(self.mr):
            w("mov r12, r1")
            for j in range(self.nv):
                step = ", r3" if j + 1 < self.nv else ""
                w(f"{op}{v.whole(self.acc(m, j))}, [r12]{step}")
            if m + 1 < self.mr:
                w("add r1, r1, r2")
        w(f"b .L{name}_done")
        w.label(f"{name}_some")

        def whole(j: int) -> None:
            w("mov r12, r1")
            for m in range(self.mr):
                w(f"{op}{v.whole(self.acc(m, j))}, [r12], r2")
            w("add r1, r1, r3")

        def partial(j: int) -> None:
            def down(offset: int, size: int) -> None:
                w(f"add lr, r1, #{offset}")
                for m in range(self.mr):
                    w(f"{op}{v.piece(self.acc(m, j), offset, size)}, [lr], r2")

            self.pieces("r12", down)

        self.columns(name, whole, partial)

    def start_from_c(self) -> None:
        """Load the accumulators. Vectors beyond n are computed and not stored."""
        self.strides_of("c")
        self.by_vector("load", "vld1")

    def zero(self) -> None:
        """Start from zero."""
        for r in self.accumulators:
            self.w(f"vmov.i32 q{r}, #0")

    def epilogue(self) -> None:
        """Bias, residual, clip, and the one store. A's and B's registers are free by now."""
        self.bias_row()
        self.bias_column()
        self.residual()
        self.clip()
        self.strides_of("c")
        self.by_vector("store", "vst1")

    def add(self, register: int, other: int) -> None:
        """Add to an accumulator."""
        self.w(f"vadd.{self.v.type} q{register}, q{register}, q{other}")

    def bias_row(self) -> None:
        """Add a number to each row."""
        w, v = self.w, self.v
        self.flag("BIAS_ROW", "no_bias_row")
        w(f"ldr r1, {self.field('bias')}")
        for m in range(self.mr):
            t = m % _OPERANDS
            w(f"vld1{v.every_lane(t)}, [r1]!")
            for j in range(self.nv):
                self.add(self.acc(m, j), t)
        w.label("no_bias_row")

    def bias_column(self) -> None:
        """Add a number to each column."""
        w = self.w
        self.flag("BIAS_COLUMN", "no_bias_column")
        w(f"ldr r1, {self.field('bias')}")

        def add(j: int) -> None:
            for m in range(self.mr):
                self.add(self.acc(m, j), 0)

        def whole(j: int) -> None:
            w(f"vld1{self.v.whole(0)}, [r1]!")
            add(j)

        def partial(j: int) -> None:
            w("vmov.i32 q0, #0")
            self.load_part(0, "r1", "r12")
            add(j)

        self.columns("bias", whole, partial)
        w.label("no_bias_column")

    def residual(self) -> None:
        """Add the residual, down each column."""
        w = self.w
        self.flag("RESIDUAL", "no_residual")
        self.strides_of("residual")

        def whole(j: int) -> None:
            w("mov r12, r1")
            for m in range(self.mr):
                t = m % _OPERANDS
                w(f"vld1{self.v.whole(t)}, [r12], r2")
                self.add(self.acc(m, j), t)
            w("add r1, r1, r3")

        def partial(j: int) -> None:
            for m in range(self.mr):
                t = m % _OPERANDS
                w("mov lr, r1")
                w(f"vmov.i32 q{t}, #0")
                self.load_part(t, "lr", "r12")
                self.add(self.acc(m, j), t)
                if m + 1 < self.mr:
                    w("add r1, r1, r2")

        self.columns("residual", whole, partial)
        w.label("no_residual")

    def clip(self) -> None:
        """Select by comparison: NaN passes, and so does a zero's sign, which maxima lose."""
        w, v = self.w, self.v
        self.flag("CLIP", "no_clip")
        w(f"ldr r1, {self.field('clip')}")
        for high in (False, True):
            w(f"vld1{v.every_lane(0)}, [r1]!")
            for index, a in enumerate(self.accumulators):
                t = 1 + index % (_OPERANDS - 1)
                first, second = (a, 0) if high else (0, a)
                w(f"vcgt.{v.type} q{t}, q{first}, q{second}")
                w(f"vbit q{a}, q0, q{t}")
        w.label("no_clip")

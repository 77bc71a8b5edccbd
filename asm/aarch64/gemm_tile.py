"""The edges of a GEMM tile on AArch64: C into registers, the epilogue, and the one store.

A row of C is a run of vectors at a stride of its own: side by side in a row-major matrix, a
block of channels apart in a blocked image. Memory between the vectors is not touched.

Whole tiles go row by row. In other tiles, whole vectors go column by column, and the partial vector
goes through a scratch column on the stack: a short loop moves its lanes to the scratch column or
back, row by row, which keeps the code small. The arithmetic is always in whole registers.
"""

from __future__ import annotations

from collections.abc import Callable

from asm.aarch64.emit import Vector, Writer
from asm.aarch64.lanes import Partial
from asm.aarch64.near_elements import near_elements
from asm.aarch64.products import PERMUTED
from asm.contract import FLAGS, GEMM, Contract
from asm.fitting import require
from asm.registry import ELEMENT_BYTES, PRODUCTS, Kernel

CALLEE_SAVED = tuple(f"x{r}" for r in range(19, 29))
# Multiples of the distance from vector to vector, for passes over whole rows.
_VECTORS_APART = ("x3", "x4", "x5", "x6", "x7", "x8", "x14")
_IOTA = 0x0706050403020100, 0x0F0E0D0C0B0A0908


class Tile:
    """Registers of a tile, and the code before and after its sum.

    That code runs before the pointers of the sum are loaded, or after their last use. So it may
    change x1 to x8, x14, x16 and x17, and the registers of A and B.
    """

    arguments: Contract = GEMM
    # Whether a vector of B that may not be read beyond n is read so that it ends at n.
    shifts = True

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        product = PRODUCTS[kernel.dtype]
        # Names of the elements of C. A group of A is as large as an element of C, or twice as large
        # where instructions multiply matrices.
        self.v = Vector(product.sum, kernel.isa)
        self.group_bytes = product.kr * ELEMENT_BYTES[product.a]
        self.floating = product.sum != "s32"
        self.w = Writer()
        self.partial = Partial(self.w, self.v)
        self.mr = kernel.mr
        self.nv = kernel.vectors
        apart = "general registers of distances between vectors"
        require(kernel, self.nv - 1, len(_VECTORS_APART), apart)
        self.arrange_registers()
        self.saved_vectors = [r for r in range(8, 16) if r in self.used()]

    def used(self) -> set[int]:
        """Vector registers that the kernel uses."""
        return {*self.a, *self.b, *self.near.registers, *self.others, *self.accumulators}

    def arrange_registers(self) -> None:
        """Share the registers out among A, B and C."""
        self.chunks = self._chunks_of_a()
        # Low registers, since an element of 16 bits multiplies from v0-v15 only.
        self.a = list(range(max(len(self.chunks), 2)))
        self.b = list(range(len(self.a), len(self.a) + self.nv))
        after = self.b[-1] + 1
        # Register of the permutation of a vector of B, for types that need one.
        self.others = [after] if self.kernel.dtype in PERMUTED else []
        self.accumulators = self.registers_of_c(self.mr, after + len(self.others))
        taken = {*self.b, *self.others, *self.accumulators}
        low = [r for r in range(16) if r not in taken]
        # Rows without a register of their own pass through two.
        require(self.kernel, 16 - len(low) + min(self.mr, 2), 16, "vector registers below v16")
        self.near = near_elements(self.mr, self.nv, self.v.lanes, low)

    def registers_of_c(self, rows: int, first: int) -> list[int]:
        """Accumulators of `rows` rows, among the registers from `first` on."""
        # The caller's v8-v15 come last.
        free = [*range(16, 32), *range(15, first - 1, -1)]
        require(self.kernel, first + rows * self.nv)
        return free[: rows * self.nv]

    def _chunks_of_a(self) -> list[tuple[int, int]]:
        """Loads that make up a column of A whose rows are neighbours: first row, bytes."""
        chunks, row = [], 0
        for size in (16, 8, 4, 2):
            while (self.mr - row) * self.v.size >= size:
                chunks.append((row, size))
                row += size // self.v.size
        return chunks

    def acc(self, m: int, j: int) -> int:
        """Register of vector `j` of row `m` of C."""
        register: int = self.accumulators[m * self.nv + j]
        return register

    @property
    def sums(self) -> list[int]:
        """Registers of the rows of C that are stored."""
        return self.accumulators[: self.mr * self.nv]

    def field(self, name: str) -> str:
        """Memory operand of an argument."""
        return f"[x0, #{self.arguments.offset(name)}]"

    def flag(self, name: str, target: str) -> None:
        """Jump to `target` unless the flag is set."""
        self.w(f"ldr x8, {self.field('flags')}")
        self.w(f"tbz x8, #{FLAGS[name].bit_length() - 1}, .L{target}")

    def strides_of(self, matrix: str) -> None:
        """x1: its first row; x2: from row to row; x3: from vector to vector."""
        w = self.w
        w(f"ldr x1, {self.field(matrix)}")
        w(f"ldr x2, {self.field(f'{matrix}_rs')}")
        w(f"ldr x3, {self.field(f'{matrix}_vs')}")

    def whole_rows(self, action: Callable[[int, int, str], None]) -> None:
        """Run `action(m, j, address)` row by row; :meth:`strides_of` was emitted."""
        w, apart = self.w, _VECTORS_APART[: self.nv - 1]
        for j, x in enumerate(apart[1:], 2):
            w(f"lsl {x}, x3, #1" if j == 2 else f"add {x}, {apart[j - 2]}, x3")
        vectors = ("[x1]", *(f"[x1, {x}]" for x in apart))
        for m in range(self.mr):
            for j in range(self.nv):
                action(m, j, vectors[j])
            if m + 1 < self.mr:
                w("add x1, x1, x2")

    def columns(
        self, name: str, whole: Callable[[int], None], partial: Callable[[int], None]
    ) -> None:
        """Run over the vectors of a row: whole ones, and the one that n ends in.

        x6 is n; of the partial vector, x14 is the number of its lanes.
        """
        w, lanes = self.w, self.v.lanes
        w(f"ldr x6, {self.field('n')}")
        for j in range(self.nv):
            w(f"cmp x6, #{(j + 1) * lanes}")
            w(f"b.lt .L{name}_partial_{j}")
            whole(j)
            if j + 1 < self.nv:
                w(f"cmp x6, #{(j + 1) * lanes}")
                w(f"b.eq .L{name}_done")
        w(f"b .L{name}_done")
        for j in range(self.nv):
            w.label(f"{name}_partial_{j}")
            w(f"sub x14, x6, #{j * lanes}")
            partial(j)
            if j + 1 < self.nv:
                w(f"b .L{name}_done")
        w.label(f"{name}_done")

    def column_address(self, j: int) -> None:
        """x7: vector `j` of the first row; :meth:`strides_of` was emitted."""
        w, before = self.w, "x1"
        for bit in range(j.bit_length() - 1, -1, -1):
            if j >> bit & 1:
                w(f"add x7, {before}, x3" + f", lsl #{bit}" * (bit > 0))
                before = "x7"
        if j == 0:
            w("mov x7, x1")

    def whole_column(self, j: int, action: Callable[[int, int, str], None]) -> None:
        """Run `action(m, j, address)` down the rows of one vector."""
        self.column_address(j)
        for m in range(self.mr):
            action(m, j, "[x7]")
            if m + 1 < self.mr:
                self.w("add x7, x7, x2")

    def lanes_of_column(self, name: str, j: int, *, store: bool) -> None:
        """Move the lanes of the partial vector of each row to the scratch column, or from it."""
        w = self.w
        self.column_address(j)
        w("mov x8, sp")
        w(f"mov x16, #{self.mr}")
        w.label(f"{name}_lanes_{j}")
        w("mov x17, x7")
        if store:
            w("ldr q0, [x8], #16")
            self.partial.store(0, "x17", "x14")
        else:
            self.partial.load(0, "x17", "x14")
            w("str q0, [x8], #16")
        w("add x7, x7, x2")
        w("subs x16, x16, #1")
        w(f"b.ne .L{name}_lanes_{j}")

    def start(self) -> None:
        """Zero the accumulators, or load them from C."""
        w = self.w
        self.flag("ACCUMULATE", "zero")
        self.start_from_c()
        w("b .Lstarted")
        w.label("zero")
        self.zero()
        self.fetch_c()
        w.label("started")

    def fetch_c(self) -> None:
        """Prefetch the first and the last vector of each row of C, if sums do not start from C."""
        w = self.w
        self.strides_of("c")
        if self.nv > 1:
            w(f"mov x4, #{self.nv - 1}")
            w("mul x4, x4, x3")
        for m in range(self.mr):
            w("prfm pstl1keep, [x1]")
            if self.nv > 1:
                w("prfm pstl1keep, [x1, x4]")
            if m + 1 < self.mr:
                w("add x1, x1, x2")

    def start_from_c(self) -> None:
        """Load the accumulators."""
        w = self.w
        self.strides_of("c")
        w(f"ldr x6, {self.field('n')}")
        w(f"cmp x6, #{self.kernel.nr}")
        w("b.ne .Lload_some")
        self.whole_rows(self.load)
        w("b .Lload_done")
        w.label("load_some")
        # Vectors beyond n are computed but not stored; they start from zero.
        self.zero()

        def partial(j: int) -> None:
            self.lanes_of_column("load", j, store=False)
            if self.shifts:
                self.rotation(back=False)
            for m in range(self.mr):
                w(f"ldr q{self.acc(m, j)}, [sp, #{16 * m}]")
            if self.shifts:
                self.rotate(j)

        self.columns("load", lambda j: self.whole_column(j, self.load), partial)

    def load(self, m: int, j: int, address: str) -> None:
        """Load a vector of C."""
        self.w(f"ldr q{self.acc(m, j)}, {address}")

    def zero(self) -> None:
        """Start from zero."""
        for r in self.accumulators:
            self.w(f"movi v{r}.2d, #0")

    def rotation(self, *, back: bool) -> None:
        """v1: index of the lanes of the partial vector of a row; x14 is the number of its lanes.

        B that may not be read beyond n is read in a vector that ends at n: the columns of the sum
        are shifted up by the number of lanes that the vector lacks.
        """
        w, v = self.w, self.v
        w(f"mov x17, #{v.lanes}")
        w("sub x17, x17, x14")
        w(f"lsl x17, x17, #{v.size.bit_length() - 1}")
        w(f"ldr x8, {self.field('flags')}")
        w(f"tst x8, #{FLAGS['B_PADDED']}")
        w("csel x17, x17, xzr, eq")
        w(f"cmp x6, #{v.lanes}")
        w("csel x17, x17, xzr, ge")
        for lane, bits in enumerate(_IOTA):
            w.integer("x8", bits)
            w(f"mov v1.d[{lane}], x8")
        w("dup v2.16b, w17")
        w(f"{'add' if back else 'sub'} v1.16b, v1.16b, v2.16b")

    def rotate(self, j: int) -> None:
        """Move the lanes of vector `j` of every row as v1 says."""
        for m in range(self.mr):
            a = self.acc(m, j)
            self.w(f"tbl v{a}.16b, {{v{a}.16b}}, v1.16b")

    def epilogue(self) -> None:
        """Bias, residual, clip, and the one store. A's and B's registers are free by now."""
        if self.shifts:
            self.put_straight()
        # Sums of integers get their epilogue in `requantize`.
        if self.floating:
            self.bias_row()
            self.bias_column()
            self.residual()
            self.clip()
        self.strides_of("c")
        self.by_vector("store", self.store, store=True)

    def put_straight(self) -> None:
        """Move the columns of a vector of B that ended at n to their places."""
        w = self.w
        w(f"ldr x6, {self.field('n')}")
        w(f"cmp x6, #{self.kernel.nr}")
        w("b.eq .Lin_place")
        # Only the partial vector is rotated; whole ones are in place.
        for j in range(self.nv):
            w(f"subs x14, x6, #{j * self.v.lanes}")
            w("b.le .Lin_place")
            w(f"cmp x14, #{self.v.lanes}")
            w(f"b.ge .Lin_place_{j}")
            self.rotation(back=True)
            self.rotate(j)
            w("b .Lin_place")
            w.label(f"in_place_{j}")
        w.label("in_place")

    def by_vector(self, name: str, action: Callable[[int, int, str], None], *, store: bool) -> None:
        """Run `action` over the tile, whole or not; :meth:`strides_of` was emitted."""
        w = self.w
        w(f"ldr x6, {self.field('n')}")
        w(f"cmp x6, #{self.kernel.nr}")
        w(f"b.ne .L{name}_some")
        self.whole_rows(action)
        w(f"b .L{name}_done")
        w.label(f"{name}_some")

        def partial(j: int) -> None:
            if not store:
                self.lanes_of_column(name, j, store=False)
            for m in range(self.mr):
                action(m, j, f"[sp, #{16 * m}]")
            if store:
                self.lanes_of_column(name, j, store=True)

        self.columns(name, lambda j: self.whole_column(j, action), partial)

    def bias_row(self) -> None:
        """Add a number to each row."""
        w, v = self.w, self.v
        self.flag("BIAS_ROW", "no_bias_row")
        w(f"ldr x1, {self.field('bias')}")
        for m in range(self.mr):
            t = m % self.b[0]
            w(f"ld1r {{{v.all(t)}}}, [x1], #{v.size}")
            for j in range(self.nv):
                a = v.all(self.acc(m, j))
                w(f"fadd {a}, {a}, {v.all(t)}")
        w.label("no_bias_row")

    def bias_column(self) -> None:
        """Add a number to each column."""
        w, v = self.w, self.v
        self.flag("BIAS_COLUMN", "no_bias_column")
        w(f"ldr x1, {self.field('bias')}")

        def add(j: int) -> None:
            for m in range(self.mr):
                a = v.all(self.acc(m, j))
                w(f"fadd {a}, {a}, {v.all(0)}")

        def whole(j: int) -> None:
            w(f"ldr q0, [x1, #{16 * j}]")
            add(j)

        def partial(j: int) -> None:
            w(f"add x7, x1, #{16 * j}")
            self.partial.load(0, "x7", "x14")
            add(j)

        self.columns("bias", whole, partial)
        w.label("no_bias_column")

    def residual(self) -> None:
        """Add the residual."""
        w, v = self.w, self.v
        self.flag("RESIDUAL", "no_residual")
        self.strides_of("residual")

        def add(m: int, j: int, address: str) -> None:
            a, t = self.acc(m, j), (m * self.nv + j) % self.b[0]
            w(f"ldr q{t}, {address}")
            w(f"fadd {v.all(a)}, {v.all(a)}, {v.all(t)}")

        self.by_vector("residual", add, store=False)
        w.label("no_residual")

    def clip(self) -> None:
        """Select by comparison: NaN passes, and so does a zero's sign, which maxima lose.

        A bound that is infinite is skipped, as no number lies beyond it.
        """
        w, v = self.w, self.v
        self.flag("CLIP", "no_clip")
        w(f"ldr x1, {self.field('clip')}")
        infinity = {2: 0x7C00, 4: 0x7F800000, 8: 0x7FF << 52}[v.size]
        sign = 1 << (8 * v.size - 1)
        register = "x" if v.size == 8 else "w"
        load = "ldrh" if v.size == 2 else "ldr"
        for name, index, bits in (("low", 0, infinity | sign), ("high", 1, infinity)):
            w(f"{load} {register}8, [x1, #{index * v.size}]")
            w.integer(f"{register}16", bits)
            w(f"cmp {register}8, {register}16")
            w(f"b.eq .Lno_{name}")
            w(f"dup {v.all(0)}, {register}8")
            others = self.b[-1]
            for index, a in enumerate(self.accumulators):
                t = 1 + index % others
                first, second = (0, a) if name == "low" else (a, 0)
                w(f"fcmgt {v.all(t)}, {v.all(first)}, {v.all(second)}")
                w(f"bit v{a}.16b, v0.16b, v{t}.16b")
            w.label(f"no_{name}")
        w.label("no_clip")

    def store(self, m: int, j: int, address: str) -> None:
        """Store a vector of C."""
        self.w(f"str q{self.acc(m, j)}, {address}")

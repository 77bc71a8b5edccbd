"""GEMM on AArch64 by instructions that multiply matrices: SMMLA, USMMLA, BFMMLA.

One of them multiplies two rows of A by two columns of B, 64 bits of k of each side by side in a
register, and adds to two rows of two sums. So the tile is summed in blocks of 2x2, and its rows
are put together before the epilogue: of two rows, a vector of C is the halves of two blocks.
An odd last row is paired with a spare row, whose A is zero and which is never stored.

For a step, the operand that fills fewer registers, A or B, stays in registers; the other passes
through the remaining ones. A pair of rows of A is one load where rows are neighbours (a packed
panel). Where the elements of a row are neighbours (channels-last pixels), it is two loads, of two
groups of k each, and an instruction that combines a half of each. That instruction takes a slot
from the products, so wide tiles are better there than high ones.

B that may not be read beyond n is read column by column, and its last column is repeated in place
of missing ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from asm.aarch64.gemm_steps import Steps
from asm.aarch64.near_elements import NearElements
from asm.aarch64.products import BY_MATRIX
from asm.contract import FLAGS
from asm.fitting import require

# Loads a pair of rows or of columns into a register.
Load = Callable[[int, int], None]
NEAR_K, CLAMPED = 0, 1  # how A and B are read: bits of x15
_LINE = 64  # bytes of a line of the cache
_GROUP = 8  # bytes of k of a row or column that go together


class MatrixSteps(Steps):
    """Registers and steps of a sum in blocks of 2x2; :mod:`asm.aarch64.gemm` has the rest."""

    shifts = False

    def arrange_registers(self) -> None:
        """Share the registers out: the smaller of A and B has as many as it fills."""
        self.pairs = -(-self.mr // 2)
        rows, pairs_of_columns = 2 * self.pairs, 2 * self.nv
        free = 31 - rows * self.nv
        self.holds_a = self.pairs < pairs_of_columns
        held = min(self.pairs, pairs_of_columns)
        passing = min(max(self.pairs, pairs_of_columns), free - held)
        require(self.kernel, rows * self.nv + 1 + held + max(passing, 1))
        sizes = (held, passing) if self.holds_a else (passing, held)
        self.a = list(range(sizes[0]))
        self.b = list(range(sizes[0], sum(sizes)))
        self.others = [sum(sizes)]
        self.accumulators = self.registers_of_c(rows, sum(sizes) + 1)
        self.chunks = []
        self.near = NearElements(self.mr, 1, (), (), ())

    def start_from_c(self) -> None:
        """Load the rows of C, and take their blocks."""
        super().start_from_c()
        for j in range(self.nv) if self.mr % 2 else ():
            self.w(f"movi v{self.acc(self.mr, j)}.2d, #0")
        self.exchange()

    def exchange(self) -> None:
        """Turn vectors of two rows into blocks, or blocks into vectors of two rows."""
        w = self.w
        for pair in range(self.pairs):
            for j in range(self.nv):
                x, y = self.acc(2 * pair, j), self.acc(2 * pair + 1, j)
                t = (pair * self.nv + j) % (self.b[-1] + 1)
                w(f"zip1 v{t}.2d, v{x}.2d, v{y}.2d")
                w(f"zip2 v{y}.2d, v{x}.2d, v{y}.2d")
                w(f"mov v{x}.16b, v{t}.16b")

    def strides(self) -> None:
        """Load the strides of the whole sum, and choose how A and B are read."""
        w = self.w
        self.depth()
        w(f"ldr x3, {self.field('b_ks')}")
        w(f"ldr x6, {self.field('b_ahead')}")
        w(f"ldr x8, {self.field('a_rs')}")
        w(f"cmp x8, #{_GROUP}")
        w("cset x15, ne")
        w(f"ldr x8, {self.field('flags')}")
        w(f"tbnz x8, #{FLAGS['B_PADDED'].bit_length() - 1}, .Lstrides_known")
        w(f"ldr x8, {self.field('n')}")
        w(f"cmp x8, #{self.kernel.nr}")
        w("cset x8, ne")
        w(f"orr x15, x15, x8, lsl #{CLAMPED}")
        w.label("strides_known")

    def segment(self) -> None:
        """Run over the groups of k; x7 is the segment's offset in A."""
        w = self.w
        w(f"tbnz x15, #{NEAR_K}, .Lpoint_to_rows")
        w(f"ldr x1, {self.field('a')}")
        w("add x1, x1, x7")
        w(f"ldr x4, {self.field('a_ks')}")
        self.loops("rows", [self.pair_of_panel] * 2, self.pair_of_panel)
        w.label("point_to_rows")
        self.point_to_rows()
        self.loops("k", [self.first_of_rows, self.second_of_rows], self.pair_of_rows)

    def loops(self, name: str, turn: Sequence[Load], single: Load) -> None:
        """Two groups a turn and the last one alone; or one by one, where B lacks columns."""
        w = self.w
        w("mov x5, x14")
        w("cbz x5, .Lsegment_done")
        w(f"tbnz x15, #{CLAMPED}, .L{name}_some")
        w("lsr x5, x14, #1")
        w(f"cbz x5, .L{name}_last")
        w(".p2align 5")
        w.label(f"{name}_loop")
        for load in turn:
            self.step(load, self.columns_of_b)
        if name == "k":
            for row in self.rows:
                w(f"add {row}, {row}, #{2 * _GROUP}")
        w("subs x5, x5, #1")
        w(f"b.ne .L{name}_loop")
        w("tbz x14, #0, .Lsegment_done")
        w.label(f"{name}_last")
        self.step(single, self.columns_of_b)
        w("b .Lsegment_done")
        w.label(f"{name}_some")
        self.step(single, self.clamped_columns)
        w("subs x5, x5, #1")
        w(f"b.ne .L{name}_some")
        w("b .Lsegment_done")

    def step(self, load_of_a: Load, load_of_b: Load) -> None:
        """Multiply a group of k: pairs of rows by pairs of columns."""
        self.begin_row_of_b(clamped=load_of_b == self.clamped_columns)
        held, passing = (load_of_a, self.a), (load_of_b, self.b)
        if not self.holds_a:
            held, passing = passing, held
        count = 2 * self.nv if self.holds_a else self.pairs
        for index, r in enumerate(held[1]):
            held[0](index, r)
        load, registers = passing
        for index in range(min(len(registers), count)):
            load(index, registers[index])
        for index in range(count):
            r = registers[index % len(registers)]
            for other, h in enumerate(held[1]):
                if self.holds_a:
                    self.product_of(other, index, h, r)
                else:
                    self.product_of(index, other, r, h)
            if index + len(registers) < count:
                load(index + len(registers), r)
        self.w("add x2, x2, x3")
        if load_of_a == self.pair_of_panel:
            self.w("add x1, x1, x4")

    def product_of(self, pair: int, q: int, a: int, b: int) -> None:
        """Add a pair of rows times a pair of columns to their block."""
        mnemonic, lanes = BY_MATRIX[self.kernel.dtype]
        block = self.acc(2 * pair + q % 2, q // 2)
        self.w(f"{mnemonic} v{block}.4s, v{a}.{lanes}, v{b}.{lanes}")

    def begin_row_of_b(self, *, clamped: bool) -> None:
        """Prefetch a row of B further on; x8 and x7: its first and its last column, if asked."""
        w = self.w
        row = self.kernel.nr * _GROUP
        if row <= _LINE:
            w("prfm pldl1keep, [x2, x6]")
        else:
            w("add x8, x2, x6")
            for line in range(0, row, _LINE):
                w(f"prfm pldl1keep, [x8, #{line}]" if line else "prfm pldl1keep, [x8]")
        if clamped:
            w(f"ldr x7, {self.field('n')}")
            w("sub x7, x7, #1")
            w("add x7, x2, x7, lsl #3")
            w("mov x8, x2")

    def columns_of_b(self, q: int, register: int) -> None:
        """Load a pair of columns."""
        self.w(f"ldur q{register}, [x2, #{2 * _GROUP * q}]")

    def clamped_columns(self, q: int, register: int) -> None:
        """Load a pair of columns, with the last column in place of missing ones."""
        w = self.w
        for half, load in enumerate((f"ldr d{register}", f"ld1 {{v{register}.d}}[1]")):
            w(f"{load}, [x8]")
            if q + half < 2 * self.nv:
                w(f"add x8, x8, #{_GROUP}")
                w("cmp x8, x7")
                w("csel x8, x8, x7, le")

    def pair_of_panel(self, pair: int, register: int) -> None:
        """Load a pair of rows that are neighbours; the spare row is zero."""
        letter = "d" if 2 * pair + 1 == self.mr else "q"
        self.w(f"ldur {letter}{register}, [x1, #{2 * _GROUP * pair}]")

    def pair_of_rows(self, pair: int, register: int) -> None:
        """Load a group of each of two rows, and go on to the next; the spare row is zero."""
        self.w(f"ldr d{register}, [{self.rows[2 * pair]}], #{_GROUP}")
        if 2 * pair + 1 < self.mr:
            self.w(f"ld1 {{v{register}.d}}[1], [{self.rows[2 * pair + 1]}], #{_GROUP}")

    def first_of_rows(self, pair: int, register: int) -> None:
        """Load the first group of a turn of each of two rows."""
        self._half_of_rows(0, pair, register)

    def second_of_rows(self, pair: int, register: int) -> None:
        """Load the second group of a turn of each of two rows."""
        self._half_of_rows(1, pair, register)

    def _half_of_rows(self, half: int, pair: int, register: int) -> None:
        """Load whole vectors, and put a half of each together; the spare row is zero."""
        w = self.w
        if 2 * pair + 1 == self.mr:
            w(f"ldur d{register}, [{self.rows[2 * pair]}, #{half * _GROUP}]")
            return
        t = self.others[0]
        w(f"ldur q{register}, [{self.rows[2 * pair]}, #0]")
        w(f"ldur q{t}, [{self.rows[2 * pair + 1]}, #0]")
        w(f"zip{half + 1} v{register}.2d, v{register}.2d, v{t}.2d")

    def sum_contract(self) -> list[str]:
        """Describe the registers that only the sum uses."""
        spare = self.accumulators[len(self.sums) :]
        lines = [f"{', '.join(f'v{r}' for r in spare)} a spare row of C"] if spare else []
        for name, registers, what, held in (
            ("A", self.a, "pairs of rows", self.holds_a),
            ("B", self.b, "pairs of columns", not self.holds_a),
        ):
            how = f"{what}, a group of k of each" + (", all of a step" if held else "")
            lines.append(f"v{registers[0]}-v{registers[-1]} {name}: {how}")
        return [
            *lines,
            f"v{self.others[0]} the second row of a pair, where elements of a row are neighbours",
            "before the sum, and until it ends, rows of C go in pairs of blocks of 2x2",
            f"x1 A, x4 a_ks where rows are neighbours, else {', '.join(self.rows)} rows of A",
            "x2 B, x3 b_ks, x6 b_ahead, x7 and x8 columns of B",
        ]

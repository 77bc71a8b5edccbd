"""The steps of a GEMM's sum on AArch64: the loads and products of one k.

Three forms, by how A and B lie: rows of A are neighbours, elements of a row of A are neighbours, or
B has less than a vector. The first has a variant for cores that take instructions in order.

Loads of the loops are LDURs, a single micro-op everywhere: LDR with a scaled offset is two on
Neoverse-N1, and LD1 of several registers takes its slots together or not at all
(``benchmarks/ANALYSIS.md``).
"""

from __future__ import annotations

from collections.abc import Sequence

from asm.aarch64.emit import Writer, chunk_letter
from asm.aarch64.gemm_tile import CALLEE_SAVED, Tile
from asm.aarch64.half_chains import CHAIN
from asm.aarch64.products import PERMUTED, by_element, multiply
from asm.fitting import require
from asm.registry import Kernel

OFFSETS = ("x11", "x12", "x13")  # of the vectors of B after the first
_LINE = 64  # bytes of a line of the cache


def spread(w: Writer, rows: Sequence[str], apart: str) -> None:
    """Point to rows by a short chain of additions from the first, `apart` bytes from row to row."""
    for m in range(1, len(rows)):
        shift = min(m.bit_length() - 1, 4)
        w(f"add {rows[m]}, {rows[m - (1 << shift)]}, {apart}, lsl #{shift}")


class Steps(Tile):
    """Registers of the sum, and the steps that :mod:`asm.aarch64.gemm` puts into loops."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.product = by_element(kernel.dtype, self.v)
        require(kernel, self.nv - 1, len(OFFSETS), "general registers of vectors of B")
        offsets = OFFSETS[: self.nv - 1]
        self.b_places = ["[x2]", *(f"[x2, {x}]" for x in offsets)]
        # Pointers to rows of A, where its elements are neighbours.
        free = ("x1", "x4", "x16", "x17", *(x for x in OFFSETS if x not in offsets))
        # Sums in half precision count the terms of a chain in one of them.
        counter = {CHAIN} if kernel.dtype == "f16" else set()
        pointers = [x for x in (*free, *CALLEE_SAVED) if x not in counter]
        require(kernel, self.mr, len(pointers), "general registers that point to rows of A")
        self.rows = pointers[: self.mr]
        self.saved = [x for x in CALLEE_SAVED if x in self.rows]
        self.other_a = self.second_column() if kernel.tuning == "inorder" else []
        self.saved_vectors += [r for r in self.other_a if r >= 8 and r not in self.saved_vectors]
        # Small tiles have few FMLAs a step, so their turns have more steps: less loop overhead.
        few = self.mr * self.nv <= 16
        self.unroll = 4 if few else 2
        every_row = len(self.near.held) == self.mr
        self.k_unroll = max(self.v.lanes, 4) if every_row and not few else 8
        # Rows of B of the steps that the loop over neighbouring elements takes together.
        in_all = [*self.b, *self.near.more_b]
        self.rows_of_b = [in_all[i : i + self.nv] for i in range(0, len(in_all), self.nv)]

    def second_column(self) -> list[int]:
        """Registers for another column of A; none if there are too few."""
        taken = {*self.a, *self.b, *self.accumulators}
        free = [r for r in range(16) if r not in taken][: len(self.chunks)]
        return free if len(free) == len(self.chunks) else []

    def depth(self) -> None:
        """x14: groups of k in a segment."""
        w = self.w
        w(f"ldr x14, {self.field('k')}")
        if (kr := self.kernel.kr) > 1:
            w(f"add x14, x14, #{kr - 1}")
            w(f"lsr x14, x14, #{kr.bit_length() - 1}")

    def point_to_rows(self) -> None:
        """Point to each row of the segment's A."""
        w = self.w
        w(f"ldr x8, {self.field('a')}")
        w(f"add {self.rows[0]}, x8, x7")
        w(f"ldr x8, {self.field('a_rs')}")
        spread(w, self.rows, "x8")

    def row_of_b(self) -> None:
        """Load a whole row of B, and go on to the next."""
        w = self.w
        w("prfm pldl1keep, [x2, x6]")
        for j in range(self.nv):
            w(self.load_of_b(j))
        w("add x2, x2, x3")
        self.permute(self.b)

    def vectors_of_b(self) -> None:
        """Load a row of B vector by vector, as the last may overlap, and go on to the next."""
        w = self.w
        for r, place in zip(self.b, self.b_places, strict=True):
            w(f"ldr q{r}, {place}")
        w("prfm pldl1keep, [x2, x6]")
        w("add x2, x2, x3")
        self.permute(self.b)

    def permutation_of_b(self) -> None:
        """Load the permutation of the bytes of vectors of B, if there is one."""
        w = self.w
        for r in self.others:
            low, high = PERMUTED[self.kernel.dtype]
            w.integer("x8", low)
            w(f"fmov d{r}, x8")
            w.integer("x8", high)
            w(f"mov v{r}.d[1], x8")

    def permute(self, registers: Sequence[int]) -> None:
        """Put vectors of B in the order in which they multiply."""
        for index in self.others:
            for r in registers:
                self.w(f"tbl v{r}.16b, {{v{r}.16b}}, v{index}.16b")

    def column_of_a(self) -> None:
        """Load a column of A whose rows are neighbours, and go on to the next."""
        for line in self.loads_of_a(self.a):
            self.w(line)
        self.w("add x1, x1, x4")

    def element_of_column(self, m: int, registers: list[int] | None = None) -> tuple[int, int]:
        """Row `m` of a column of A in `registers`; by default, of :meth:`column_of_a`."""
        index = max(i for i, (row, _) in enumerate(self.chunks) if row <= m)
        return (registers or self.a)[index], m - self.chunks[index][0]

    def row_of_c(
        self, m: int, element: tuple[int, int], row_of_b: Sequence[int] | None = None
    ) -> None:
        """Add an element of A (its register and lane) times a row of B to row `m`."""
        for part in self.product:
            for j, r in enumerate(row_of_b or self.b):
                self.w(multiply(part, self.acc(m, j), r, element))

    def rows_turn(self) -> None:
        """Several steps where rows of A are neighbours."""
        for _ in range(self.unroll):
            self.column_of_a()
            self.row_of_b()
            for m in range(self.mr):
                self.row_of_c(m, self.element_of_column(m))

    def rows_step(self) -> None:
        """One step where rows of A are neighbours."""
        self.column_of_a()
        self.vectors_of_b()
        for m in range(self.mr):
            self.row_of_c(m, self.element_of_column(m))

    def k_turn(self) -> None:
        """Several steps where the elements of a row of A are neighbours."""
        groups = self.near.groups
        for first in range(0, self.k_unroll, self.near.together):
            for step, registers in enumerate(self.rows_of_b):
                self.packed_row_of_b(first + step, registers)
            self.elements_of(groups[0], first)
            for group, following in zip(groups, [*groups[1:], range(0)], strict=True):
                self.elements_of(following, first)
                for step, registers in enumerate(self.rows_of_b):
                    for m in group:
                        self.row_of_c(m, self.near_element(m, first + step), registers)
        for row in self.rows:
            self.w(f"add {row}, {row}, #{self.k_unroll * self.v.size}")

    def packed_row_of_b(self, step: int, registers: Sequence[int]) -> None:
        """Load a whole row of B and go on to the next.

        B is packed where A's elements are neighbours, so several rows of less than a cache line
        share a line, which is prefetched once.
        """
        w = self.w
        if step % max(_LINE // (self.nv * self.v.bytes), 1) == 0:
            w("prfm pldl1keep, [x2, x6]")
        for j, r in enumerate(registers):
            w(self.load_of_b(j, r))
        w("add x2, x2, x3")
        self.permute(registers)

    def elements_of(self, group: range, first: int) -> None:
        """Load the elements of a group of rows from step `first` on, unless they are still held."""
        held = group.start < len(self.near.held)
        if held and first % self.v.lanes:
            return
        letter = chunk_letter(self.v.bytes if held else self.near.together * self.v.size)
        for m in group:
            r = self.near.register(m)
            self.w(f"ldur {letter}{r}, [{self.rows[m]}, #{first * self.v.size}]")

    def near_element(self, m: int, step: int) -> tuple[int, int]:
        """Element of row `m` in a step of the turn."""
        served = self.v.lanes if m < len(self.near.held) else self.near.together
        return self.near.register(m), step % served

    def k_step(self) -> None:
        """One step where the elements of a row of A are neighbours."""
        w, v = self.w, self.v
        self.vectors_of_b()
        for m, row in enumerate(self.rows):
            t = self.a[m % len(self.a)]
            w(f"ldr {v.letter}{t}, [{row}], #{v.size}")
            self.row_of_c(m, (t, 0))

    def narrow_step(self) -> None:
        """One step where B has less than a vector to be read, whatever the strides of A are."""
        w, v = self.w, self.v
        w("mov x8, x2")
        self.partial.load(self.b[0], "x8", "x11")
        self.permute(self.b[:1])
        w("mov x13, x1")
        for m in range(self.mr):
            t = self.a[m % len(self.a)]
            w(f"ldr {v.letter}{t}, [x13]")
            self.row_of_c(m, (t, 0), self.b[:1])
            if m + 1 < self.mr:
                w("add x13, x13, x12")
        w("prfm pldl1keep, [x2, x6]")
        w("add x2, x2, x3")
        w("add x1, x1, x4")

    def loads_of_a(self, registers: list[int]) -> list[str]:
        """Loads of a column of A, one by one."""
        return [
            f"ldur {chunk_letter(size)}{r}, [x1, #{row * self.v.size}]"
            for r, (row, size) in zip(registers, self.chunks, strict=False)
        ]

    def load_of_b(self, j: int, register: int | None = None) -> str:
        """Load of vector `j` of a whole row of B."""
        r = self.b[j] if register is None else register
        return f"ldur q{r}, [x2, #{j * self.v.bytes}]"

    def to_next_row(self) -> None:
        """Move the pointers of the pipeline."""
        self.w("add x1, x1, x4")
        self.w("add x2, x2, x3")

    def pipelined_step(self, current: list[int], following: list[int] | None) -> None:
        """One step, vector by vector of B; loads of the next one stand between its products."""
        w = self.w
        loads = self.loads_of_a(following) if following else []
        products = 0
        for j, b in enumerate(self.b):
            for m in range(self.mr):
                element = self.element_of_column(m, current)
                for part in self.product:
                    w(multiply(part, self.acc(m, j), b, element))
                products += 1
                if loads and products % 3 == 0:
                    w(loads.pop(0))
            if following:
                w(self.load_of_b(j))
        if following:
            for line in loads:
                w(line)
            w("prfm pldl1keep, [x2, x6]")
            self.to_next_row()

"""The edges of a GEMM tile on x86-64: C into registers, the epilogue, and the one store.

A row of C is a run of vectors at a stride of its own: side by side in a row-major matrix, a
block of channels apart in a blocked image. Memory between the vectors is not touched.
"""

from __future__ import annotations

from collections.abc import Callable

from asm.contract import FLAGS, GEMM, Contract
from asm.fitting import require
from asm.registry import ISAS, PRODUCTS, Kernel
from asm.writer import Writer
from asm.x86_64.emit import Vector
from asm.x86_64.lanes import Partial
from asm.x86_64.products import MULTIPLIES

# Addresses of a row's vectors, and the registers that hold multiples of their distance, rsi.
_VECTORS = (
    "[rax]",
    "[rax + rsi]",
    "[rax + rsi*2]",
    "[rax + rcx]",
    "[rax + rsi*4]",
    "[rax + r9]",
    "[rax + rcx*2]",
    "[rax + r10]",
)
_MASKS = 7  # k1 to k7: an instruction with k0 has no mask

RowAction = Callable[[int, int, str, bool], None]  # row, vector, address, tail


class Tile:
    """Registers of a tile, and the code before and after its sum.

    That code runs before the pointers of the sum are loaded, or after their last use. So it may
    change rax, rcx, rdx and rsi, and r9 and r10 where rows have more than five vectors.
    """

    arguments: Contract = GEMM
    # Least number of registers for broadcasts under way.
    broadcasts = 1

    def __init__(self, kernel: Kernel, first: int = 0, w: Writer | None = None) -> None:
        self.kernel = kernel
        self.first = first  # row of C that the tile begins with
        self.v = Vector(kernel.dtype, kernel.isa)
        self.w = w or Writer()
        self.mr = kernel.mr
        self.nv = kernel.vectors
        registers = ISAS[kernel.isa].vector_registers
        self.b = [self.mr * self.nv + j for j in range(self.loaded())]
        self.multiply = MULTIPLIES[kernel.dtype]
        # The last register holds the ones with which products are widened, if they are.
        self.ones = registers - 1
        last = self.ones if self.multiply.widen else registers
        self.temps = list(range(self.mr * self.nv + len(self.b), last))
        prefix = "{vex} " if self.multiply.twins and not self.v.masked else ""
        self.instruction = prefix + self.multiply.instruction
        # One vector of B: the broadcast goes into the FMA itself, which frees a register
        # and an instruction. With more, one broadcast feeds several FMAs.
        self.embedded = self.v.masked and self.nv == 1 and self.multiply.broadcasts
        # A product with a separate addition takes a register; the last may take the broadcast's.
        wanted = len(self.b)
        if not self.embedded:
            wanted += self.broadcasts + (bool(self.multiply.add) and self.nv > 1)
        # The two bounds of a clip need two registers, and so does a part of a vector on AVX2.
        wanted = max(wanted, 2)
        require(kernel, self.mr * self.nv + wanted + bool(self.multiply.widen))
        require(kernel, self.nv, len(_VECTORS), "addresses of vectors")
        if self.v.masked:
            require(kernel, self.nv, _MASKS - self.row_masks(), "mask registers")
        # Addresses of tail masks on AVX2; AVX-512 has registers of its own for them.
        self.masks: list[str] = []
        self.partial = Partial(self.w, self.v)

    def loaded(self) -> int:
        """Number of registers into which a row of B is loaded."""
        return self.nv

    def row_masks(self) -> int:
        """Number of mask registers that a kernel uses for other purposes than rows of C."""
        return 0

    def acc(self, m: int, j: int) -> str:
        """Register of vector `j` of row `m` of C."""
        return self.v.reg(m * self.nv + j)

    def field(self, name: str) -> str:
        """Memory operand of an argument."""
        return f"[rdi + {self.arguments.offset(name)}]"

    def flag(self, name: str, target: str) -> None:
        """Jump to `target` unless the flag is set."""
        self.w(f"test dword ptr {self.field('flags')}, {FLAGS[name]}")
        self.w(f"jz .L{target}")

    def rodata(self) -> list[str]:
        """Give the constants from which AVX2 reads its tail masks."""
        if self.v.masked:
            return []
        word = ".long" if self.v.size == 4 else ".quad"
        # The last vector may begin as many lanes behind n as the vectors before it have.
        ones, zeros = (", ".join([x] * n) for x, n in (("-1", self.v.lanes), ("0", self.kernel.nr)))
        return [
            ".section .rodata",
            ".p2align 5",
            ".Lmask_window:",
            f"    {word} {ones}",
            f"    {word} {zeros}",
            *self.partial.rodata(),
        ]

    def tail_masks(self) -> None:
        """Make the masks of the lanes within n: clamp(n - j * lanes, 0, lanes) of vector j."""
        w, v = self.w, self.v
        if not v.masked:
            self.window_masks()
            return
        if self.kernel.nr > 64:
            self.long_masks()
            return
        w("mov rax, -1")
        w(f"mov rdx, {self.field('n')}")
        w("bzhi rax, rax, rdx")
        for j in range(self.nv):
            w(f"kmovw k{j + 1}, eax")
            if j + 1 < self.nv:
                w(f"shr rax, {v.lanes}")

    def long_masks(self) -> None:
        """Make the masks one by one, for rows with more columns than a register has bits."""
        w, v = self.w, self.v
        w("xor ecx, ecx")
        w(f"mov rdx, {self.field('n')}")
        for j in range(self.nv):
            w("mov eax, -1")
            w("bzhi eax, eax, edx")
            w(f"kmovw k{j + 1}, eax")
            if j + 1 < self.nv:
                w(f"sub rdx, {v.lanes}")
                w("cmovs rdx, rcx")

    def window_masks(self) -> None:
        """Point each vector's mask register at its window of ones followed by zeros."""
        w, v = self.w, self.v
        for j, r in enumerate(self.masks):
            w(f"mov rax, {self.field('n')}")
            if j:
                w(f"sub rax, {j * v.lanes}")
            if j + 1 < self.nv:  # in the last vector, n never reaches beyond its lanes
                w(f"mov {r}, {v.lanes}")
                w(f"cmp rax, {r}")
                w(f"cmovg rax, {r}")
            w("neg rax")
            w(f"lea {r}, .Lmask_window[rip + {v.bytes}]")
            w(f"lea {r}, [{r} + rax*{v.size}]")

    def zero(self) -> None:
        """Start from zero."""
        for r in range(self.mr * self.nv):
            if r < 16:
                self.w(f"vxorps xmm{r}, xmm{r}, xmm{r}")
            else:
                self.w(f"vpxord {self.v.reg(r)}, {self.v.reg(r)}, {self.v.reg(r)}")

    def rows_of(self, matrix: str, action: RowAction) -> None:
        """Run `action(m, j, address, tail)` over the tile: whole rows, else masked ones."""
        w, name = self.w, f"{action.__name__}"
        self.first_row(matrix)
        w(f"cmp qword ptr {self.field('n')}, {self.kernel.nr}")
        w(f"jne .L{name}_tail")
        self.each_row(lambda m: self.each_vector(m, self.nv, action))
        w(f"jmp .L{name}_done")
        w.label(f"{name}_tail")
        if action == self.store and not self.v.masked:
            self.store_parts(f"{name}_done")
        else:
            self.masked_rows(action)
        w.label(f"{name}_done")

    def masked_rows(self, action: RowAction) -> None:
        """Run `action(m, j, address, tail)` over the tile, under masks whatever n is."""
        self.each_row(lambda m: self.each_vector(m, self.nv, action, tail=True))

    def first_row(self, matrix: str) -> None:
        """Point to the first row of a matrix, and load the distances of its rows and vectors."""
        w = self.w
        w(f"mov rax, {self.field(matrix)}")
        if self.mr > 1 or self.first:
            w(f"mov rdx, {self.field(f'{matrix}_rs')}")
        if self.first:
            w(f"imul rcx, rdx, {self.first}")
            w("add rax, rcx")
        if self.nv > 1:
            w(f"mov rsi, {self.field(f'{matrix}_vs')}")
        if self.nv > 3:
            w("lea rcx, [rsi + rsi*2]")
        if self.nv > 5:
            w("lea r9, [rsi + rsi*4]")
        if self.nv > 7:
            w("lea r10, [rcx + rsi*4]")

    def each_row(self, action: Callable[[int], None]) -> None:
        """Run `action(m)` for each row, of which rax is the address."""
        for m in range(self.mr):
            action(m)
            if m + 1 < self.mr:
                self.w("add rax, rdx")

    def each_vector(self, m: int, count: int, action: RowAction, *, tail: bool = False) -> None:
        """Run `action(m, j, address, tail)` for the first vectors of a row."""
        for j in range(count):
            action(m, j, _VECTORS[j], tail)

    def store_parts(self, done: str) -> None:
        """Store rows of C that end within a vector, or with one that is not the tile's last.

        The number of whole vectors and the parts of the rest are determined once a tile.
        """
        w, v, partial = self.w, self.v, self.partial
        index, *temps = [*self.b, *self.temps]
        # Rows of more than three vectors take rcx, those of more than five r9 too.
        left = "rcx" if self.nv < 4 else "r9"

        def partial_row(whole: int, part: int = 0) -> Callable[[int], None]:
            def row(m: int) -> None:
                self.each_vector(m, whole, self.store)
                if part:
                    temp = temps[m % len(temps)]
                    register, last = m * self.nv + whole, f"[rax + {left} - {part}]"
                    partial.store(part, register, index, temp, _VECTORS[whole], last)

            return row

        w(f"mov {left}, {self.field('n')}")
        w(f"shl {left}, {v.size.bit_length() - 1}")
        for whole in range(self.nv):
            if whole:
                w.label(f"store_after_{whole}")
                w(f"sub {left}, {v.bytes}")
            if whole + 1 < self.nv:
                w(f"cmp {left}, {v.bytes}")
                w(f"jge .Lstore_after_{whole + 1}")
            for part in partial.parts:
                # A row has at least one column: without any other part, it is the smallest part.
                certain = part == v.size and not whole
                if not certain:
                    w(f"cmp {left}, {part}")
                    w(f"jl .Lstore_less_{whole}_{part}")
                partial.pick(part, index, left, "rdi")
                if whole and part > v.size:
                    for scale in (1, 2, 4):
                        if whole & scale:
                            w(f"lea {left}, [{left} + rsi*{scale}]")
                self.each_row(partial_row(whole, part))
                if not certain:
                    w(f"jmp .L{done}")
                    w.label(f"store_less_{whole}_{part}")
            if whole:
                self.each_row(partial_row(whole))
            if whole + 1 < self.nv:
                w(f"jmp .L{done}")

    def masked_load(self, target: str, address: str, j: int) -> None:
        """Load the lanes of vector `j` that are within n, zero the others."""
        w, v = self.w, self.v
        if v.masked:
            w(f"vmovu{v.suffix} {target}{{k{j + 1}}}{{z}}, {address}")
        else:
            w(f"vmovups {target}, [{self.masks[j]}]")
            w(f"vmaskmov{v.suffix} {target}, {target}, {address}")

    def load(self, m: int, j: int, address: str, tail: bool) -> None:
        """Load a vector of C."""
        if tail:
            self.masked_load(self.acc(m, j), address, j)
        else:
            self.w(f"vmovu{self.v.suffix} {self.acc(m, j)}, {address}")

    def epilogue(self) -> None:
        """Bias, residual, clip, and the one store. B's registers are free by now.

        Sums of integers are only stored: `requantize` does the rest.
        """
        if PRODUCTS[self.kernel.dtype].sum != "s32":
            self.finish()
        if self.kernel.rounds:
            self.of_bfloats("c", self.store_rounded, "stored")
        self.rows_of("c", self.store)
        if self.kernel.rounds:
            self.w.label("stored")

    def of_bfloats(self, matrix: str, action: RowAction, done: str) -> None:
        """Run `action` over a matrix of bfloat16, if it is one, and go to `done`.

        Whole rows have no code of their own: masks cost these short vectors nothing, and the code
        would be twice as long.
        """
        w, name = self.w, f"{action.__name__}"
        self.flag("STORE_BF16", f"no_{name}")
        self.first_row(matrix)
        self.masked_rows(action)
        w(f"jmp .L{done}")
        w.label(f"no_{name}")

    def finish(self) -> None:
        """Bias, residual and clip."""
        w, v = self.w, self.v
        spare = [*self.b, *self.temps]
        self.flag("BIAS_ROW", "no_bias_row")
        w(f"mov rax, {self.field('bias')}")
        for m in range(self.mr):
            t = v.reg(spare[m % len(spare)])
            w(f"{v.broadcast} {t}, [rax + {(self.first + m) * v.size}]")
            for j in range(self.nv):
                w(f"vadd{v.suffix} {self.acc(m, j)}, {self.acc(m, j)}, {t}")
        w.label("no_bias_row")
        self.flag("BIAS_COLUMN", "no_bias_column")
        w(f"mov rax, {self.field('bias')}")
        for j in range(self.nv):
            t = v.reg(self.b[j % len(self.b)])
            # A masked load serves the whole row too, and this is not the inner loop.
            self.masked_load(t, f"[rax + {j * v.bytes}]", j)
            for m in range(self.mr):
                w(f"vadd{v.suffix} {self.acc(m, j)}, {self.acc(m, j)}, {t}")
        w.label("no_bias_column")
        self.flag("RESIDUAL", "no_residual")
        if self.kernel.rounds:
            self.of_bfloats("residual", self.add_widened, "no_residual")
        self.rows_of("residual", self.add_residual)
        w.label("no_residual")
        self.flag("CLIP", "no_clip")
        w(f"mov rax, {self.field('clip')}")
        lo, hi = (v.reg(r) for r in spare[:2])
        w(f"{v.broadcast} {lo}, [rax]")
        w(f"{v.broadcast} {hi}, [rax + {v.size}]")
        for m in range(self.mr):
            for j in range(self.nv):
                # The second source is returned when either is NaN: NaN passes through.
                w(f"vmax{v.suffix} {self.acc(m, j)}, {lo}, {self.acc(m, j)}")
                w(f"vmin{v.suffix} {self.acc(m, j)}, {hi}, {self.acc(m, j)}")
        w.label("no_clip")

    def add_residual(self, m: int, j: int, address: str, tail: bool) -> None:
        """Add a vector of the residual."""
        w, v, a = self.w, self.v, self.acc(m, j)
        if not tail:
            w(f"vadd{v.suffix} {a}, {a}, {address}")
        elif v.masked:
            w(f"vadd{v.suffix} {a}{{k{j + 1}}}, {a}, {address}")
        else:
            t = v.reg(self.b[j % len(self.b)])
            self.masked_load(t, address, j)
            w(f"vadd{v.suffix} {a}, {a}, {t}")

    def add_widened(self, m: int, j: int, address: str, _tail: bool) -> None:
        """Add a vector of a residual of bfloat16."""
        w, a, spare = self.w, self.acc(m, j), [*self.b, *self.temps]
        t = self.v.reg(spare[(m * self.nv + j) % len(spare)])
        w(f"vpmovzxwd {t}{{k{j + 1}}}{{z}}, {address}")
        w(f"vpslld {t}, {t}, 16")
        w(f"vaddps {a}, {a}, {t}")

    def store_rounded(self, m: int, j: int, address: str, _tail: bool) -> None:
        """Round a vector of C to bfloat16, and store it."""
        half = self.acc(m, j).replace("zmm", "ymm")
        self.w(f"vcvtneps2bf16 {half}, {self.acc(m, j)}")
        self.w(f"vmovdqu16 {address}{{k{j + 1}}}, {half}")

    def store(self, m: int, j: int, address: str, tail: bool) -> None:
        """Store a vector of C; on AVX2, `store_parts` stores the tail."""
        mask = f"{{k{j + 1}}}" if tail else ""
        self.w(f"vmovu{self.v.suffix} {address}{mask}, {self.acc(m, j)}")

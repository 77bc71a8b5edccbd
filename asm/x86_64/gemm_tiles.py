"""GEMM microkernels for AMX: sums in tile registers, of 16 rows and 16 columns each.

C[MR, NR] lies in up to two by two tiles, and stays there for the whole sum. A step of 16 groups of
k (64 bytes of a row) loads one tile for each 16 rows of A and one for each 16 columns of B, and
multiplies each with each: two by two tiles are four products for four loads, so the loads are
hidden behind the products. A product takes a cycle for each row of A in the tile configuration, so
the time is proportional to MR. A lies in rows, packed or as the pixels of an image with channels
last: the hardware takes rows at any stride, and groups of a row side by side (``a_ks`` is one
group, 4 bytes). B is a panel [k / kr][nr][kr], whose rows lie ``b_ks`` apart.

The sum may be made of segments, as in ``gemm.py``. Nothing beyond the groups of a segment is read.
If they are fewer than 16, the tiles are configured for so many: rows of A are shorter, and B has
fewer rows. So A and B are loaded from where they lie. Integers wrap, so sums of them may be cut
anywhere: they have steps of fewer groups if these are equal, and at most one more than steps of 16
would be (24 groups are two steps of 12). Otherwise steps have 16 groups, and those that remain at
the end of a segment are copied to the stack under masks, with zeros behind them, and the tiles are
loaded from there. All steps are copied this way where B is not padded to whole vectors and n ends
within one.

The tile configuration gives the rows and the row bytes of each tile. It depends on MR and on the
groups of a step, and these two make its number: the kernel loads its configuration if ``*tiles``
has another number, and stores its own number there. So kernels of a task with the same MR and step
configure once, even if their types differ; ``release_tiles`` gives the tiles back.

Order of sums: integers wrap, so it does not matter. Of bfloat16, TDPBF16PS multiplies the even and
the odd k of one step apart, two chains of fused multiply-adds in ascending k that begin with zero;
adds the two; and adds that to C. Each of these is rounded to nearest even, takes subnormal numbers
as zeros and gives zeros for them, whatever MXCSR says. Steps begin where segments begin, so the
bits depend neither on the tile nor on the team. They do not depend on how k is cut into blocks,
either: zeros behind a last step can only turn a negative zero of its sum into a positive one, which
shows if C is a negative zero, too. C is none where it begins with zero and has one step; so sums
that are loaded always have steps of 16 groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from asm.contract import FLAGS, GEMM
from asm.fitting import require
from asm.registry import GEMM_TILES, PRODUCTS, Kernel
from asm.writer import Marked, Writer
from asm.x86_64.emit import frame
from asm.x86_64.gemm_tile import Tile

ROWS = 16  # of a tile
ROW_BYTES = 64
TILE_BYTES = ROWS * ROW_BYTES

_PRODUCTS = {"u8t": "tdpbusd", "s8t": "tdpbssd", "bf16t": "tdpbf16ps"}
_A = ("tmm4", "tmm7")
_B = ("tmm5", "tmm6")
_A_POINTERS = ("r8", "r9")
# Four tiles on the stack: C between tiles and rows, or A and then B of a step of fewer groups.
_BUFFER_BYTES = 4 * TILE_BYTES
_B_BUFFER = 2 * TILE_BYTES
# Behind them a line: the configuration, and once that is loaded, the groups to copy of a segment.
_LINE = f"rsp + {_BUFFER_BYTES}"
_SAVED = ("rbx", "r12", "r13", "r14", "r15")
# Where a configuration has bytes in a row and rows of the registers.
_WIDTHS, _HEIGHTS = 16, 48
# The number of a configuration: the groups of a step times this, and MR.
STEP_NUMBER = 256
_EPILOGUE = FLAGS["BIAS_ROW"] | FLAGS["BIAS_COLUMN"] | FLAGS["RESIDUAL"] | FLAGS["CLIP"]


class _GemmTiles:
    """Emits one kernel; the methods follow the order of the code."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.w = kernel, Writer()
        self.mr, self.nv = kernel.mr, kernel.vectors
        self.tile_rows = -(-self.mr // ROWS)
        require(kernel, self.tile_rows, len(_A), "tile registers of A")
        require(kernel, self.nv, len(_B), "tile registers of B")
        self.product = _PRODUCTS[kernel.dtype]
        self.floats = PRODUCTS[kernel.dtype].sum == "f32"

    def acc(self, i: int, j: int) -> str:
        """Tile of C in tile row `i` and tile column `j`."""
        return f"tmm{2 * i + j}"

    def tiles(self) -> list[tuple[int, int]]:
        """Tile rows and columns of C."""
        return [(i, j) for i in range(self.tile_rows) for j in range(self.nv)]

    def field(self, name: str) -> str:
        """Memory operand of an argument."""
        return f"[rdi + {GEMM.offset(name)}]"

    def generate(self) -> str:
        w = self.w
        w("push rbp")
        w("mov rbp, rsp")
        for name in _SAVED:
            w(f"push {name}")
        w(f"sub rsp, {_BUFFER_BYTES + ROW_BYTES}")
        w(f"and rsp, -{ROW_BYTES}")
        self.divide()
        self.configure()
        self.masks()
        self.start()
        self.sum()
        self.finish()
        w("vzeroupper")
        for i, name in enumerate(_SAVED, 1):
            w(f"mov {name}, [rbp - {8 * i}]")
        w("mov rsp, rbp")
        w("pop rbp")
        w("ret")
        return frame(self.kernel, self.contract(), w.lines, self.rodata())

    def contract(self) -> list[str]:
        k = self.kernel
        return [
            f"{k.symbol}: {GEMM.summary}.",
            f"struct {GEMM.struct} * in rdi; every pointer may be unaligned; a_ks is 4: A lies in",
            "rows. k = 0 gives the epilogue of zero. Reads and writes nothing outside the segments",
            "and, of each segment, A[MR, k] and B[k, n] (B[k, NR] with B_PADDED), k in whole",
            f"groups of {k.kr}; C[MR, n], residual[MR, n], bias, clip and tiles. Leaves its tiles",
            "loaded.",
            "",
            f"{', '.join(self.acc(*at) for at in self.tiles())} C, row by row",
            f"{', '.join(_A[: self.tile_rows])} A, {', '.join(_B[: self.nv])} B",
            f"{', '.join(_A_POINTERS[: self.tile_rows])} A, 16 rows apart; r10 a_rs",
            "rsi B, rdx b_ks",
            "rcx groups to copy, rax steps, r11 next segment, rbx segments left, r12 copies",
            "r13 groups of a step, r14 steps of a segment that are not copied, r15 a step of B",
            "k1-k2 columns of C, k3-k4 of B, k5 groups of A; rsp four tiles of memory, and a line",
        ]

    def rodata(self) -> list[str]:
        """Give the configuration: palette 1, then bytes in a row and rows of each register."""
        rows = [0] * 16
        for i in range(self.tile_rows):
            count = min(ROWS, self.mr - ROWS * i)
            for name in (_A[i], self.acc(i, 0), self.acc(i, 1)):
                rows[int(name[3:])] = count
        for name in _B:
            rows[int(name[3:])] = ROWS
        return [
            ".section .rodata",
            ".p2align 6",
            ".Lconfiguration:",
            f"    .byte {', '.join(['1'] + ['0'] * 15)}",
            f"    .short {', '.join(str(ROW_BYTES if count else 0) for count in rows)}",
            f"    .byte {', '.join(map(str, rows))}",
        ]

    def divide(self) -> None:
        """Divide a segment: r13 groups in each of r14 steps, then rcx groups that are copied."""
        w, kr = self.w, self.kernel.kr
        w(f"mov rcx, {self.field('k')}")
        w(f"add rcx, {kr - 1}")
        w(f"shr rcx, {kr.bit_length() - 1}")
        w(f"mov r13d, {ROWS}")
        if self.floats:
            w("lea rax, [rcx - 1]")
            w(f"cmp rax, {ROWS - 1}")
            w("jae .Lsteps")
            w(f"test dword ptr {self.field('flags')}, {FLAGS['ACCUMULATE']}")
            w("jnz .Lsteps")
            w("mov rax, rcx")
            w("mov r14d, 1")
        else:
            w(f"test ecx, {ROWS - 1}")
            w("jz .Lsteps")
            # The fewest steps, or one more, if that divides the groups.
            w(f"lea r14, [rcx + {ROWS - 1}]")
            w("shr r14, 4")
            for attempt in range(2):
                w("mov rax, rcx")
                w("xor edx, edx")
                w("div r14")
                w("test rdx, rdx")
                w(("jz .Lequal", "jnz .Lsteps")[attempt])
                if attempt == 0:
                    w("inc r14")
            w.label("equal")
        w("mov r13, rax")
        w("xor ecx, ecx")
        w("jmp .Ldivided")
        w.label("steps")
        w("mov r14, rcx")
        w("shr r14, 4")
        w(f"and ecx, {ROWS - 1}")
        w.label("divided")

    def configure(self) -> None:
        """Load the configuration unless it is there already; put the groups to copy in its place.

        Bytes of a row of A and rows of B are those of the constant only in steps of 16 groups.
        """
        w = self.w
        w(f"mov rax, {self.field('tiles')}")
        w(f"imul rdx, r13, {STEP_NUMBER}")
        w(f"add rdx, {self.mr}")
        w("cmp [rax], rdx")
        w("je .Lconfigured")
        w("mov [rax], rdx")
        w("vmovups zmm0, .Lconfiguration[rip]")
        w(f"vmovaps [{_LINE}], zmm0")
        w("lea eax, [r13*4]")
        for name in _A[: self.tile_rows]:
            w(f"mov word ptr [{_LINE} + {_WIDTHS + 2 * int(name[3:])}], ax")
        for name in _B:
            w(f"mov byte ptr [{_LINE} + {_HEIGHTS + int(name[3:])}], r13b")
        w(f"ldtilecfg [{_LINE}]")
        w.label("configured")
        w(f"mov [{_LINE}], rcx")

    def masks(self) -> None:
        """Make masks of the columns within n (k1, k2) and of the readable columns of B (k3, k4)."""
        w = self.w
        w("mov rax, -1")
        w(f"mov rdx, {self.field('n')}")
        w("bzhi rdx, rax, rdx")
        w(f"test dword ptr {self.field('flags')}, {FLAGS['B_PADDED']}")
        w("cmovz rax, rdx")
        for j in range(self.nv):
            w(f"kmovw k{j + 1}, edx")
            w(f"kmovw k{j + 3}, eax")
            if j + 1 < self.nv:
                w(f"shr rdx, {ROWS}")
                w(f"shr rax, {ROWS}")

    def start(self) -> None:
        """Zero the tiles of C, or load them."""
        w = self.w
        w(f"test dword ptr {self.field('flags')}, {FLAGS['ACCUMULATE']}")
        w("jz .Lzero")
        w(f"cmp qword ptr {self.field('n')}, {self.kernel.nr}")
        w("jne .Lload_parts")
        self.whole_tiles("tileloadd {tile}, {address}")
        w("jmp .Lstarted")
        w.label("load_parts")
        for block in self.blocks("start"):
            block.rows_of("c", block.load)
            self.spill(block, "vmovaps {memory}, {register}")
        self.buffered_tiles("tileloadd {tile}, {address}", range(self.tile_rows))
        w("jmp .Lstarted")
        w.label("zero")
        for at in self.tiles():
            w(f"tilezero {self.acc(*at)}")
        w.label("started")

    def whole_tiles(self, instruction: str) -> None:
        """Run `instruction` for each tile of C and its place, where C has all its columns."""
        w = self.w
        w(f"mov rax, {self.field('c')}")
        w(f"mov rdx, {self.field('c_rs')}")
        if self.nv > 1:
            w(f"mov rsi, {self.field('c_vs')}")
            w("add rsi, rax")
        if self.tile_rows > 1:
            w("mov rcx, rdx")
            w("shl rcx, 4")
        for i, j in self.tiles():
            pointer = ("rax", "rsi")[j]
            w(instruction.format(tile=self.acc(i, j), address=f"[{pointer} + rdx*1]"))
            if i + 1 < self.tile_rows:
                w(f"add {pointer}, rcx")

    def buffered_tiles(self, instruction: str, tile_rows: Iterable[int]) -> None:
        """Run `instruction` for each tile of C in these rows and its place on the stack."""
        self.w(f"mov eax, {ROW_BYTES}")
        for i, j in itertools.product(tile_rows, range(self.nv)):
            address = f"[rsp + rax*1 + {(2 * i + j) * TILE_BYTES}]"
            self.w(instruction.format(tile=self.acc(i, j), address=address))

    def blocks(self, mark: str) -> list[Tile]:
        """Split the rows of each tile row into as many tiles of vector registers as they need."""
        largest, found = GEMM_TILES["avx512", self.nv], []
        ends = [0]
        for top in range(0, self.mr, ROWS):
            height = min(ROWS, self.mr - top)
            count = -(-height // largest)
            ends += [top + height * (i + 1) // count for i in range(count)]
        for first, end in itertools.pairwise(ends):
            rows = Kernel("gemm", "f32", "avx512", end - first, self.kernel.nr, 1)
            found.append(Tile(rows, first, Marked(self.w.lines, f"{mark}_{first}")))
        return found

    def spill(self, block: Tile, instruction: str) -> None:
        """Run `instruction` for each vector of a block and its place on the stack."""
        for m in range(block.mr):
            for j in range(self.nv):
                i, row = divmod(block.first + m, ROWS)
                offset = (2 * i + j) * TILE_BYTES + row * ROW_BYTES
                self.w(instruction.format(register=block.acc(m, j), memory=f"[rsp + {offset}]"))

    def sum(self) -> None:
        """Run over the segments; without any, A and B are the only one."""
        w = self.w
        w(f"mov r10, {self.field('a_rs')}")
        w(f"mov rdx, {self.field('b_ks')}")
        w("mov r15, rdx")
        w("imul r15, r13")
        w(f"cmp qword ptr {self.field('n')}, {self.kernel.nr}")
        w("je .Lreadable")
        w(f"test dword ptr {self.field('flags')}, {FLAGS['B_PADDED']}")
        w("jnz .Lreadable")
        # All steps are copied.
        w("imul r14, r13")
        w(f"add [{_LINE}], r14")
        w("xor r14d, r14d")
        w.label("readable")
        w(f"mov r8, {self.field('a')}")
        w(f"mov rsi, {self.field('b')}")
        w(f"mov r11, {self.field('segments')}")
        w(f"mov rbx, {self.field('segment_count')}")
        w("test rbx, rbx")
        w("jz .Lsegment")
        w.label("next_segment")
        w(f"mov r8, {self.field('a')}")
        w(f"mov rsi, {self.field('b')}")
        w("add r8, [r11]")
        w("add rsi, [r11 + 8]")
        w("add r11, 16")
        w.label("segment")
        if self.tile_rows > 1:
            w("mov r9, r10")
            w("shl r9, 4")
            w("add r9, r8")
        self.steps()
        self.parts()
        w.label("segment_done")
        w("dec rbx")
        w("jg .Lnext_segment")

    def steps(self) -> None:
        """Steps from where A and B lie."""
        w = self.w
        w("mov rax, r14")
        w("test rax, rax")
        w("jz .Lparts")
        w(".p2align 5")
        w.label("step")
        b = [f"[rsi + rdx*1 + {j * ROW_BYTES}]" for j in range(self.nv)]
        self.multiply([f"[{pointer} + r10*1]" for pointer in _A_POINTERS], b)
        w("add rsi, r15")
        self.next_step(self.tile_rows)
        w("dec rax")
        w("jnz .Lstep")

    def next_step(self, pointers: int) -> None:
        """Move the pointers to A."""
        for pointer in _A_POINTERS[:pointers]:
            self.w(f"lea {pointer}, [{pointer} + r13*4]")

    def multiply(self, a: list[str], b: list[str]) -> None:
        """Load a tile of each, and multiply each with each; loads stand just before their use."""
        w = self.w
        for i in range(self.tile_rows):
            w(f"tileloadd {_A[i]}, {a[i]}")
            for j in range(self.nv):
                if i == 0:
                    w(f"tileloadd {_B[j]}, {b[j]}")
                w(f"{self.product} {self.acc(i, j)}, {_A[i]}, {_B[j]}")

    def parts(self) -> None:
        """Copy and multiply the groups of a segment whose rows may not be read whole."""
        w = self.w
        w.label("parts")
        w(f"mov rcx, [{_LINE}]")
        w("test rcx, rcx")
        w("jz .Lsegment_done")
        w.label("part")
        w("mov rax, r13")
        w("cmp rcx, rax")
        w("cmovb rax, rcx")
        w("sub rcx, rax")
        w("mov r12, -1")
        w("bzhi r12, r12, rax")
        w("kmovw k5, r12d")
        self.copy_a()
        self.copy_b()
        w(f"mov eax, {ROW_BYTES}")
        a = [f"[rsp + rax*1 + {i * TILE_BYTES}]" for i in range(self.tile_rows)]
        b = [f"[rsp + rax*1 + {_B_BUFFER + j * TILE_BYTES}]" for j in range(self.nv)]
        self.multiply(a, b)
        self.next_step(1)
        w("test rcx, rcx")
        w("jnz .Lpart")

    def copy_a(self) -> None:
        """Copy the groups in k5 of all rows of A, the last row first; r9 has no other use here."""
        w = self.w
        w(f"imul r12, r10, {self.mr - 1}")
        w("add r12, r8")
        w(f"mov r9d, {self.mr * ROW_BYTES}")
        w.label("copy_a")
        w("vmovups zmm0{k5}{z}, [r12]")
        w(f"vmovaps [rsp + r9*1 - {ROW_BYTES}], zmm0")
        w("sub r12, r10")
        w(f"sub r9, {ROW_BYTES}")
        w("jnz .Lcopy_a")

    def copy_b(self) -> None:
        """Copy rax rows of B; of floats with zeros behind them: zeros of A times NaN are NaN."""
        w = self.w
        w(f"lea r12, [rsp + {_B_BUFFER}]")
        w.label("copy")
        for j in range(self.nv):
            w(f"vmovups zmm{j}{{k{j + 3}}}{{z}}, [rsi + {j * ROW_BYTES}]")
            w(f"vmovaps [r12 + {j * TILE_BYTES}], zmm{j}")
        w("add rsi, rdx")
        w(f"add r12, {ROW_BYTES}")
        w("dec rax")
        w("jnz .Lcopy")
        if not self.floats:
            return
        w("vpxord zmm0, zmm0, zmm0")
        w(f"lea rax, [rsp + {_B_BUFFER + TILE_BYTES}]")
        w.label("clear")
        w("cmp r12, rax")
        w("je .Lcopied")
        for j in range(self.nv):
            w(f"vmovaps [r12 + {j * TILE_BYTES}], zmm0")
        w(f"add r12, {ROW_BYTES}")
        w("jmp .Lclear")
        w.label("copied")

    def finish(self) -> None:
        """Store the tiles where C lies, or by way of vector registers."""
        w = self.w
        if self.floats:
            w(f"test dword ptr {self.field('flags')}, {_EPILOGUE}")
            w("jnz .Lstore_rows")
        w(f"cmp qword ptr {self.field('n')}, {self.kernel.nr}")
        w("jne .Lstore_rows")
        self.whole_tiles("tilestored {address}, {tile}")
        w("jmp .Ldone")
        w.label("store_rows")
        # The rows of a tile are stored before the next tile row is complete.
        blocks = self.blocks("end")
        for i in range(self.tile_rows):
            self.buffered_tiles("tilestored {address}, {tile}", [i])
            for block in blocks:
                if block.first // ROWS != i:
                    continue
                self.spill(block, "vmovaps {register}, {memory}")
                if self.floats:
                    block.epilogue()
                else:
                    block.rows_of("c", block.store)
        w.label("done")


def generate(kernel: Kernel) -> str:
    """Assembly text of the GEMM microkernel that `kernel` describes."""
    return _GemmTiles(kernel).generate()

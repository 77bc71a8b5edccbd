"""GEMM microkernels for 32-bit Arm, every tile from one description.

The tile C[MR, NR] lives in registers for the whole sum. Each step of k loads one row of B (NR
elements, in vectors), and each element of a column of A into every lane of a register, which
multiplies the row. VFMA cannot take one lane of a register here, as FMLA can on AArch64. VMLA can,
but rounds twice. The sum is a chain of FMAs in every assembly kernel of this project, so it is made
of VFMA. The load that fills all lanes costs no arithmetic instruction, unlike VDUP, and it steps to
the next row of A by a register, so that one loop serves both layouts of A: neighbouring rows, and
rows whose elements are neighbours.

B that may not be read beyond n (the last columns of a plane) has a loop of its own, which reads in
pieces the vector that n ends in.

The sum may be made of segments, each with a place of its own in A and B (the batch-reduce form of
libxsmm and of oneDNN): the taps of a k x k convolution are segments of the image as it lies.

Each element of C is one chain of FMAs in ascending k, segment after segment, that starts from zero
(or from what C holds), so the bits do not depend on the tile: see "The same bits for any team" in
``docs/architecture.md``. Advanced SIMD flushes subnormal numbers to zero whatever FPSCR says, as
the loops ask every CPU to do.
"""

from __future__ import annotations

from asm.aarch32.emit import frame
from asm.aarch32.gemm_tile import Tile
from asm.aarch32.half_chains import HalfChains
from asm.contract import FLAGS, GEMM
from asm.registry import Kernel

UNROLL = 4
# How B is read: a bit of r11 that no flag uses.
_PARTIAL = 1 << 8


class _Gemm(Tile):
    """Emits one kernel; the methods follow the order of the code."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.chains = (
            HalfChains(self.w, self.accumulators, self.field("segment_count"), self.field("k"))
            if kernel.dtype == "f16"
            else None
        )

    def generate(self) -> str:
        w = self.w
        w("push {r3-r11, lr}")  # r3 keeps the stack aligned
        saved = [f"d{2 * r + part}" for r in self.saved_vectors for part in (0, 1)]
        if saved:
            w(f"vpush {{{', '.join(saved)}}}")
        w(f"ldr r10, {self.field('n')}")
        w(f"ldr r11, {self.field('flags')}")
        self.zero()
        self.flag("ACCUMULATE", "fetch")
        self.start_from_c()
        w("b .Lstarted")
        w.label("fetch")
        self.fetch_c()
        w.label("started")
        if self.chains:
            self.chains.begin()
        self.sum()
        if self.chains:
            self.chains.end()
        self.epilogue()
        if saved:
            w(f"vpop {{{', '.join(saved)}}}")
        w("pop {r3-r11, pc}")
        return frame(self.kernel, self.contract(), w.lines)

    def contract(self) -> list[str]:
        k = self.kernel
        return [
            f"{k.symbol}: {GEMM.summary}.",
            f"struct {GEMM.struct} * in r0; every pointer may be unaligned; k = 0 gives the",
            "epilogue of zero. Reads and writes nothing outside the segments and, of each segment,",
            "A[MR, k] and B[k, n] (B[k, NR] with B_PADDED), C[MR, n], residual[MR, n], bias and",
            "clip; prefetches C and the rows of B that lie b_ahead further on.",
            "",
            f"{', '.join(f'q{r}' for r in self.accumulators)} C, row by row, {self.nv} a row",
            f"{', '.join(f'q{r}' for r in self.b)} B",
            f"{', '.join(f'q{r}' for r in self.a)} A, an element in every lane",
            "r1 A, r2 a_rs, r3 from the row after the last to the next column of A",
            "r4 B, r5 to the next row of B, r6 b_ahead, r7 steps, r8 segments, r9 segments left",
            "r10 n, r11 flags; r12 and lr are scratch",
            *(self.chains.contract() if self.chains else ()),
        ]

    def fetch_c(self) -> None:
        """Prefetch the first and the last vector of each row of C, if sums do not start from C."""
        w = self.w
        self.strides_of("c")
        w(f"mov r12, #{self.nv - 1}")
        w("mul r3, r3, r12")
        for m in range(self.mr):
            w("pld [r1]")
            if self.nv > 1:
                w("pld [r1, r3]")
            if m + 1 < self.mr:
                w("add r1, r1, r2")

    def sum(self) -> None:
        """Run over the segments; without any, A and B are the only one."""
        w = self.w
        w(f"ldr r12, {self.field('k')}")
        w("cmp r12, #0")
        w("beq .Lsummed")
        w(f"ldr r2, {self.field('a_rs')}")
        w(f"ldr r3, {self.field('a_ks')}")
        w(f"mov r12, #{self.mr}")
        w("mls r3, r2, r12, r3")
        w(f"ldr r5, {self.field('b_ks')}")
        w(f"ldr r6, {self.field('b_ahead')}")
        w(f"ldr r8, {self.field('segments')}")
        w(f"ldr r9, {self.field('segment_count')}")
        self.choose_loop()
        w(f"ldr r1, {self.field('a')}")
        w(f"ldr r4, {self.field('b')}")
        w("cmp r9, #0")
        w("beq .Lsegment")
        w.label("next_segment")
        w("ldr r12, [r8], #8")
        w("ldr lr, [r8], #8")
        w(f"ldr r1, {self.field('a')}")
        w(f"ldr r4, {self.field('b')}")
        w("add r1, r1, r12")
        w("add r4, r4, lr")
        w.label("segment")
        if self.chains:
            self.chains.piece()
        else:
            w(f"ldr r7, {self.field('k')}")
        w(f"tst r11, #{_PARTIAL}")
        w("bne .Lpartial_loop")
        self.steps()
        w("b .Lsegment_done")
        w.label("partial_loop")
        self.partial_step()
        w("subs r7, r7, #1")
        w("bne .Lpartial_loop")
        w.label("segment_done")
        if self.chains:
            self.chains.next_piece()
        w("subs r9, r9, #1")
        w("bgt .Lnext_segment")
        w.label("summed")

    def choose_loop(self) -> None:
        """Choose how B is read, and set r5 to the remaining distance to the next row."""
        w = self.w
        w(f"cmp r10, #{self.kernel.nr}")
        w("beq .Lwhole_rows")
        w(f"tst r11, #{FLAGS['B_PADDED']}")
        w("bne .Lwhole_rows")
        w(f"orr r11, r11, #{_PARTIAL}")
        # Lanes that are not loaded hold zero.
        for r in self.b:
            w(f"vmov.i32 q{r}, #0")
        w("b .Lchosen")
        w.label("whole_rows")
        if self.nv > 2:
            w("sub r5, r5, #32")
        w.label("chosen")

    def steps(self) -> None:
        """Run r7 steps of k, several a turn."""
        w = self.w
        w(f"subs r7, r7, #{UNROLL}")
        w("blt .Lrest")
        w(".p2align 5")
        w.label("k_loop")
        for _ in range(UNROLL):
            self.step()
        w(f"subs r7, r7, #{UNROLL}")
        w("bge .Lk_loop")
        w.label("rest")
        w(f"adds r7, r7, #{UNROLL}")
        w("beq .Lsegment_done")
        w.label("one")
        self.step()
        w("subs r7, r7, #1")
        w("bne .Lone")

    def step(self) -> None:
        """Multiply a column of A by a row of B; one load brings two vectors at most."""
        w, v = self.w, self.v
        w("pld [r4, r6]")
        first, last = self.b[:2], self.b[2:]
        if last:
            w(f"vld1{v.whole(*first)}, [r4]!")
        w(f"vld1{v.whole(*(last or first))}, [r4], r5")
        self.products()

    def products(self) -> None:
        """Load the elements of a column of A ahead of the products that take them."""
        w, v = self.w, self.v

        def load(m: int) -> None:
            if m < self.mr:
                w(f"vld1{v.every_lane(self.a[m % len(self.a)])}, [r1], r2")

        for m in range(len(self.a)):
            load(m)
        for m in range(self.mr):
            for j, b in enumerate(self.b):
                w(f"vfma.{v.type} q{self.acc(m, j)}, q{b}, q{self.a[m % len(self.a)]}")
            load(m + len(self.a))
        w("add r1, r1, r3")

    def partial_step(self) -> None:
        """Do the same with a row of B of which n elements may be read."""
        w = self.w
        w("mov lr, r4")
        self.columns(
            "row",
            lambda j: w(f"vld1{self.v.whole(self.b[j])}, [lr]!"),
            lambda j: self.load_part(self.b[j], "lr", "r12"),
        )
        w("add r4, r4, r5")
        self.products()


def generate(kernel: Kernel) -> str:
    """Assembly text of the GEMM microkernel that `kernel` describes."""
    return _Gemm(kernel).generate()

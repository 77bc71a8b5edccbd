"""GEMM microkernels for AArch64, every tile from one description.

The tile C[MR, NR] lives in registers for the whole sum. Each step of k loads one row of B (NR
elements, in vectors) and multiplies it by each element of a column of A: FMLA takes one lane of a
register for all of its products, so nothing is broadcast. How a column of A gets into registers
depends on which of its two strides is one element:

- Rows are neighbours (a packed panel, planes of an image): a few whole vectors hold the column.
- The elements of a row are neighbours (channels-last pixels, so 1x1 convolution needs no packing):
  a vector of a row serves as many steps as it has lanes, if there are registers
  (:mod:`asm.aarch64.near_elements`).

Cores that take instructions in order (Cortex-A55) have a variant of the first loop, whose loads
stand between the products of the step before: ``inorder`` in the symbol, the same bits.

Either loop takes little more than its FMLAs (``benchmarks/ANALYSIS.md``).

B that may not be read beyond n (the last columns of a plane) is read in vectors that end at n; the
tile's columns are shifted before the sum and back after it. Less than one vector is loaded in
chunks.

The sum may be made of segments, each with a place of its own in A and B (the batch-reduce form of
libxsmm and of oneDNN): the taps of a k x k convolution are segments of the image as it lies.

Each element of C is one chain of FMLAs in ascending k, segment after segment, that starts from zero
(or from what C holds), so the bits do not depend on the tile: see "The same bits for any team" in
``docs/architecture.md``.

The tile shapes follow the register-allocation arithmetic of the OpenPPL Arm Server slides
(MR * NR + NR + temporaries <= registers).
"""

from __future__ import annotations

from collections.abc import Callable

from asm.aarch64.emit import frame
from asm.aarch64.gemm_matrix import MatrixSteps
from asm.aarch64.gemm_steps import OFFSETS, Steps
from asm.aarch64.half_chains import CHAIN, HalfChains
from asm.aarch64.products import BY_MATRIX
from asm.aarch64.row_ends import ENDS_AT_N, NARROW, row_ends
from asm.aarch64.stack_frame import StackFrame
from asm.contract import GEMM
from asm.registry import Kernel

# How A is read: a bit of x15.
_NEAR_K = 0
Step = Callable[[], None]


class _Gemm(Steps):
    """Emits one kernel; the methods follow the order of the code."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.chains: HalfChains | None = None
        if kernel.dtype == "f16":
            self.saved.append(CHAIN)
            self.chains = HalfChains(self.w, self.accumulators)
        totals = self.chains.bytes if self.chains else 0
        self.stack = StackFrame(self.w, self.mr, self.saved_vectors, self.saved, totals)
        if self.chains:
            self.chains.totals_at = self.stack.more_at

    def generate(self) -> str:
        w = self.w
        self.stack.enter()
        self.start()
        self.strides()
        if self.chains:
            self.chains.begin(self.field("segment_count"))
        self.sum()
        if self.chains:
            self.chains.end()
        self.epilogue()
        self.stack.leave()
        w("ret")
        return frame(self.kernel, self.contract(), w.lines)

    def contract(self) -> list[str]:
        k = self.kernel
        return [
            f"{k.symbol}: {GEMM.summary}.",
            f"struct {GEMM.struct} * in x0; every pointer may be unaligned; k = 0 gives the",
            "epilogue of zero. Reads and writes nothing outside the segments and, of each segment,",
            "A[MR, k] and B[k, n] (B[k, NR] with B_PADDED), C[MR, n], residual[MR, n], bias and",
            "clip; prefetches C and the rows of B that lie b_ahead further on.",
            "",
            f"{', '.join(f'v{r}' for r in self.sums)} C, row by row, {self.nv} a row",
            *self.sum_contract(),
            "x5 steps or turns, x14 k, x15 how A and B are read, x9 segments, x10 segments left",
            f"stack: {self.mr} vectors of scratch for a column that is not whole",
            *(self.chains.contract() if self.chains else ()),
        ]

    def sum_contract(self) -> list[str]:
        """Describe the registers that only the sum uses."""
        offsets = OFFSETS[: self.nv - 1]
        return [
            f"{', '.join(f'v{r}' for r in self.b)} B",
            *([f"{', '.join(f'v{r}' for r in self.other_a)} next A"] if self.other_a else []),
            *(f"v{r} where bytes of B go" for r in self.others),
            f"v{self.a[0]}-v{self.a[-1]} A: a column, {self.v.lanes} rows each",
            *self.near_contract(),
            f"x1 A, x4 a_ks where rows are neighbours, else {', '.join(self.rows)} rows of A",
            "x2 B, x3 b_ks, x6 b_ahead" + (f", {', '.join(offsets)} vectors of B" * bool(offsets)),
        ]

    def near_contract(self) -> list[str]:
        """Describe the registers of the loop where elements of a row of A are neighbours."""
        near = self.near
        lines = {
            "more B": near.more_b,
            "a row of A each": near.held,
            f"other rows of A, {near.together} elements a load": near.passing,
        }
        named = [f"{', '.join(f'v{r}' for r in of)} {what}" for what, of in lines.items() if of]
        return [f"where elements of a row of A are neighbours: {'; '.join(named)}"]

    def strides(self) -> None:
        """Load the strides of the whole sum, and choose how A and B are read."""
        w, v = self.w, self.v
        self.permutation_of_b()
        self.depth()
        w(f"ldr x3, {self.field('b_ks')}")
        w(f"ldr x6, {self.field('b_ahead')}")
        row_ends(self, OFFSETS[: self.nv - 1], v.size, "strides_known")
        w(f"ldr x8, {self.field('a_rs')}")
        w(f"cmp x8, #{self.group_bytes}")
        w("cset x8, ne")
        w(f"orr x15, x15, x8, lsl #{_NEAR_K}")
        w.label("strides_known")

    def sum(self) -> None:
        """Run over the segments; without any, A and B are the only one."""
        w = self.w
        w(f"ldr x9, {self.field('segments')}")
        w(f"ldr x10, {self.field('segment_count')}")
        w(f"ldr x2, {self.field('b')}")
        w("mov x7, #0")
        w("cbz x10, .Lsegment")
        w.label("next_segment")
        w("ldp x7, x8, [x9], #16")
        w(f"ldr x2, {self.field('b')}")
        w("add x2, x2, x8")
        w.label("segment")
        self.segment()
        w.label("segment_done")
        if self.chains:
            w("cbnz x7, .Lpiece")
        w("subs x10, x10, #1")
        w("b.gt .Lnext_segment")

    def segment(self) -> None:
        """Run over k: whole turns, then step by step; x7 and x8 are the segment's offsets."""
        w = self.w
        w(f"tbnz x15, #{_NEAR_K}, .Lpoint_to_rows")
        w(f"ldr x1, {self.field('a')}")
        w("add x1, x1, x7")
        w(f"ldr x4, {self.field('a_ks')}")
        w("b .Lpointed")
        w.label("point_to_rows")
        self.point_to_rows()
        w.label("pointed")
        if self.chains:
            self.chains.piece(self.field("k"))
        w(f"tbnz x15, #{_NEAR_K}, .Lk_segment")
        w(f"tbnz x15, #{NARROW}, .Lnarrow_segment")
        if self.other_a:
            self.pipeline()
        else:
            self.turns("rows", self.unroll, self.rows_turn, self.rows_step)
        w("b .Lsegment_done")
        w.label("k_segment")
        self.turns("k", self.k_unroll, self.k_turn, self.k_step)
        w("b .Lsegment_done")
        w.label("narrow_segment")
        w(f"ldr x12, {self.field('a_rs')}")
        w(f"ldr x11, {self.field('n')}")
        w("mov x5, x14")
        w("cbz x5, .Lsegment_done")
        w.label("narrow_loop")
        self.narrow_step()
        w("subs x5, x5, #1")
        w("b.ne .Lnarrow_loop")

    def turns(self, name: str, unroll: int, turn: Step, step: Step) -> None:
        """Run k steps, `unroll` of them a turn; step by step where B ends at n."""
        w = self.w
        w("mov x5, x14")
        w(f"tbnz x15, #{ENDS_AT_N}, .L{name}_steps")
        w(f"lsr x5, x14, #{unroll.bit_length() - 1}")
        w(f"cbz x5, .L{name}_rest")
        w(".p2align 5")
        w.label(f"{name}_loop")
        turn()
        w("subs x5, x5, #1")
        w(f"b.ne .L{name}_loop")
        w.label(f"{name}_rest")
        w(f"and x5, x14, #{unroll - 1}")
        w.label(f"{name}_steps")
        w("cbz x5, .Lsegment_done")
        w.label(f"{name}_one")
        step()
        w("subs x5, x5, #1")
        w(f"b.ne .L{name}_one")

    def pipeline(self) -> None:
        """Run k steps where rows of A are neighbours, on a core that takes them in order.

        Each step loads what the next one multiplies: its column of A into the other registers, a
        vector of B when its last product is under way. The last step loads nothing.
        """
        w = self.w
        w("mov x5, x14")
        w(f"tbnz x15, #{ENDS_AT_N}, .Lrows_steps")
        w("cbz x14, .Lsegment_done")
        for line in self.loads_of_a(self.a):
            w(line)
        for j in range(self.nv):
            w(self.load_of_b(j))
        self.to_next_row()
        w("sub x5, x14, #1")
        w("lsr x5, x5, #1")
        w("cbz x5, .Lrows_last")
        w(".p2align 5")
        w.label("rows_loop")
        self.pipelined_step(self.a, self.other_a)
        self.pipelined_step(self.other_a, self.a)
        w("subs x5, x5, #1")
        w("b.ne .Lrows_loop")
        w.label("rows_last")
        self.pipelined_step(self.a, None)
        w("sub x5, x14, #1")
        w("and x5, x5, #1")
        w.label("rows_steps")
        w("cbz x5, .Lsegment_done")
        w.label("rows_one")
        self.rows_step()
        w("subs x5, x5, #1")
        w("b.ne .Lrows_one")


class _MatrixGemm(MatrixSteps, _Gemm):
    """Emits one kernel that multiplies matrices."""

    def sum(self) -> None:
        """Run over the segments, then put the rows of C together."""
        super().sum()
        self.exchange()


def generate(kernel: Kernel) -> str:
    """Assembly text of the GEMM microkernel that `kernel` describes."""
    made = _MatrixGemm if kernel.dtype in BY_MATRIX else _Gemm
    return made(kernel).generate()

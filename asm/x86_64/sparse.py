"""Products with sparse weights for AVX-512 and AVX2+FMA: the common part of both orientations.

The weights of a panel of output channels are a list of terms: the distance in the input to the next
k that is not pruned, and the weights of all channels there. So a term is a step of the GEMM
microkernel whose advance in the input is read from memory: one load, a product with the distance
from k to k, and an addition, none of which competes with FMAs. The code before and after the sum is
that of a GEMM tile.

Lists are short, so a call takes several panels, one after the other: arguments, strides and masks
are loaded once. The lines of C are prefetched before the terms of its panel, as nothing else would
hide their latency.

Panels of 1x4 and so on, along output channels, are the blocks of MNN's sparse convolutions: a
vector of pixels that is loaded once serves all channels of the panel.
"""

from __future__ import annotations

from abc import abstractmethod
from textwrap import wrap

from asm.fitting import require
from asm.registry import PRODUCTS, Kernel
from asm.writer import Writer
from asm.x86_64.emit import CALLEE_SAVED, frame
from asm.x86_64.gemm_tile import Tile

# Bytes of a step and of a panel's entry in `places`.
STEP, PLACE = 4, 16

# Values that change from panel to panel lie below the stack pointer, as the epilogue takes most
# registers. The ABI keeps 128 bytes there for a function that calls nothing.
_SLOTS = {
    name: f"[rsp - {8 * (index + 1)}]"
    for index, name in enumerate(
        ("c", "residual", "bias", "places", "panels", "steps", "values", "arguments", "later")
    )
}
# Values that start from the caller's arguments, and those that only the epilogue of floats reads.
_TAKEN = ("c", "residual", "bias", "places", "panels", "steps", "values")
_OF_FLOATS = ("residual", "bias")


class Sparse(Tile):
    """Emits one kernel. rsi input, rdx x_ks, rax step, r9 terms left, r10 values."""

    steps = "rcx"
    # Registers that `tail_masks` may take on AVX2.
    free: tuple[str, ...] = ("r8", "r11", "rbx", "rbp", "r12", "r13", "r14", "r15")

    # Panels whose terms are under way at a time.
    together = 1

    def __init__(self, kernel: Kernel, w: Writer | None = None) -> None:
        super().__init__(kernel, w=w)
        free = [r for r in self.free if r not in self.taken()]
        self.masks = [] if self.v.masked else free[: self.nv]
        if not self.v.masked:
            require(kernel, self.nv, len(self.masks), "general registers of masks")
        left = [r for r in free if r not in self.masks]
        # The next row of the next panel's C to prefetch, and the number of rows left. Without
        # registers for them, C is prefetched before its terms.
        self.ahead = left[:2] if len(left) > 1 else []
        self.used = {self.steps, *self.taken(), *self.masks, *self.ahead}
        # Register of the distance at which input is prefetched, if it is.
        self.later = self.fetched_by([r for r in left if r not in self.ahead])
        if self.later:
            self.used.add(self.later)

    def taken(self) -> list[str]:
        """General registers that an orientation has of its own."""
        return []

    def fetched_by(self, free: list[str]) -> str:
        """Take one of the free registers if the input is prefetched; empty if not."""
        return ""

    @property
    @abstractmethod
    def width(self) -> int:
        """Channels of a panel."""

    @abstractmethod
    def registers(self) -> list[str]:
        """Say what registers hold, as lines of the contract."""

    def arrange(self) -> None:
        """Put sums that were loaded from C into the order that they are added up in."""

    def prepare(self) -> None:
        """Load the values that an orientation keeps for the whole call."""

    def place(self) -> None:
        """Put the input back to where k is 0."""
        self.w(f"mov rsi, {self.field('x')}")

    def move(self) -> None:
        """Advance rax bytes in the input."""
        self.w("add rsi, rax")

    def field(self, name: str) -> str:
        """Memory operand of an argument; some change from panel to panel."""
        return _SLOTS[name] if name in _SLOTS else super().field(name)

    def has(self, name: str) -> bool:
        """Whether the kernel reads an argument that moves from panel to panel."""
        return name not in _OF_FLOATS or PRODUCTS[self.kernel.dtype].sum != "s32"

    def generate(self) -> str:
        """Assembly text of the kernel."""
        saved = [r for r in CALLEE_SAVED if r in self.used]
        self.enter(saved)
        self.body()
        self.leave(saved)
        return frame(self.kernel, self.contract(), self.w.lines, self.rodata())

    def enter(self, saved: list[str]) -> None:
        """Save the caller's registers, and load the values that all panels share."""
        w = self.w
        for r in saved:
            w(f"push {r}")
        for name in _TAKEN:
            if self.has(name):
                w(f"mov rax, {super().field(name)}")
                w(f"mov {_SLOTS[name]}, rax")
        if not self.v.masked:  # stores of parts of vectors take rdi
            w(f"mov {_SLOTS['arguments']}, rdi")
        self.tail_masks()
        self.prepare()

    def leave(self, saved: list[str]) -> None:
        """Restore the caller's registers."""
        w = self.w
        w("vzeroupper")
        for r in reversed(saved):
            w(f"pop {r}")
        w("ret")

    def body(self) -> None:
        """Panel after panel, as long as there are enough to be taken together."""
        w = self.w
        w(".p2align 4")
        w.label("panel")
        self.start()
        self.sum()
        self.epilogue()
        if not self.v.masked:
            w(f"mov rdi, {self.field('arguments')}")
        self.next_panel()

    def contract(self) -> list[str]:
        """Lines of the comment that the kernel opens with."""
        k, v = self.kernel, self.v
        return [
            *wrap(f"{k.symbol}: {self.arguments.summary}.", 96),
            f"struct {self.arguments.struct} * in rdi; every pointer may be unaligned; no terms",
            "give the epilogue of zero. Reads and writes nothing outside the places, the terms,",
            "the input at each of them, C[MR, n], residual[MR, n], bias and clip; prefetches C.",
            "",
            f"{v.reg(0)}-{self.acc(self.mr - 1, self.nv - 1)} C, row by row, {self.nv} a row",
            *self.registers(),
            f"rsi input, rdx x_ks, {self.steps} steps, r10 values, r9 terms left, rax a step; "
            + ("k1-k7 tail masks" if v.masked else f"{', '.join(self.masks)} tail masks"),
        ]

    def start(self) -> None:
        """Zero the accumulators and fetch C, or load them from C."""
        w = self.w
        self.flag("ACCUMULATE", "zero")
        self.rows_of("c", self.load)
        self.arrange()
        w("jmp .Lstarted")
        w.label("zero")
        self.zero()
        if not self.ahead:
            self.rows_of("c", self.fetch)
        w.label("started")

    def fetch(self, m: int, j: int, address: str, tail: bool) -> None:
        """Prefetch a vector of C; beyond the end of C that is no fault."""
        self.w(f"prefetcht0 {address}")

    def sum(self) -> None:
        """Run over the terms of a panel."""
        w = self.w
        w(f"mov rax, {self.field('places')}")
        w(f"mov r9, [rax + {PLACE}]")
        w("sub r9, [rax]")
        self.place()
        w(f"mov rdx, {self.field('x_ks')}")
        w(f"mov {self.steps}, {self.field('steps')}")
        w(f"mov r10, {self.field('values')}")
        self.fetch_next()
        self.terms()
        w.label("terms_done")
        w(f"mov {self.field('steps')}, {self.steps}")
        w(f"mov {self.field('values')}, r10")

    def fetch_next(self) -> None:
        """Point to the next panel's C, whose rows are fetched one by one between the terms.

        Prefetches of all rows at once would delay the loads of terms.
        """
        w = self.w
        if self.ahead:
            row, left = self.ahead
            w(f"mov {row}, {self.field('c')}")
            w(f"add {row}, {self.field('c_ps')}")
            w(f"mov {left}, {self.mr}")

    def fetch_row(self, label: str) -> None:
        """Fetch a row of the next panel's C, if any is left."""
        w = self.w
        if not self.ahead:
            return
        row, left = self.ahead
        w(f"dec {left}")
        w(f"js .L{label}")
        for j in range(self.nv):
            w(f"prefetcht0 [{row} + {j * self.v.bytes}]")
        w(f"add {row}, {self.field('c_rs')}")
        w.label(label)

    def next_panel(self) -> None:
        """Go on to the next panels, if there are enough."""
        w, together = self.w, self.together
        for name in filter(self.has, ("c", "residual")):
            w(f"mov rax, {self.field(f'{name}_ps')}")
            for _ in range(together):
                w(f"add {self.field(name)}, rax")
        if self.has("bias"):
            w(f"add qword ptr {self.field('bias')}, {together * self.width * self.v.size}")
        w(f"add qword ptr {self.field('places')}, {together * PLACE}")
        w(f"sub qword ptr {self.field('panels')}, {together}")
        w(f"cmp qword ptr {self.field('panels')}, {together}")
        w("jge .Lpanel")

    @abstractmethod
    def terms(self) -> None:
        """Emit the loops over the terms, which end at ``terms_done``."""


class SparseFloats(Sparse):
    """Emits one kernel that multiplies its terms one by one, several in a turn."""

    @property
    def unroll(self) -> int:
        """Terms in a turn: more where a term has few products, for less loop overhead."""
        return 2 if self.mr * self.nv > 12 else 4

    @abstractmethod
    def term(self, index: int, *, tail: bool) -> None:
        """One term of a turn, for which the input has been moved on."""

    def terms(self) -> None:
        """Emit the loops over the terms."""
        self.loops("whole", tail=False)

    def loops(self, name: str, *, tail: bool) -> None:
        """Loops that end at ``terms_done``: turns of several terms, then one by one."""
        w = self.w
        if not tail:
            w(f"sub r9, {self.unroll}")
            w(f"jl .L{name}_few")
            w(".p2align 5")
            w.label(f"{name}_turn")
            self.fetch_row(f"{name}_fetched")
            self.turn(self.unroll, tail=tail)
            w(f"sub r9, {self.unroll}")
            w(f"jge .L{name}_turn")
            w.label(f"{name}_few")
            w(f"add r9, {self.unroll}")
        w("test r9, r9")
        w("jz .Lterms_done")
        w.label(f"{name}_one")
        self.turn(1, tail=tail)
        w("dec r9")
        w(f"jnz .L{name}_one")

    def turn(self, count: int, *, tail: bool) -> None:
        """Several terms, the pointers into them moved once."""
        w = self.w
        for index in range(count):
            w(f"movsxd rax, dword ptr [{self.steps} + {index * STEP}]")
            w("imul rax, rdx")
            self.move()
            self.term(index, tail=tail)
        w(f"add {self.steps}, {count * STEP}")
        w(f"add r10, {count * self.width * self.v.size}")

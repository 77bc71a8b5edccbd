"""Products with sparse weights on AArch64: the common part of both orientations.

The weights of a panel of output channels are a list of terms: the distance in the input to the next
k that is not pruned, and the weights of all channels there. So a term is a step of the GEMM
microkernel whose advance in the input is read from memory. Besides loads, this takes one
instruction a term: SMADDL multiplies the step by the distance from k to k and adds it, and cores
forward its addend in a cycle. Turns load the steps of several terms in pairs.

Lists are short, so a call takes several panels, one after the other, and keeps the values that they
share. Values that change from panel to panel lie on the stack, as the epilogue takes most
registers. The lines of C are prefetched before the terms of its panel.

Where the distance from k to k takes more than 32 bits, or rows may not be read beyond n, terms go
one by one, in a loop that multiplies 64 bits.

In half precision the terms are cut into chains of ``HALF_CHAIN`` terms, from the first on: see
:mod:`asm.aarch64.half_chains`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from textwrap import wrap

from asm.aarch64.emit import chunk_letter, frame
from asm.aarch64.gemm_tile import Tile
from asm.aarch64.half_chains import HalfChains
from asm.aarch64.row_ends import ENDS_AT_N, NARROW
from asm.aarch64.stack_frame import StackFrame
from asm.contract import HALF_CHAIN
from asm.registry import Kernel

# Bytes of a step and of a panel's entry in `places`.
STEP, PLACE = 4, 16
# Values that start from the caller's arguments and change from panel to panel.
_TAKEN = ("c", "residual", "bias", "places", "panels", "steps", "values")
# Registers of a turn's places in the input.
PLACES = ("x4", "x6", "x9", "x16")
VECTOR = 16
# Emits the advance to the next turn's terms.
Follow = Callable[[], None]


def nothing() -> None:
    """Emit nothing: no turn follows."""


class Sparse(Tile):
    """Emits one kernel.

    x1 input, x2 steps, x3 x_ks, x10 values, x5 groups of KR terms left in a chain, x7 groups after
    it; :data:`PLACES` hold the addresses of the terms of a turn.
    """

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.chains = HalfChains(self.w, self.accumulators) if kernel.dtype == "f16" else None
        slots = 8 * (len(_TAKEN) + len(_TAKEN) % 2)
        totals = self.chains.bytes if self.chains else 0
        self.stack = StackFrame(self.w, self.mr, self.saved_vectors, self.taken(), slots + totals)
        self.slots = {name: self.stack.more_at + 8 * i for i, name in enumerate(_TAKEN)}
        if self.chains:
            self.chains.totals_at = self.stack.more_at + slots

    @property
    def unroll(self) -> int:
        """Groups of terms in a turn: more where a term has few products, for less loop overhead."""
        terms = 2 if self.mr * self.nv > 12 else len(PLACES)
        return max(terms // self.kernel.kr, 1)

    def used(self) -> set[int]:
        """Vector registers that the kernel uses."""
        return {*self.a, *self.b, *self.accumulators}

    def taken(self) -> list[str]:
        """General registers of the caller that an orientation uses."""
        return []

    @property
    @abstractmethod
    def width(self) -> int:
        """Channels of a panel."""

    @property
    def values_bytes(self) -> int:
        """Bytes of the weights of a group of terms."""
        return self.width * self.group_bytes

    @abstractmethod
    def registers(self) -> list[str]:
        """Say what registers hold, as lines of the contract."""

    @abstractmethod
    def prepare(self) -> None:
        """Load the values that an orientation keeps for the whole call, and set x15."""

    @abstractmethod
    def place(self) -> None:
        """Put the input back to where k is 0."""

    @abstractmethod
    def turn(self, places: Sequence[str], follow: Follow) -> None:
        """Several groups of terms, whose places in the input are in registers.

        Call `follow` when all of their input is loaded.
        """

    @abstractmethod
    def single(self, places: Sequence[str]) -> None:
        """One group, of rows that may end at n."""

    def narrow(self, places: Sequence[str]) -> None:
        """One group, of rows that have less than a vector."""

    def field(self, name: str) -> str:
        """Memory operand of an argument; some change from panel to panel."""
        return f"[sp, #{self.slots[name]}]" if name in self.slots else super().field(name)

    def generate(self) -> str:
        """Assembly text of the kernel."""
        w = self.w
        self.stack.enter()
        for name in _TAKEN:
            w(f"ldr x8, {super().field(name)}")
            w(f"str x8, {self.field(name)}")
        self.prepare()
        self.fits()
        w(".p2align 4")
        w.label("panel")
        self.start()
        self.sum()
        self.epilogue()
        self.next_panel()
        self.stack.leave()
        w("ret")
        return frame(self.kernel, self.contract(), w.lines)

    def fits(self) -> None:
        """Test whether `x_ks` has at most 32 bits, so that a product of 32 by 32 bits is enough."""
        w = self.w
        w(f"ldr x3, {self.field('x_ks')}")
        w("sxtw x8, w3")
        w("cmp x8, x3")
        w("cset x8, ne")
        w(f"orr x15, x15, x8, lsl #{ENDS_AT_N}")

    def next_panel(self) -> None:
        """Go on to the next panel, if there is one."""
        w = self.w
        for name in ("c", "residual"):
            w(f"ldr x1, {self.field(name)}")
            w(f"ldr x2, {self.field(f'{name}_ps')}")
            w("add x1, x1, x2")
            w(f"str x1, {self.field(name)}")
        for name, size in (("bias", self.width * self.v.size), ("places", PLACE)):
            w(f"ldr x1, {self.field(name)}")
            w(f"add x1, x1, #{size}")
            w(f"str x1, {self.field(name)}")
        w(f"ldr x1, {self.field('panels')}")
        w("subs x1, x1, #1")
        w(f"str x1, {self.field('panels')}")
        w("b.gt .Lpanel")

    def contract(self) -> list[str]:
        """Say what the kernel does, and which register holds what."""
        k = self.kernel
        return [
            *wrap(f"{k.symbol}: {self.arguments.summary}.", 96),
            f"struct {self.arguments.struct} * in x0; every pointer may be unaligned; no terms",
            "give the epilogue of zero. Reads and writes nothing outside the places, the terms,",
            "the input at each of them, C[MR, n], residual[MR, n], bias and clip; prefetches C.",
            "",
            f"{', '.join(f'v{r}' for r in self.accumulators)} C, row by row, {self.nv} a row",
            *self.registers(),
            "x2 steps, x3 x_ks, x5 groups of terms left, x10 values, x15 how rows are read,",
            f"{', '.join(PLACES)} terms of a turn in the input",
            f"stack: {self.mr} vectors of scratch for a column that is not whole;",
            f"{', '.join(_TAKEN)}",
            *(
                [
                    f"and {len(self.accumulators)} x 8 floats, the sum of the chains that have "
                    "ended; x7 terms after",
                    "the chain under way",
                ]
                if self.chains
                else ()
            ),
        ]

    def sum(self) -> None:
        """Run over the terms of a panel."""
        w = self.w
        w(f"ldr x8, {self.field('places')}")
        w("ldr x4, [x8]")
        w(f"ldr x5, [x8, #{PLACE}]")
        w("sub x5, x5, x4")
        if self.kernel.kr > 1:
            w(f"lsr x5, x5, #{self.kernel.kr.bit_length() - 1}")
        self.place()
        w(f"ldr x2, {self.field('steps')}")
        w(f"ldr x3, {self.field('x_ks')}")
        w(f"ldr x10, {self.field('values')}")
        self.chain_by_chain()
        w(f"str x2, {self.field('steps')}")
        w(f"str x10, {self.field('values')}")
        if self.chains:
            self.chains.end()

    def chain_by_chain(self) -> None:
        """Run over x5 groups of terms, in half precision by chains."""
        w = self.w
        if not self.chains:
            self.terms("terms_done")
            w.label("terms_done")
            return
        w("mov x7, x5")
        w(f"and x15, x15, #{(1 << ENDS_AT_N) | (1 << NARROW)} // no totals")
        w(f"cmp x7, #{HALF_CHAIN}")
        w("b.le .Lchain")
        self.chains.zero_totals()
        w.label("chain")
        w(f"mov x5, #{HALF_CHAIN}")
        w("cmp x7, x5")
        w("csel x5, x7, x5, lt")
        w("sub x7, x7, x5")
        self.terms("chain_done")
        w.label("chain_done")
        w("cbz x7, .Lterms_done")
        self.chains.end_chain()
        w("b .Lchain")
        w.label("terms_done")

    def terms(self, done: str) -> None:
        """Loops over x5 groups of terms, at least none, that end at the label `done`."""
        w = self.w
        narrow = type(self).narrow is not Sparse.narrow
        w(f"cbz x5, .L{done}")
        if narrow:
            w(f"tbnz x15, #{NARROW}, .Lnarrow_one")
        w(f"tbnz x15, #{ENDS_AT_N}, .Lone")
        w(f"cmp x5, #{self.unroll}")
        w("b.lt .Lone")
        places = self.places
        self.follow_steps()
        w(f"subs x5, x5, #{2 * self.unroll}")
        w("b.lt .Llast_turn")
        w(".p2align 5")
        w.label("whole_turn")
        self.turn(places, self.follow_steps)
        w(f"subs x5, x5, #{self.unroll}")
        w("b.ge .Lwhole_turn")
        w.label("last_turn")
        self.turn(places, nothing)
        w(f"adds x5, x5, #{self.unroll}")
        w(f"b.eq .L{done}")
        self.one_by_one("one", self.single)
        if narrow:
            w(f"b .L{done}")
            self.one_by_one("narrow_one", self.narrow)

    def one_by_one(self, name: str, group: Callable[[Sequence[str]], None]) -> None:
        """Run over groups of terms, at least one."""
        w = self.w
        w.label(name)
        places = list(PLACES[: self.kernel.kr - 1])
        before = "x1"
        for place in [*places, "x1"]:
            w(f"ldrsw x8, [x2], #{STEP}")
            w(f"madd {place}, x8, x3, {before}")
            before = place
        group([*places, "x1"])
        w("subs x5, x5, #1")
        w(f"b.ne .L{name}")

    @property
    def places(self) -> list[str]:
        """Registers of the addresses of a turn's terms: :data:`PLACES`, and x1 for the last."""
        return [*PLACES[: self.unroll * self.kernel.kr - 1], "x1"]

    def follow_steps(self) -> None:
        """Go on to the terms of a turn."""
        w, places = self.w, self.places
        words = [f"w{x[1:]}" for x in PLACES[: len(places)]]
        for first in range(0, len(places), 2):
            w(f"ldp {words[first]}, {words[first + 1]}, [x2, #{first * STEP}]")
        w(f"add x2, x2, #{len(places) * STEP}")
        for word, before, place in zip(words, ["x1", *places], places, strict=False):
            w(f"smaddl {place}, {word}, w3, {before}")

    def load_values(self, registers: Sequence[int], size: int, offset: int) -> None:
        """Load `size` bytes of values, from x10 on, into as many registers as they fill."""
        for index, r in enumerate(registers[: -(-size // VECTOR)]):
            letter = chunk_letter(min(size, VECTOR))
            self.w(f"ldur {letter}{r}, [x10, #{offset + index * VECTOR}]")

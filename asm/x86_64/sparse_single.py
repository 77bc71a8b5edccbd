"""Products with sparse weights of single channels: see ``sparse_pixels.py``.

The sum of a channel is one chain of FMAs for each vector of pixels, and each FMA waits for the one
before. So channels go in pairs, each with a list of its own, and their chains run at the same time.
Further terms of the longer list follow alone, and so does the last channel of an odd number.
"""

from __future__ import annotations

from dataclasses import replace

from asm.registry import Kernel
from asm.writer import Marked
from asm.x86_64.emit import CALLEE_SAVED, frame
from asm.x86_64.sparse import PLACE, STEP
from asm.x86_64.sparse_pixels import Pixels

TURN = 2  # terms of each list


class _Pair(Pixels):
    """Two channels. Of the second r8 is the input, r11 the steps, rbx the values."""

    free = ("rbp", "r12", "r13", "r14")
    together = 2
    broadcasts = 2

    def taken(self) -> list[str]:
        """General registers of the second channel."""
        return ["r8", "r11", "rbx", "r15"]

    def loaded(self) -> int:
        """FMAs take pixels from memory."""
        return 1

    @property
    def width(self) -> int:
        """Channels of a panel."""
        return 1

    def field(self, name: str) -> str:
        """Memory operand of an argument: the second row of the tile belongs to the next panel."""
        return super().field({"c_rs": "c_ps", "residual_rs": "residual_ps"}.get(name, name))

    def registers(self) -> list[str]:
        """Say what registers hold, as lines of the contract."""
        return [
            *super().registers(),
            "in pairs: r8 input, r11 steps, rbx values of the second channel, r15 terms that it",
            "has more than the first",
        ]

    def sum(self) -> None:
        """Run over the terms of two panels."""
        w, v = self.w, self.v
        w(f"mov rax, {self.field('places')}")
        w(f"mov r9, [rax + {PLACE}]")
        w(f"mov r15, [rax + {2 * PLACE}]")
        w("sub r15, r9")
        w("sub r9, [rax]")
        self.place()
        w("mov r8, rsi")
        w(f"mov rdx, {self.field('x_ks')}")
        w(f"mov {self.steps}, {self.field('steps')}")
        w(f"mov r10, {self.field('values')}")
        w(f"lea r11, [{self.steps} + r9*{STEP}]")
        w(f"lea rbx, [r10 + r9*{v.size}]")
        self.fetch_next()
        # Terms that both lists have, and further terms of the second.
        w("mov rax, r15")
        w("sub r15, r9")
        w("cmp r9, rax")
        w("cmovg r9, rax")
        self.terms()
        w.label("terms_done")
        w(f"mov {self.field('steps')}, r11")
        w(f"mov {self.field('values')}, rbx")

    def loops(self, name: str, *, tail: bool) -> None:
        """Loops that end at ``terms_done``: both lists, then the rest of one."""
        w = self.w
        w(f"sub r9, {TURN}")
        w(f"jl .L{name}_few")
        w(".p2align 5")
        w.label(f"{name}_turn")
        self.fetch_row(f"{name}_fetched")
        self.turn(TURN, tail=tail)
        w(f"sub r9, {TURN}")
        w(f"jge .L{name}_turn")
        w.label(f"{name}_few")
        w(f"add r9, {TURN}")
        w(f"jz .L{name}_uneven")
        self.turn(1, tail=tail)
        w.label(f"{name}_uneven")
        w("test r15, r15")
        w("jz .Lterms_done")
        w(f"js .L{name}_first")
        w.label(f"{name}_second")
        self.rest(1, tail=tail)
        w("dec r15")
        w(f"jnz .L{name}_second")
        w("jmp .Lterms_done")
        w.label(f"{name}_first")
        self.rest(0, tail=tail)
        w("inc r15")
        w(f"jnz .L{name}_first")

    def list_of(self, channel: int) -> tuple[str, str, str]:
        """Registers of input, steps and values of a channel."""
        return ("r8", "r11", "rbx") if channel else ("rsi", self.steps, "r10")

    def turn(self, count: int, *, tail: bool) -> None:
        """Several terms of both lists."""
        for index in range(count):
            for channel in (0, 1):
                self.go_to(channel, index)
            for j in range(self.nv):
                for channel in (0, 1):
                    self.multiply_vector(channel, j, tail=tail)
        for channel in (0, 1):
            self.go_on(channel, count)

    def rest(self, channel: int, *, tail: bool) -> None:
        """A term of one list."""
        self.go_to(channel, 0)
        for j in range(self.nv):
            self.multiply_vector(channel, j, tail=tail)
        self.go_on(channel, 1)

    def go_to(self, channel: int, index: int) -> None:
        """Move the input to a term, and broadcast its weight."""
        w, v = self.w, self.v
        pixels, steps, values = self.list_of(channel)
        w(f"movsxd rax, dword ptr [{steps} + {index * STEP}]")
        w("imul rax, rdx")
        w(f"add {pixels}, rax")
        w(f"{v.broadcast} {v.reg(self.temps[channel])}, [{values} + {index * v.size}]")

    def go_on(self, channel: int, count: int) -> None:
        """Leave terms behind."""
        _, steps, values = self.list_of(channel)
        self.w(f"add {steps}, {count * STEP}")
        self.w(f"add {values}, {count * self.v.size}")

    def multiply_vector(self, channel: int, j: int, *, tail: bool) -> None:
        """Add a vector of pixels times the weight."""
        w, v = self.w, self.v
        pixels = f"[{self.list_of(channel)[0]} + {j * v.bytes}]"
        if tail:
            register = v.reg(self.b[0])
            self.masked_load(register, pixels, j)
            pixels = register
        weight = v.reg(self.temps[channel])
        w(f"{self.instruction} {self.acc(channel, j)}, {weight}, {pixels}")


class _Last(Pixels):
    """A channel by itself, whose masks are those of the pairs."""

    free = _Pair.free


def generate(kernel: Kernel) -> str:
    """Assembly text of the kernel that `kernel` describes."""
    pair = _Pair(replace(kernel, mr=2))
    last = _Last(kernel, Marked(pair.w.lines, "last"))
    saved = [r for r in CALLEE_SAVED if r in pair.used | last.used]
    w = pair.w
    pair.enter(saved)
    w(f"cmp qword ptr {pair.field('panels')}, 2")
    w("jl .Lodd")
    pair.body()
    w.label("odd")
    w(f"cmp qword ptr {pair.field('panels')}, 0")
    w("je .Lleave")
    last.body()
    w.label("leave")
    pair.leave(saved)
    pair.kernel = kernel
    rodata = [*pair.rodata(), *(line.replace(".L", ".Llast_") for line in last.rodata())]
    return frame(kernel, pair.contract(), w.lines, rodata)

"""Products with sparse weights whose vectors run over pixels: see ``sparse.py``.

A term loads one row of pixels and broadcasts a weight of each channel. With four channels and six
vectors these are ten loads for 24 FMAs. A panel of one channel has a load for each FMA, which takes
its pixels from memory.
"""

from __future__ import annotations

from asm.contract import FLAGS, SPARSE_PIXELS
from asm.registry import Kernel
from asm.x86_64.sparse import SparseFloats

# Cache lines that a term prefetches; the panels of a tile take turns at the lines of a row.
FETCHED, LINE = 2, 64


class Pixels(SparseFloats):
    """Emits one kernel."""

    arguments = SPARSE_PIXELS
    # Whether the terms that are being emitted prefetch pixels.
    fetching = False

    def loaded(self) -> int:
        """Registers for pixels; FMAs of a single channel take them from memory."""
        return self.nv if self.mr > 1 else 1

    @property
    def width(self) -> int:
        """Channels of a panel."""
        return self.mr

    def registers(self) -> list[str]:
        """Say what registers hold, as lines of the contract."""
        v = self.v
        pixels = f"{v.reg(self.b[0])}-{v.reg(self.b[-1])} pixels"
        return [f"{pixels}, {v.reg(self.temps[0])} and on broadcasts of weights"]

    def terms(self) -> None:
        """Emit the loops over the terms, for whole vectors of pixels and for tails."""
        w = self.w
        w(f"test dword ptr {self.field('flags')}, {FLAGS['B_PADDED']}")
        w("jnz .Lwhole")
        w(f"cmp qword ptr {self.field('n')}, {self.kernel.nr}")
        w("jne .Ltail")
        w.label("whole")
        if self.later:
            # Useless prefetches would take the place of loads.
            w(f"cmp qword ptr {self.field('x_ahead')}, 0")
            w("je .Lnear")
            self.fetching = True
            self.loops("whole", tail=False)
            self.fetching = False
            w("jmp .Lterms_done")
            w.label("near")
        self.loops("near", tail=False)
        w("jmp .Lterms_done")
        w.label("tail")
        self.loops("tail", tail=True)

    def fetched_by(self, free: list[str]) -> str:
        """Take a register for prefetches, unless each FMA has a load of its own."""
        return free[0] if free and self.mr > 1 else ""

    def prepare(self) -> None:
        """Begin to fetch pixels for later."""
        super().prepare()
        if self.later:
            self.w(f"mov rax, {self.field('x_ahead')}")
            self.w(f"mov {self.field('later')}, rax")

    def place(self) -> None:
        """Put the input back to where k is 0."""
        super().place()
        if self.later:
            self.w(f"mov {self.later}, {self.field('later')}")

    def next_panel(self) -> None:
        """Go on to the next panel, which prefetches the next lines of pixels."""
        w = self.w
        if self.later:
            w(f"mov rax, {self.field('later')}")
            w(f"mov rdx, {self.field('x_ahead')}")
            w(f"add rax, {FETCHED * LINE}")
            w(f"lea rcx, [rdx + {self.nv * self.v.bytes}]")
            w("cmp rax, rcx")
            w("cmovge rax, rdx")
            w(f"mov {self.field('later')}, rax")
        super().next_panel()

    def term(self, index: int, *, tail: bool) -> None:
        """One term of a turn, for which the input has been moved on."""
        w, v = self.w, self.v
        at = index * self.mr * v.size
        if self.fetching:
            for line in range(FETCHED):
                w(f"prefetcht1 [rsi + {self.later} + {line * LINE}]")
        if self.mr == 1:
            self.single(f"[r10 + {at}]", tail=tail)
            return
        for j, r in enumerate(self.b):
            self.load_pixels(r, j, tail=tail)
        for m in range(self.mr):
            address = f"[r10 + {at + m * v.size}]"
            if self.embedded:
                operands = f"{v.reg(self.b[0])}, {address}{v.embedded}"
                w(f"{self.instruction} {self.acc(m, 0)}, {operands}")
                continue
            t = v.reg(self.temps[m % min(2, len(self.temps))])
            w(f"{v.broadcast} {t}, {address}")
            for j, r in enumerate(self.b):
                w(f"{self.instruction} {self.acc(m, j)}, {t}, {v.reg(r)}")

    def single(self, weight: str, *, tail: bool) -> None:
        """One channel: a broadcast, and FMAs that load."""
        w, v = self.w, self.v
        t = v.reg(self.temps[0])
        w(f"{v.broadcast} {t}, {weight}")
        for j in range(self.nv):
            pixels = f"[rsi + {j * v.bytes}]"
            if tail:
                self.load_pixels(self.b[0], j, tail=True)
                pixels = v.reg(self.b[0])
            w(f"{self.instruction} {self.acc(0, j)}, {t}, {pixels}")

    def load_pixels(self, register: int, j: int, *, tail: bool) -> None:
        """Load a vector of pixels."""
        address, target = f"[rsi + {j * self.v.bytes}]", self.v.reg(register)
        if tail:
            self.masked_load(target, address, j)
        else:
            self.w(f"vmovu{self.v.suffix} {target}, {address}")


def generate(kernel: Kernel) -> str:
    """Assembly text of the kernel that `kernel` describes."""
    return Pixels(kernel).generate()

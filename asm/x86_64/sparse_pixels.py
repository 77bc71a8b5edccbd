"""Products with sparse weights whose vectors run over pixels: see ``sparse.py``.

A term loads one row of pixels and broadcasts a weight of each channel. With four channels and six
vectors these are ten loads for 24 FMAs. A panel of one channel has a load for each FMA, which takes
its pixels from memory.
"""

from __future__ import annotations

from asm.contract import FLAGS, SPARSE_PIXELS
from asm.registry import Kernel
from asm.x86_64.sparse import Sparse


class Pixels(Sparse):
    """Emits one kernel."""

    arguments = SPARSE_PIXELS

    def loaded(self) -> int:
        """Registers for pixels; FMAs of a single channel take them from memory."""
        return self.nv if self.mr > 1 else 1

    @property
    def width(self) -> int:
        return self.mr

    def registers(self) -> list[str]:
        v = self.v
        pixels = f"{v.reg(self.b[0])}-{v.reg(self.b[-1])} pixels"
        return [f"{pixels}, {v.reg(self.temps[0])} and on broadcasts of weights"]

    def terms(self) -> None:
        w = self.w
        w(f"test dword ptr {self.field('flags')}, {FLAGS['B_PADDED']}")
        w("jnz .Lwhole")
        w(f"cmp qword ptr {self.field('n')}, {self.kernel.nr}")
        w("jne .Ltail")
        w.label("whole")
        self.loops("whole", tail=False)
        w("jmp .Lsummed")
        w.label("tail")
        self.loops("tail", tail=True)

    def term(self, index: int, *, tail: bool) -> None:
        w, v = self.w, self.v
        at = index * self.mr * v.size
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
        address, target = f"[rsi + {j * self.v.bytes}]", self.v.reg(register)
        if tail:
            self.masked_load(target, address, j)
        else:
            self.w(f"vmovu{self.v.suffix} {target}, {address}")


def generate(kernel: Kernel) -> str:
    """Assembly text of the kernel that `kernel` describes."""
    return Pixels(kernel).generate()

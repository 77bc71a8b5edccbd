"""Products with sparse weights whose vectors run over output channels: see ``sparse.py``.

A term loads the weights of all channels of the panel and an element of each pixel, directly from
the user's array, where channels are neighbours. Elements go through registers in groups, each
loaded while the one before is multiplied, for cores that take instructions in order.
"""

from __future__ import annotations

from collections.abc import Sequence

from asm.aarch64.gemm_steps import spread
from asm.aarch64.gemm_tile import CALLEE_SAVED
from asm.aarch64.products import by_element, multiply
from asm.aarch64.sparse import Follow, Sparse, nothing
from asm.contract import SPARSE_CHANNELS
from asm.fitting import require
from asm.registry import ISAS, Kernel

# The epilogue uses the registers after `_KEPT_ROWS`. Long turns, which have few pixels, use the
# last one as a place.
_KEPT_ROWS = ("x11", "x12", "x13", *CALLEE_SAVED)
_ROWS = (*_KEPT_ROWS, "x14", "x17", "x16")
_MOST_ELEMENTS = 8


class _Channels(Sparse):
    arguments = SPARSE_CHANNELS
    # Weights are whole vectors always.
    shifts = False

    def arrange_registers(self) -> None:
        """Share the registers out among elements of pixels, weights and C."""
        spare = ISAS[self.kernel.isa].vector_registers - (self.mr + 1) * self.nv
        # An element is loaded while the one before is multiplied.
        require(self.kernel, (self.mr + 1) * self.nv + 2)
        require(self.kernel, self.mr, len(_ROWS), "general registers that point to pixels")
        self.a = list(range(min(spare, _MOST_ELEMENTS)))
        self.b = list(range(len(self.a), len(self.a) + self.nv))
        self.accumulators = self.registers_of_c(self.mr, self.b[-1] + 1)

    @property
    def width(self) -> int:
        return self.kernel.nr

    @property
    def rows(self) -> tuple[str, ...]:
        """Registers that point to pixels."""
        return _ROWS[: self.mr]

    def taken(self) -> list[str]:
        return [x for x in self.rows if x in CALLEE_SAVED]

    def registers(self) -> list[str]:
        elements = f"v{self.a[0]}-v{self.a[-1]} elements of pixels"
        weights = ", ".join(f"v{r}" for r in self.b)
        return [f"{elements}, {weights} weights", f"{', '.join(self.rows)} pixels, x1 their k"]

    def prepare(self) -> None:
        w = self.w
        w(f"ldr {self.rows[0]}, {self.field('x')}")
        w(f"ldr x8, {self.field('x_rs')}")
        spread(w, self.rows[: len(_KEPT_ROWS)], "x8")
        w("mov x15, #0")

    def place(self) -> None:
        w, rows = self.w, self.rows
        w("mov x1, #0")
        if len(rows) > len(_KEPT_ROWS):
            w(f"ldr x8, {self.field('x_rs')}")
        for m in range(len(_KEPT_ROWS), len(rows)):
            w(f"add {rows[m]}, {rows[m - 8]}, x8, lsl #3")

    def turn(self, places: Sequence[str], follow: Follow) -> None:
        for index, place in enumerate(places):
            last = index + 1 == len(places)
            self.term(place, index * self.values_bytes, follow if last else nothing)
        self.w(f"add x10, x10, #{self.unroll * self.values_bytes}")

    def single(self, places: Sequence[str]) -> None:
        self.term(places[0], 0, nothing)
        self.w(f"add x10, x10, #{self.values_bytes}")

    def term(self, place: str, offset: int, follow: Follow) -> None:
        """Add a term, whose values lie at `offset` bytes; call `follow` when all is loaded."""
        part = by_element(self.kernel.dtype, self.v)[0]
        half = len(self.a) // 2
        groups = [range(m, min(m + half, self.mr)) for m in range(0, self.mr, half)]
        self.load_values(self.b, self.values_bytes, offset)
        self.load_elements(groups[0], place)
        for group, following in zip(groups, [*groups[1:], range(0)], strict=True):
            self.load_elements(following, place)
            if group.stop == self.mr or following.stop == self.mr:
                follow()
                follow = nothing
            for m in group:
                for j, r in enumerate(self.b):
                    self.w(multiply(part, self.acc(m, j), r, (self.element(m), 0)))

    def element(self, m: int) -> int:
        """Register of a pixel's element."""
        register: int = self.a[m % (len(self.a) // 2 * 2)]
        return register

    def load_elements(self, group: range, place: str) -> None:
        """Load an element of each pixel of a group."""
        for m in group:
            self.w(f"ldr {self.v.letter}{self.element(m)}, [{self.rows[m]}, {place}]")


def generate(kernel: Kernel) -> str:
    """Assembly text of the kernel that `kernel` describes."""
    return _Channels(kernel).generate()

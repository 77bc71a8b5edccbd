"""Products with sparse weights whose vectors run over pixels: see ``sparse.py``.

A term loads one row of pixels, and FMLA multiplies it by the weight of each channel, a lane of a
register. With four channels and six vectors these are seven loads for 24 FMLAs. A panel of one
channel has a load for each FMLA, and its weights of several terms in one register.

Words (``s16``) are taken in pairs of terms: SMLAL multiplies four pixels of each row by one lane of
a register of weights. Bytes (``s8``) are taken in fours, which SDOT adds up.

Rows that may not be read beyond n are read in vectors that end there, as GEMM's B is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from asm.aarch64.emit import Vector, chunk_letter
from asm.aarch64.gemm_tile import CALLEE_SAVED
from asm.aarch64.lanes import Partial
from asm.aarch64.products import by_element, multiply
from asm.aarch64.row_ends import row_ends
from asm.aarch64.sparse import VECTOR, Follow, Sparse, nothing
from asm.contract import SPARSE_PIXELS
from asm.fitting import require_vectors
from asm.registry import PRODUCTS, Kernel

# Offsets of the vectors after the first, in a row that ends at n.
_OFFSETS = ("x11", "x12", "x13", "x19", "x20", "x21", "x22")


class _Pixels(Sparse):
    arguments = SPARSE_PIXELS

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.pixel = Vector(PRODUCTS[kernel.dtype].a, kernel.isa)
        self.loaded = self.v.lanes * self.pixel.size  # bytes of a vector of pixels
        self.pieces = Partial(self.w, self.pixel, self.v.lanes, "pixels")

    def arrange_registers(self) -> None:
        """Share the registers out among weights, pixels and C."""
        self.a = list(range(-(-self.shared * self.values_bytes // VECTOR)))
        self.b = list(range(len(self.a), len(self.a) + self.nv))
        self.accumulators = self.registers_of_c(self.mr, self.b[-1] + 1)

    @property
    def width(self) -> int:
        return self.mr

    @property
    def shared(self) -> int:
        """Groups of terms whose weights one load brings."""
        return max(min(self.unroll, VECTOR // self.values_bytes), 1)

    @property
    def offsets(self) -> tuple[str, ...]:
        """Registers of the offsets of a row's vectors, but the first."""
        return _OFFSETS[: self.nv - 1]

    def taken(self) -> list[str]:
        return [x for x in self.offsets if x in CALLEE_SAVED]

    def registers(self) -> list[str]:
        weights = ", ".join(f"v{r}" for r in self.a)
        pixels = ", ".join(f"v{r}" for r in self.b)
        vectors = f"; {', '.join(self.offsets)} its vectors" if self.offsets else ""
        return [f"{weights} weights, {pixels} pixels", f"x1 row of pixels{vectors}, or x11 n"]

    def prepare(self) -> None:
        w = self.w
        row_ends(self, self.offsets, self.pixel.size, "narrow")
        w("b .Lends_known")
        w.label("narrow")
        w("mov x11, x16")
        w.label("ends_known")

    def place(self) -> None:
        self.w(f"ldr x1, {self.field('x')}")

    def turn(self, places: Sequence[str], follow: Follow) -> None:
        size, kr = self.values_bytes, self.kernel.kr
        for group in range(self.unroll):
            if group % self.shared == 0:
                self.load_values(self.a, self.shared * size, group * size)
            last = group + 1 == self.unroll
            own = places[group * kr : (group + 1) * kr]
            self.whole(own, group % self.shared, follow if last else nothing)
        self.w(f"add x10, x10, #{self.unroll * size}")

    def single(self, places: Sequence[str]) -> None:
        self.next_values()
        self.ending(places)

    def narrow(self, places: Sequence[str]) -> None:
        self.next_values()
        self.part(places)

    def next_values(self) -> None:
        """Load the weights of a group."""
        self.load_values(self.a, self.values_bytes, 0)
        self.w(f"add x10, x10, #{self.values_bytes}")

    def weights(self, m: int, group: int) -> tuple[int, int]:
        """Place of a channel's weights for a group of terms: a register, and their number in it."""
        at = (group * self.mr + m) * self.group_bytes
        return self.a[at // VECTOR], at % VECTOR // self.group_bytes

    def whole(self, places: Sequence[str], group: int, follow: Follow) -> None:
        """Add the terms of a group, whose rows are whole; call `follow` when they are loaded."""
        for term, place in enumerate(places):
            for j, r in enumerate(self.b):
                self.w(f"ldur {self.letter}{r}, [{place}, #{j * self.loaded}]")
            if term + 1 == len(places):
                follow()
            self.products(term, group, self.b)

    def ending(self, places: Sequence[str]) -> None:
        """Add the terms of a group, whose rows may end at n."""
        ends = ("", *(f", {x}" for x in self.offsets))
        for term, place in enumerate(places):
            for r, end in zip(self.b, ends, strict=True):
                self.w(f"ldr {self.letter}{r}, [{place}{end}]")
            self.products(term, 0, self.b)

    def part(self, places: Sequence[str]) -> None:
        """Add the terms of a group, whose rows have less than a vector."""
        for term, place in enumerate(places):
            self.piece(self.b[0], place)
            self.products(term, 0, self.b[:1])

    def piece(self, register: int, place: str) -> None:
        """Load a row of less than a vector."""
        self.w(f"mov x8, {place}")
        self.pieces.load(register, "x8", "x11")

    @property
    def letter(self) -> str:
        """Letter of a register with a vector of pixels."""
        return chunk_letter(self.loaded)

    def products(self, term: int, group: int, pixels: Sequence[int]) -> None:
        """Multiply vectors of pixels by the weights of all channels."""
        part = replace(by_element(self.kernel.dtype, self.v)[0], first=term)
        for m in range(self.mr):
            for j, r in enumerate(pixels):
                self.w(multiply(part, self.acc(m, j), r, self.weights(m, group)))


class _Quads(_Pixels):
    """Pixels of four terms at a time, whose bytes are zipped into quads for dot products.

    Zips compete with the products, two for each vector of quads. A row of four vectors is as long
    as a register, whose halves a zip takes, so tiles have one vector, two or four.
    """

    def arrange_registers(self) -> None:
        """Share the registers out among weights, rows of four terms and one more, and C."""
        require_vectors(self.kernel, (1, 2, 4))
        self.a = list(range(-(-self.values_bytes // VECTOR)))
        self.b = list(range(len(self.a), len(self.a) + self.kernel.kr + 1))
        self.accumulators = self.registers_of_c(self.mr, self.b[-1] + 1)

    def registers(self) -> list[str]:
        weights, places = super().registers()
        return [f"{weights} of four terms, and quads of them", places]

    def whole(self, places: Sequence[str], group: int, follow: Follow) -> None:
        letter = chunk_letter(self.nv * self.loaded)
        for r, place in zip(self.b, places, strict=False):
            self.w(f"ldur {letter}{r}, [{place}]")
        follow()
        self.products(0, group, self.zipped(self.nv))

    def ending(self, places: Sequence[str]) -> None:
        for j, end in enumerate(("", *(f", {x}" for x in self.offsets))):
            for r, place in zip(self.b, places, strict=False):
                self.w(f"ldr {self.letter}{r}, [{place}{end}]")
            self.column(j)

    def part(self, places: Sequence[str]) -> None:
        for r, place in zip(self.b, places, strict=False):
            self.piece(r, place)
        self.column(0)

    def column(self, j: int) -> None:
        """Multiply one vector of pixels by the weights of all channels."""
        part = by_element(self.kernel.dtype, self.v)[0]
        (quads,) = self.zipped(1)
        for m in range(self.mr):
            self.w(multiply(part, self.acc(m, j), quads, self.weights(m, 0)))

    def zipped(self, vectors: int) -> list[int]:
        """Zip rows of four terms into so many vectors of quads; give their registers."""
        w = self.w
        first, second, third, fourth, more = self.b
        lanes = "8b" if vectors == 1 else "16b"
        pairs = [(more, first)]
        w(f"zip1 v{more}.{lanes}, v{first}.{lanes}, v{second}.{lanes}")
        if vectors > 2:
            w(f"zip2 v{second}.{lanes}, v{first}.{lanes}, v{second}.{lanes}")
            pairs.append((second, fourth))
        w(f"zip1 v{first}.{lanes}, v{third}.{lanes}, v{fourth}.{lanes}")
        if vectors > 2:
            w(f"zip2 v{fourth}.{lanes}, v{third}.{lanes}, v{fourth}.{lanes}")
        quads = []
        for spare, (low, high) in zip((third, first), pairs, strict=False):
            w(f"zip1 v{spare}.8h, v{low}.8h, v{high}.8h")
            quads.append(spare)
            if vectors > 1:
                w(f"zip2 v{low}.8h, v{low}.8h, v{high}.8h")
                quads.append(low)
        return quads


def generate(kernel: Kernel) -> str:
    """Assembly text of the kernel that `kernel` describes."""
    made = _Quads if kernel.kr == 4 else _Pixels
    return made(kernel).generate()

"""Rows of bytes or words, one of each term, into vectors whose lanes of 32 bits hold a group.

Products of integers take the pixels of several terms in one lane. Terms lie anywhere, so their rows
are loaded one by one and interleaved by shuffles. The shuffles compete with the products, so they
are as few as the instructions allow:

- a row that fills a register is unpacked with the others, within parts of 16 bytes: two shuffles a
  vector, for bytes. Sums then have another order of pixels. They are reordered once, before they
  are stored (`natural`) or after they are loaded (`mixed`);
- several shorter rows are loaded into one register, by instructions that replace plain loads, and
  two shuffles put a whole vector into its order.
"""

from __future__ import annotations

from asm.fitting import require_vectors
from asm.registry import ELEMENT_BYTES, PRODUCTS, Kernel
from asm.writer import Writer
from asm.x86_64.emit import Vector

# Pixels in 16 bytes of sums, the piece within which most shuffles work.
CHUNK = 4
_NAMES = {8: "xmm", 16: "xmm", 32: "ymm", 64: "zmm"}


class Interleave:
    """Emits loads and shuffles of one group of terms.

    Parameters
    ----------
    kernel : Kernel
        Its NR pixels make up `kernel.vectors` vectors of sums.
    w : Writer
        Writer that takes the instructions.
    v : Vector
        Names of vectors of sums.
    """

    def __init__(self, kernel: Kernel, w: Writer, v: Vector) -> None:
        self.w, self.v, self.vectors, self.kr = w, v, kernel.vectors, kernel.kr
        self.item = ELEMENT_BYTES[PRODUCTS[kernel.dtype].a]
        row = kernel.nr * self.item
        require_vectors(kernel, (1, 2, 4, 8))
        self.width = min(row, v.bytes)  # bytes of a load
        self.parts = row // self.width  # loads of a row
        # Number of registers that the rows of a part fill; rows of 8 bytes have one each.
        self.filled = self.kr if self.width == 8 else self.kr * self.width // v.bytes
        self.whole = self.width == v.bytes
        # Registers that it takes; the last of them hold the constants.
        self.constants = self._constants()
        self.registers = self._taken() + len(self.constants)

    def _taken(self) -> int:
        if self.whole:
            return self.kr * self.parts + 1
        if self.width == 8:
            return self.kr
        return self.filled + (self.vectors > 1)

    def _constants(self) -> dict[str, list[int]]:
        """Give the bytes of each constant register, by its label."""
        if self.whole or self.filled == self.kr or (self.filled > 1 and not self.v.masked):
            return {}
        size, span = self.item, CHUNK * self.item
        transposed = [
            q * span + p * size + e
            for p in range(CHUNK)
            for q in range(self.kr)
            for e in range(size)
        ]
        found = {"transposed": transposed * (self.v.bytes // 16)}
        if self.v.masked:
            found |= {f"words_of_{v}": self._words(v) for v in range(self.vectors)}
        return found

    def _words(self, vector: int) -> list[int]:
        """Sources of the words of a vector: for each 4 pixels, the words of each term."""
        lanes = self.v.bytes // 16
        return [
            q % self.filled * self.v.lanes
            + q // self.filled * (self.width // 4)
            + (vector * lanes + lane) * self.item
            + d
            for lane in range(lanes)
            for q in range(self.kr)
            for d in range(self.item)
        ]

    def rodata(self) -> list[str]:
        """Give the constants."""
        lines = []
        for label, numbers in self.constants.items():
            kind = ".byte" if len(numbers) == self.v.bytes else ".long"
            lines += [".p2align 6", f".L{label}:", f"    {kind} {', '.join(map(str, numbers))}"]
        return [".section .rodata", *lines] if lines else []

    def prepare(self, b: list[int]) -> None:
        """Load the constants into the last of the registers `b`."""
        for register, label in zip(self._constant_registers(b), self.constants, strict=True):
            self.w(f"vmovups {self.v.reg(register)}, .L{label}[rip]")

    def _constant_registers(self, b: list[int]) -> list[int]:
        return b[len(b) - len(self.constants) :]

    def name(self, register: int) -> str:
        """Name of a register that a part of a row fills."""
        return f"{_NAMES[self.width]}{register}"

    def place(self, b: list[int], q: int, part: int) -> tuple[int, int]:
        """Which register a part of the row of term `q` goes to, and which part of that."""
        return b[part * self.filled + q % self.filled], q // self.filled

    def load(self, register: int, lane: int, address: str) -> None:
        """Load a row that may be read in whole; the first lane of a register comes first."""
        w, full = self.w, self.v.reg(register)
        if lane == 0:
            move = "vmovq" if self.width == 8 else "vmovups"
            w(f"{move} {self.name(register)}, {address}")
        else:
            w(f"{self._insert()} {full}, {full}, {address}, {lane}")

    def put(self, register: int, lane: int, source: int) -> None:
        """Put a row that has been loaded into its lane, if that is not the first."""
        if lane or register != source:
            full = self.v.reg(register)
            self.w(f"{self._insert()} {full}, {full}, {self.name(source)}, {lane}")

    def _insert(self) -> str:
        if not self.v.masked:
            return "vinserti128"
        return "vinserti64x4" if self.width == 32 else "vinserti32x4"

    def mix(self, b: list[int], *, first: bool = False) -> list[int]:
        """Emit the shuffles; give the registers of the vectors, in the order of sums.

        Parameters
        ----------
        b : list of int
            As many registers as `registers` says, into which rows have been loaded.
        first : bool
            Whether only the first vector is wanted, of one part.
        """
        if self.whole:
            return self._first_unpacked(b) if first else self._unpacked(b)
        if self.width == 8:
            return self._eights(b)
        if not self.constants:
            return self._halves(b, first=first)
        return self._permuted(b)

    def _unpack(self, high: bool, bits: int, target: int, a: int, b: int, name: str = "") -> int:
        kind = f"{'h' if high else 'l'}{'bw' if bits == 8 else 'wd'}"
        x, y, z = (f"{name}{r}" if name else self.v.reg(r) for r in (target, a, b))
        self.w(f"vpunpck{kind} {x}, {y}, {z}")
        return target

    def _unpacked(self, b: list[int]) -> list[int]:
        """Unpack registers that rows fill; for bytes in two rounds."""
        *rows, spare = b
        found = []
        for part in range(self.parts):
            own = rows[part * self.kr : (part + 1) * self.kr]
            if self.kr == 2:
                first, second = own
                low = self._unpack(False, 16, spare, first, second)
                high = self._unpack(True, 16, first, first, second)
                found += [low, high]
                spare = second
                continue
            first, second, third, fourth = own
            low = self._unpack(False, 8, spare, first, second)
            high = self._unpack(True, 8, first, first, second)
            low_others = self._unpack(False, 8, second, third, fourth)
            high_others = self._unpack(True, 8, third, third, fourth)
            found.append(self._unpack(False, 16, fourth, low, low_others))
            found.append(self._unpack(True, 16, low, low, low_others))
            found.append(self._unpack(False, 16, second, high, high_others))
            found.append(self._unpack(True, 16, high, high, high_others))
        return found

    def _first_unpacked(self, b: list[int]) -> list[int]:
        """Unpack the low halves of registers alone."""
        target, *others = b[: self.kr]
        if self.kr == 2:
            return [self._unpack(False, 16, target, target, others[0])]
        self._unpack(False, 8, target, target, others[0])
        self._unpack(False, 8, others[1], others[1], others[2])
        return [self._unpack(False, 16, target, target, others[1])]

    def _eights(self, b: list[int]) -> list[int]:
        """Eight bytes of each of four terms: one vector of 32 bytes."""
        first, second, third, fourth = b
        self._unpack(False, 8, first, first, second, "xmm")
        self._unpack(False, 8, second, third, fourth, "xmm")
        self._unpack(False, 16, third, first, second, "xmm")
        self._unpack(True, 16, first, first, second, "xmm")
        self.w(f"vinserti128 ymm{third}, ymm{third}, xmm{first}, 1")
        return [third]

    def _halves(self, b: list[int], *, first: bool) -> list[int]:
        """Terms 0 and 2, and 1 and 3, of 16 bytes each, in two registers."""
        even, odd, spare = b
        self._unpack(False, 8, spare, even, odd)
        if first:  # the terms of the first pixels lie in the halves of one register
            self.w(f"vextracti128 xmm{odd}, ymm{spare}, 1")
            return [self._unpack(False, 16, spare, spare, odd)]
        self._unpack(True, 8, even, even, odd)
        self.w(f"vperm2i128 ymm{odd}, ymm{spare}, ymm{even}, 0x20")
        self.w(f"vperm2i128 ymm{even}, ymm{spare}, ymm{even}, 0x31")
        low = self._unpack(False, 16, spare, odd, even)
        return [low, self._unpack(True, 16, odd, odd, even)]

    def _permuted(self, b: list[int]) -> list[int]:
        """Words into the 16 bytes where they belong, and bytes within those."""
        w, reg = self.w, self.v.reg
        transposed, *words = self._constant_registers(b)
        rows = b[: self.filled]
        if not self.v.masked:
            w(f"vpermq {reg(rows[0])}, {reg(rows[0])}, 0xd8")
            found = rows
        elif self.filled == 1:
            w(f"vpermd {reg(rows[0])}, {reg(words[0])}, {reg(rows[0])}")
            found = rows
        else:
            found = [rows[0], b[self.filled]]
            w(f"vmovdqa64 {reg(found[1])}, {reg(rows[0])}")
            for register, order in zip(found, words, strict=True):
                w(f"vpermt2d {reg(register)}, {reg(order)}, {reg(rows[1])}")
        for register in found:
            w(f"vpshufb {reg(register)}, {reg(register)}, {reg(transposed)}")
        return found

    @property
    def ordered(self) -> bool:
        """Whether sums lie in the order of pixels."""
        return not self.whole and (bool(self.constants) or self.width == 8)

    def natural(self, sums: list[int], spare: list[int]) -> None:
        """Put the sums of one row from the order of mixed groups into the order of pixels."""
        self._reorder(sums, spare, back=False)

    def mixed(self, sums: list[int], spare: list[int]) -> None:
        """Put the sums of one row from the order of pixels into the order of mixed groups."""
        self._reorder(sums, spare, back=True)

    def _reorder(self, sums: list[int], spare: list[int], *, back: bool) -> None:
        if self.ordered:
            return
        step = 2 if self.kr == 2 or not self.whole else 4
        for at in range(0, len(sums), step):
            part = sums[at : at + step]
            if not self.v.masked:
                self._reorder_halves(part, spare, back=back)
            elif step == 4:
                self._transpose(part, spare)
            else:
                self._reorder_pair(part, spare, back=back)

    def _transpose(self, sums: list[int], spare: list[int]) -> None:
        """Transpose four by four parts of 16 bytes, which undoes itself."""
        a, b, c, d = sums
        low, high, low_others, high_others = spare[:4]
        for target, first, second, which in (
            (low, a, b, 0x44), (high, a, b, 0xEE), (low_others, c, d, 0x44),
            (high_others, c, d, 0xEE), (a, low, low_others, 0x88), (b, low, low_others, 0xDD),
            (c, high, high_others, 0x88), (d, high, high_others, 0xDD),
        ):  # fmt: skip
            self._shuffle(target, first, second, which)

    def _shuffle(self, target: int, first: int, second: int, which: int) -> None:
        self.w(f"vshufi64x2 zmm{target}, zmm{first}, zmm{second}, {which:#x}")

    def _reorder_pair(self, sums: list[int], spare: list[int], *, back: bool) -> None:
        """Two vectors that hold every other part of 16 bytes, on AVX-512."""
        a, b = sums
        first = spare[0]
        if back:
            self._shuffle(first, a, b, 0x88)
            self._shuffle(b, a, b, 0xDD)
            self.w(f"vmovdqa64 zmm{a}, zmm{first}")
            return
        self._shuffle(first, a, b, 0x44)
        self._shuffle(b, a, b, 0xEE)
        self._shuffle(a, first, first, 0xD8)
        self._shuffle(b, b, b, 0xD8)

    def _reorder_halves(self, sums: list[int], spare: list[int], *, back: bool) -> None:
        """Vectors of two parts, two or four of them, on AVX2."""
        count = len(sums)
        # Places of chunks: vector j of a mix holds chunk j and chunk j + count.
        mixed = [(j, half) for half in range(2) for j in range(count)]
        natural = [(j, half) for j in range(count) for half in range(2)]
        source, target = (natural, mixed) if back else (mixed, natural)
        of = dict(zip(target, range(2 * count), strict=True))
        temps = spare[:count]
        for j, temp in enumerate(temps):
            (low, low_half), (high, high_half) = (source[of[j, half]] for half in range(2))
            which = low_half | (2 | high_half) << 4
            self.w(f"vperm2i128 ymm{temp}, ymm{sums[low]}, ymm{sums[high]}, {which:#x}")
        for register, temp in zip(sums, temps, strict=True):
            self.w(f"vmovdqa ymm{register}, ymm{temp}")

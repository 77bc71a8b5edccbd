"""Products with sparse weights of integers, several terms at a time, whose vectors run over pixels.

See ``sparse.py``. A lane of 32 bits takes the pixels of a group of terms. These lie in different
places, and ``interleave.py`` puts them side by side. All channels of the panel share these
shuffles: four channels of bytes have 16 products for 8 shuffles, so that they reach at most two
thirds of the CPU's peak; wider panels, whose tiles are narrower, reach more.

Tails are loaded by masks of bytes on AVX-512. AVX2 has masks of words only: it loads whole words
under a mask and, for the rest, the last four bytes, shifted. Rows of less than four bytes go
through a general register. Lanes beyond n hold undefined values, which are not stored.
"""

from __future__ import annotations

from collections.abc import Callable

from asm.contract import FLAGS, SPARSE_PIXELS
from asm.fitting import require
from asm.registry import Kernel
from asm.writer import Writer
from asm.x86_64.emit import Vector
from asm.x86_64.interleave import Interleave
from asm.x86_64.sparse import STEP, Sparse

# Mask registers of the parts of a row, beside those of sums.
_ROW_MASKS = ("k5", "k6")
_NOT_OF_SUMS = 3  # k5 to k7
_WORD = 4
# General registers of a row's tail on AVX2: the place of its last word, or of its last byte. For
# less than a word also the place of the middle byte, and the shifts of these two bytes.
_LAST, _MIDDLE, _LAST_SHIFT, _MIDDLE_SHIFT = _TAIL = ("r12", "r13", "r14", "r15")

RowLoad = Callable[[int, int, int], None]  # register, lane, part


class _Groups(Sparse):
    arguments = SPARSE_PIXELS

    def __init__(self, kernel: Kernel) -> None:
        w = Writer()
        self.mixer = Interleave(kernel, w, Vector(kernel.dtype, kernel.isa))
        super().__init__(kernel, w)
        # Only instructions that also add the product take a broadcast from memory.
        self.embedded = self.v.masked and self.nv == 1 and not self.multiply.add

    def loaded(self) -> int:
        """Registers in which the pixels of a group are mixed."""
        return self.mixer.registers

    def row_masks(self) -> int:
        """Number of mask registers that rows of C leave free: parts of rows of pixels take some."""
        require(self.kernel, self.mixer.parts, len(_ROW_MASKS), "mask registers of parts of a row")
        return _NOT_OF_SUMS

    def taken(self) -> list[str]:
        """General registers that an orientation has of its own."""
        return [] if self.v.masked else list(_TAIL)

    @property
    def width(self) -> int:
        """Channels of a panel."""
        return self.mr

    def registers(self) -> list[str]:
        """Say what registers hold, as lines of the contract."""
        v = self.v
        pixels = f"{v.reg(self.b[0])}-{v.reg(self.b[-1])} pixels of {self.kernel.kr} terms"
        tail = f"{', '.join(_ROW_MASKS)} masks" if v.masked else f"{', '.join(_TAIL)} tails"
        return [f"{pixels}, {v.reg(self.temps[0])} and on weights and products; {tail} of rows"]

    def rodata(self) -> list[str]:
        """Give the constants of tails and of shuffles."""
        return [*super().rodata(), *self.mixer.rodata()]

    def arrange(self) -> None:
        """Put sums that were loaded into the order of mixed pixels."""
        for m in range(self.mr):
            self.mixer.mixed(self.row(m), [*self.b, *self.temps])

    def epilogue(self) -> None:
        """Put the sums into order, and store them."""
        for m in range(self.mr):
            self.mixer.natural(self.row(m), [*self.b, *self.temps])
        super().epilogue()

    def row(self, m: int) -> list[int]:
        """Registers of row `m` of C."""
        return [m * self.nv + j for j in range(self.nv)]

    def place(self) -> None:
        """Reset the input, and reload the constants of shuffles, which the epilogue overwrites."""
        super().place()
        self.mixer.prepare(self.b)

    def prepare(self) -> None:
        """Make the masks of rows."""
        w = self.w
        if not self.v.masked:
            return
        w("mov rax, -1")
        w(f"mov r8, {self.field('n')}")
        w("bzhi rax, rax, r8")
        for part in range(self.mixer.parts):
            if part:
                w(f"shr rax, {self.mixer.width // self.mixer.item}")
            w(f"kmovq {_ROW_MASKS[part]}, rax")

    def terms(self) -> None:
        """Emit the loops over the groups."""
        w = self.w
        w("test r9, r9")
        w("jz .Lterms_done")
        w(f"test dword ptr {self.field('flags')}, {FLAGS['B_PADDED']}")
        w("jnz .Lwhole")
        w(f"cmp qword ptr {self.field('n')}, {self.kernel.nr}")
        w("jne .Ltail")
        w.label("whole")
        self.groups("whole", self.load_whole)
        w("jmp .Lterms_done")
        w.label("tail")
        if self.v.masked:
            self.groups("tail", self.load_masked)
            return
        w(f"mov rax, {self.field('n')}")
        if self.mixer.item > 1:
            w(f"shl rax, {self.mixer.item.bit_length() - 1}")
        w(f"cmp rax, {_WORD}")
        w("jl .Lshort")
        self.prepare_words()
        self.groups("words", self.load_words)
        w("jmp .Lterms_done")
        w.label("short")
        self.prepare_short()
        self.groups("short", self.load_short)

    def groups(self, name: str, load: RowLoad) -> None:
        """Run over the groups; there is one at least."""
        w, kr = self.w, self.kernel.kr
        w(".p2align 5")
        w.label(f"{name}_group")
        if load == self.load_whole:
            self.fetch_row(f"{name}_fetched")
        for q in range(kr):
            w(f"movsxd rax, dword ptr [{self.steps} + {q * STEP}]")
            w("imul rax, rdx")
            self.move()
            for part in range(self.mixer.parts):
                load(*self.mixer.place(self.b, q, part), part)
        # Less than a word of pixels: only the first vector has any of them.
        self.products(self.mixer.mix(self.b, first=load == self.load_short))
        w(f"add {self.steps}, {kr * STEP}")
        w(f"add r10, {self.mr * self.v.size}")
        w(f"sub r9, {kr}")
        w(f"jg .L{name}_group")

    def products(self, pixels: list[int]) -> None:
        """Multiply mixed pixels by the weights of each channel."""
        w, v = self.w, self.v
        for m in range(self.mr):
            address = f"[r10 + {m * v.size}]"
            if self.embedded:
                pixel = v.reg(pixels[0])
                w(f"{self.instruction} {self.acc(m, 0)}, {pixel}, {address}{v.embedded}")
                continue
            t = v.reg(self.temps[0])
            w(f"{v.broadcast} {t}, {address}")
            for j, r in enumerate(pixels):
                self.multiply_add(self.acc(m, j), v.reg(r), t, last=j + 1 == len(pixels))

    def multiply_add(self, sum_: str, pixels: str, weights: str, *, last: bool) -> None:
        """Add a product to a vector of sums; the pixels are the factor that may be unsigned."""
        w = self.w
        if not self.multiply.add:
            w(f"{self.instruction} {sum_}, {pixels}, {weights}")
            return
        product = weights if last else self.v.reg(self.temps[1])
        w(f"{self.instruction} {product}, {weights}, {pixels}")
        w(f"{self.multiply.add} {sum_}, {sum_}, {product}")

    def load_whole(self, register: int, lane: int, part: int) -> None:
        """Load a row in whole."""
        self.mixer.load(register, lane, self.address(part))

    def address(self, part: int) -> str:
        """Where a part of the row lies."""
        return f"[rsi + {part * self.mixer.width}]"

    def load_masked(self, register: int, lane: int, part: int) -> None:
        """Load a row's tail by a mask of its elements."""
        target = self.temps[0] if lane else register
        name, mask = self.mixer.name(target), _ROW_MASKS[part]
        self.w(f"vmovdqu{8 * self.mixer.item} {name}{{{mask}}}{{z}}, {self.address(part)}")
        self.mixer.put(register, lane, target)

    @property
    def words_mask(self) -> int:
        """Register of the mask of a tail's whole words on AVX2; the shift is in the one before."""
        return self.temps[-1]

    def prepare_words(self) -> None:
        """Load masks and offsets for tails of a word and more; rax is the number of bytes."""
        w, mask = self.w, self.words_mask
        w(f"lea {_LAST}, [rax - {_WORD}]")
        w(f"lea {_MIDDLE}, .Lmask_window[rip + {self.v.bytes}]")
        # Only the sign bit of a word of the mask counts, so a part of a word is not loaded.
        w(f"sub {_MIDDLE}, rax")
        w(f"vmovups {self.mixer.name(mask)}, [{_MIDDLE}]")
        w(f"and eax, {_WORD - 1}")
        w("neg eax")
        w(f"lea eax, [rax*8 + {8 * _WORD}]")
        w(f"vmovd xmm{mask - 1}, eax")

    def load_words(self, register: int, lane: int, part: int) -> None:
        """Load a row's tail of a word and more."""
        w, name, mask = self.w, self.mixer.name, self.words_mask
        target = mask - 2 if lane else register
        row, rest = name(target), name(self.temps[0])
        w(f"vmaskmovps {row}, {name(mask)}, {self.address(part)}")
        w(f"vbroadcastss {rest}, [rsi + {_LAST}]")
        w(f"vpsrld {rest}, {rest}, xmm{mask - 1}")
        w(f"vblendvps {row}, {rest}, {row}, {name(mask)}")
        self.mixer.put(register, lane, target)

    def prepare_short(self) -> None:
        """Load offsets and shifts for tails of less than a word; rax is the number of bytes."""
        w = self.w
        if self.mixer.item > 1:  # then there is one element
            return
        w(f"lea {_LAST}, [rax - 1]")
        w(f"mov {_MIDDLE}, rax")
        w(f"shr {_MIDDLE}, 1")
        # By a byte each where there are three, only the second where there are two.
        w(f"lea {_MIDDLE_SHIFT}, [{_MIDDLE}*8]")
        w(f"lea {_LAST_SHIFT}, [rax - 1]")
        w(f"shr {_LAST_SHIFT}, 1")
        w(f"shl {_LAST_SHIFT}, 3")

    def load_short(self, register: int, lane: int, part: int) -> None:
        """Load a row's tail of less than a word: its last, its middle and its first byte."""
        w = self.w
        del part  # a row of AVX2 is one
        target = self.words_mask - 2 if lane else register
        if self.mixer.item > 1:
            w("movzx eax, word ptr [rsi]")
        else:
            w(f"movzx eax, byte ptr [rsi + {_LAST}]")
            w(f"shlx eax, eax, {_LAST_SHIFT}d")
            w(f"or al, byte ptr [rsi + {_MIDDLE}]")
            w(f"shlx eax, eax, {_MIDDLE_SHIFT}d")
            w("or al, byte ptr [rsi]")
        w(f"vmovd xmm{target}, eax")
        self.mixer.put(register, lane, target)


def generate(kernel: Kernel) -> str:
    """Assembly text of the kernel that `kernel` describes."""
    return _Groups(kernel).generate()

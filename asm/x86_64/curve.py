"""Programs of one activation, in place on a block that was just stored.

`elementwise.c` computes the same. Here several vectors go through each step together, and a call of
few elements has little overhead. The block lies in L1, so the arithmetic takes most of the time.
Sigmoid and SiLU are quotients with
``exp(-|x|)``, which never overflows:

    sigmoid(x) = 1 / (1 + e),  silu(x) = x / (1 + e)              for x >= 0, e = exp(-x)
    sigmoid(x) = e / (1 + e),  silu(x) = x * e / (1 + e)          for x < 0,  e = exp(x)

For x < 0 the power of two in e = 2**n * p is applied to the quotient, last: e itself may be
subnormal or zero where x * e is not. See ``asm/exponential.py`` for the exponential. Both
instruction sets compute the same bits.

Error, in units of u = eps / 2, the largest of one rounding: with p = 1 + s, s = r * (1 + ...), r
contributes 1/4, the rounding of 1 + ... another 1/4, that of s 0.35. The numerator of SiLU,
y + y * s, adds 1, 1 + e and the quotient 1 each: 3.85 in all, where the contract allows 4. Sigmoid
has one rounding less. C without fused operations keeps what r lost to rounding and adds r to the
rest of s last, so that only the rounding of s, 0.35, and of that small rest, 0.15, are left of the
first three; y * s then adds 0.25 of its own: 3.75. Measured over every float32 with 2**-30 <
abs(x) < 110, in eps: sigmoid 1.49, SiLU 1.71; C 1.48 and 1.72.
"""

from __future__ import annotations

from asm.contract import CURVE, INSTRUCTIONS, STREAM
from asm.exponential import Exponential, exponential
from asm.registry import Kernel
from asm.x86_64.block import PER_VECTOR, Block
from asm.x86_64.emit import frame

LESS, NOT_EQUAL = 0x11, 0x04  # ordered and quiet; unordered: a NaN is not equal


class _Curve(Block):
    """Emits one kernel; the methods follow the order of the code."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.e: Exponential = exponential(kernel.dtype)
        self.word = "d" if self.v.size == 4 else "q"

    def generate(self) -> str:
        w = self.w
        for register, name in (("rsi", "rows"), ("r10", "columns"), ("rcx", "inputs")):
            w(f"mov {register}, [rdi + {CURVE.offset(name)}]")
        w("test rsi, rsi")
        w("jle .Ldone")
        w("test r10, r10")
        w("jle .Ldone")
        w(f"mov rax, [rdi + {CURVE.offset('code')}]")
        w("movzx edi, byte ptr [rax]")
        w(f"mov r8, {self.stream(0, 'data')}")
        w(f"mov r9, {self.stream(0, 'rs')}")
        w(f"cmp edi, {INSTRUCTIONS['SLOPE']}")
        w("jne .Lno_slope")
        w(f"mov r11, {self.stream(1, 'data')}")
        w(f"cmp dword ptr {self.stream(1, 'step')}, 0")
        w("jne .LSLOPE_OF_COLUMN")
        w(f"cmp qword ptr {self.stream(1, 'rs')}, 0")
        w("jne .LSLOPE_OF_ROW")
        w.label("no_slope")
        self.join_rows()
        for name in ("SLOPE", "HARDSWISH", "SIGMOID", "SILU"):
            w(f"cmp edi, {INSTRUCTIONS[name]}")
            w(f"je .L{name}")
        w.label("done")
        w("vzeroupper")
        w("ret")
        for name in ("SLOPE", "SLOPE_OF_ROW", "SLOPE_OF_COLUMN"):
            self.piecewise(name)
        self.hardswish()
        for name in ("SIGMOID", "SILU"):
            self.logistic(name)
        return frame(self.kernel, self.contract(), w.lines, self.rodata())

    @property
    def sign(self) -> str:
        """Memory operand of the sign bit in every lane."""
        return self.constant(1 << (8 * self.v.size - 1))

    def contract(self) -> list[str]:
        v = self.v
        return [
            f"{self.kernel.symbol}: {CURVE.summary}.",
            f"struct {CURVE.struct} * in rdi; elements may be unaligned.",
            "Reads and writes nothing outside the streams; the second one for SLOPE alone.",
            "",
            f"{v.reg(0)}-{v.reg(self.unroll * PER_VECTOR - 1)} {self.unroll} vectors under way:"
            " x, y, n, r, p of each",
            f"{', '.join(self.held)} constants, or slope, its mask and zero",
            "k1 tail mask, k2-k5 lanes below zero, k6 slopes that are not zero"
            if v.masked
            else f"{self.tail_mask} tail mask",
            "r8 row, r9 to the next row, rsi rows left, r10 columns, r11 slope;",
            "rax position in the row, rdx columns left, rcx slope of the column",
        ]

    def stream(self, number: int, member: str) -> str:
        """Memory operand of a member of an input, whose array begins at rcx."""
        return f"[rcx + {STREAM.offset(member, number)}]"

    def join_rows(self) -> None:
        """Join rows without a gap into one row, unless each row has its own slope."""
        w = self.w
        w(f"imul rax, r10, {self.v.size}")
        w("cmp rax, r9")
        w("jne .Lrows_apart")
        w("imul r10, rsi")
        w("mov esi, 1")
        w.label("rows_apart")

    def piecewise(self, name: str) -> None:
        """Multiply x below zero by a slope: one for all, one a row, or one a column."""
        w, v, s = self.w, self.v, self.v.suffix
        slope, slope_mask, zero = self.held
        columns = name == "SLOPE_OF_COLUMN"

        def nonzero(value: str, target: str) -> str:
            w(f"vcmp{s} {target}, {value}, {zero}, {NOT_EQUAL}")
            return target

        def one_slope() -> None:
            w(f"{v.broadcast} {slope}, [r11]")
            nonzero(slope, "k6" if v.masked else slope_mask)

        def row_slope() -> None:
            one_slope()
            w(f"add r11, {v.size}")

        def body(count: int, tail: bool) -> None:
            vectors = self.vectors(count)
            self.load_all(vectors, tail=tail)
            for i, (x, y, n, r, p) in enumerate(vectors):
                a, mask = slope, "k6" if v.masked else slope_mask
                negative = f"k{i + 2}" if v.masked else n
                if columns:
                    a = p
                    self.load(a, f"[rcx + {i * v.bytes}]", tail=tail)
                    mask = nonzero(a, negative if v.masked else r)
                # A zero slope gives zero: 0 * -inf would be NaN.
                if v.masked:
                    w(f"vmul{s} {y}{{{mask}}}{{z}}, {a}, {x}")
                else:
                    w(f"vmul{s} {y}, {a}, {x}")
                    w(f"vand{s} {y}, {y}, {mask}")
                w(f"vcmp{s} {negative}, {x}, {zero}, {LESS}")
                if v.masked:
                    w(f"vmova{s} {x}{{{negative}}}, {y}")
                else:
                    w(f"vblendv{s} {x}, {x}, {y}, {negative}")
            self.store_all([x for x, *_ in vectors], tail=tail)

        w.label(name)
        w(f"vxor{s} xmm{zero[3:]}, xmm{zero[3:]}, xmm{zero[3:]}")
        if name == "SLOPE":
            one_slope()
        self.loops(
            name,
            body,
            row_start=row_slope if name == "SLOPE_OF_ROW" else None,
            columns_counted=columns,
        )

    def hardswish(self) -> None:
        """Clip x itself at -3, so that -inf times 0 never happens."""
        w, s = self.w, self.v.suffix
        low, six, _ = self.held
        three, sixth = self.constant(3.0), self.constant(1 / 6)

        def body(count: int, tail: bool) -> None:
            vectors = self.vectors(count)
            self.load_all(vectors, tail=tail)
            # The second source of a minimum is returned when either is NaN.
            for x, *_ in vectors:
                w(f"vmax{s} {x}, {low}, {x}")
            for x, y, *_ in vectors:
                w(f"vadd{s} {y}, {x}, {three}")
            for _, y, *_ in vectors:
                w(f"vmin{s} {y}, {six}, {y}")
            for _, y, *_ in vectors:
                w(f"vmul{s} {y}, {y}, {sixth}")
            for x, y, *_ in vectors:
                w(f"vmul{s} {x}, {x}, {y}")
            self.store_all([x for x, *_ in vectors], tail=tail)

        w.label("HARDSWISH")
        self.hold(0, -3.0)
        self.hold(1, 6.0)
        self.loops("HARDSWISH", body)

    def logistic(self, name: str) -> None:
        """SIGMOID and SILU."""

        def body(count: int, tail: bool) -> None:
            vectors = self.vectors(count)
            self.load_all(vectors, tail=tail)
            silu = name == "SILU"
            self.exponential(vectors, silu=silu)
            finish = self.quotient_by_scale if self.v.masked else self.quotient_by_bits
            self.store_all(finish(vectors, silu=silu), tail=tail)

        self.w.label(name)
        self.hold(0, -self.e.limit)
        self.hold(1, self.e.magic)
        self.hold(2, 1.0)
        self.loops(name, body)

    def exponential(self, vectors: list[list[str]], *, silu: bool) -> None:
        """From x: y = -|x|, n (AVX-512: a number; AVX2: in the low bits), and p of exp(y).

        For SiLU, y becomes y * exp(r).
        """
        w, s, e = self.w, self.v.suffix, self.e
        lowest, magic, one = self.held
        for x, y, *_ in vectors:
            w(f"vor{s} {y}, {x}, {self.sign}")
        for _, y, *_ in vectors:
            w(f"vmax{s} {y}, {lowest}, {y}")  # the second source again: NaN stays
        for _, y, n, *_ in vectors:
            w(f"vmova{s} {n}, {y}")
            w(f"vfmadd132{s} {n}, {magic}, {self.constant(e.log2e)}")
        for _, y, n, r, p in vectors:
            number = n if self.v.masked else p
            w(f"vsub{s} {number}, {n}, {magic}")
            w(f"vmova{s} {r}, {y}")
            w(f"vfnmadd231{s} {r}, {number}, {self.constant(e.ln2_high)}")
            w(f"vfnmadd231{s} {r}, {number}, {self.constant(e.ln2_low)}")
        *lower, last = e.coefficients
        for *_, p in vectors:
            operand = self.constant(last).removesuffix(self.v.embedded)
            w(f"{self.v.broadcast} {p}, {operand}")
        for coefficient in (*reversed(lower), 1.0):
            for *_, r, p in vectors:
                w(f"vfmadd213{s} {p}, {r}, {self.constant(coefficient)}")
        for _, y, _, r, p in vectors:
            if silu:
                # y * s + y instead of y * (1 + s) avoids the rounding of 1 + s.
                w(f"vmul{s} {r}, {r}, {p}")
                w(f"vadd{s} {p}, {r}, {one}")
                w(f"vfmadd213{s} {y}, {r}, {y}")
            else:
                w(f"vfmadd213{s} {p}, {r}, {one}")

    def quotient_by_scale(self, vectors: list[list[str]], *, silu: bool) -> list[str]:
        """AVX-512: scale by n, masked to the lanes below zero."""
        w, s = self.w, self.v.suffix
        one = self.held[2]
        for i, (x, y, n, r, p) in enumerate(vectors):
            negative = f"{{k{i + 2}}}"  # by the sign, which -0.0 has too
            w(f"vpmov{self.word}2m k{i + 2}, {x}")
            w(f"vscalef{s} {r}, {p}, {n}")
            w(f"vadd{s} {r}, {r}, {one}")
            if silu:
                w(f"vmova{s} {x}{negative}, {y}")
            else:
                w(f"vblendm{s} {x}{negative}, {one}, {p}")
        for i, (x, _, n, r, _) in enumerate(vectors):
            w(f"vdiv{s} {x}, {x}, {r}")
            w(f"vscalef{s} {x}{{k{i + 2}}}, {x}, {n}")
            if silu:  # a zero has lost its sign
                w(f"vor{s} {x}{{k{i + 2}}}, {x}, {self.sign}")
        return [x for x, *_ in vectors]

    def quotient_by_bits(self, vectors: list[list[str]], *, silu: bool) -> list[str]:
        """AVX2: 2**n as two factors from exponent bits, since n may lie below all exponents."""
        w, s, word = self.w, self.v.suffix, self.word
        one = self.held[2]
        bias, mantissa = self.constant(self.e.bias), self.e.mantissa
        for x, y, n, r, p in vectors:
            # Bits above n's own drop out of the shift to the left.
            w(f"vpsrl{word} {r}, {n}, 1")
            w(f"vpsub{word} {n}, {n}, {r}")
            for half in (r, n):
                w(f"vpadd{word} {half}, {half}, {bias}")
                w(f"vpsll{word} {half}, {half}, {mantissa}")
            w(f"vmul{s} {p}, {p}, {r}")
            if silu:
                w(f"vmul{s} {y}, {y}, {r}")
            w(f"vmul{s} {r}, {p}, {n}")
            w(f"vadd{s} {r}, {r}, {one}")
            w(f"vblendv{s} {y}, {x if silu else one}, {y if silu else p}, {x}")
            w(f"vblendv{s} {n}, {one}, {n}, {x}")
        for x, y, n, r, p in vectors:
            w(f"vdiv{s} {y}, {y}, {r}")
            w(f"vmul{s} {y}, {y}, {n}")
            if silu:  # a zero has lost its sign
                w(f"vand{s} {p}, {x}, {self.sign}")
                w(f"vor{s} {y}, {y}, {p}")
        return [y for _, y, *_ in vectors]


def generate(kernel: Kernel) -> str:
    """Assembly text of the kernel of curves for the dtype and ISA of `kernel`."""
    return _Curve(kernel).generate()

"""Programs of one activation, in place on a block that was just stored.

The method and its error are those of ``asm/x86_64/curve.py``: the same operations in the same
order, so the same count of roundings (at most 2 eps of the exact value). Powers of two are made
from exponent bits, in two factors, since n may lie below all exponents.

Half precision is computed in single precision and rounded once more: half an eps and a little.
"""

from __future__ import annotations

from asm.aarch64.block import PER_VECTOR, UNROLL, Block
from asm.aarch64.emit import frame
from asm.contract import CURVE, INSTRUCTIONS, STREAM
from asm.exponential import Exponential, exponential
from asm.registry import Kernel

_SAVED = [f"d{r}" for r in range(8, 16)]
_LOWEST, _MAGIC, _ONE, _BIAS = range(4)  # constants in every lane
_LOG2E, _LN2_HIGH, _LN2_LOW, _COEFFICIENTS = range(4)  # constants in a lane each


class _Curve(Block):
    """Emits one kernel; the methods follow the order of the code."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.e: Exponential = exponential(self.v.dtype)

    def generate(self) -> str:
        w = self.w
        for register, name in (("x3", "rows"), ("x4", "columns"), ("x9", "inputs"), ("x7", "code")):
            w(f"ldr {register}, [x0, #{CURVE.offset(name)}]")
        w("cmp x3, #0")
        w("b.le .Lnothing")
        w("cmp x4, #0")
        w("b.le .Lnothing")
        w("sub sp, sp, #64")
        for index in range(0, 8, 2):
            w(f"stp {_SAVED[index]}, {_SAVED[index + 1]}, [sp, #{8 * index}]")
        w("ldrb w6, [x7]")
        w(f"ldr x1, {self.stream(0, 'data')}")
        w(f"ldr x2, {self.stream(0, 'rs')}")
        w(f"cmp w6, #{INSTRUCTIONS['SLOPE']}")
        w("b.ne .Lno_slope")
        w(f"ldr x5, {self.stream(1, 'data')}")
        w(f"ldr w7, {self.stream(1, 'step')}")
        w("cbnz w7, .LSLOPE_OF_COLUMN")
        w(f"ldr x7, {self.stream(1, 'rs')}")
        w("cbnz x7, .LSLOPE_OF_ROW")
        w.label("no_slope")
        self.join_rows()
        for name in ("SLOPE", "HARDSWISH", "SIGMOID", "SILU"):
            w(f"cmp w6, #{INSTRUCTIONS[name]}")
            w(f"b.eq .L{name}")
        w.label("done")
        for index in range(0, 8, 2):
            w(f"ldp {_SAVED[index]}, {_SAVED[index + 1]}, [sp, #{8 * index}]")
        w("add sp, sp, #64")
        w.label("nothing")
        w("ret")
        for name in ("SLOPE", "SLOPE_OF_ROW", "SLOPE_OF_COLUMN"):
            self.piecewise(name)
        self.hardswish()
        for name in ("SIGMOID", "SILU"):
            self.logistic(name)
        return frame(self.kernel, self.contract(), [*w.lines, *self.pool_lines()])

    def contract(self) -> list[str]:
        return [
            f"{self.kernel.symbol}: {CURVE.summary}.",
            f"struct {CURVE.struct} * in x0; elements may be unaligned.",
            "Reads and writes nothing outside the streams; the second one for SLOPE alone.",
            "",
            f"v0-v7, v16-v27 {UNROLL} vectors under way, {PER_VECTOR} registers each:",
            "x, y, n, r, p",
            "v28-v31, v8-v15 constants, or slope and where it is zero",
            "x1 row, x2 to the next row, x3 rows left, x4 columns, x5 slope;",
            "x7 position in the row, x8 columns left, x9 slope of the column",
        ]

    def stream(self, number: int, member: str) -> str:
        """Memory operand of a member of an input, whose array begins at x9."""
        return f"[x9, #{STREAM.offset(member, number)}]"

    def join_rows(self) -> None:
        """Join rows without a gap into one row, unless each row has its own slope."""
        w = self.w
        w(f"lsl x10, x4, #{self.storage.size.bit_length() - 1}")
        w("cmp x10, x2")
        w("b.ne .Lrows_apart")
        w("mul x4, x4, x3")
        w("mov x3, #1")
        w.label("rows_apart")

    def piecewise(self, name: str) -> None:
        """Multiply x below zero by a slope: one for all, one a row, or one a column."""
        w, v = self.w, self.v
        slope, no_slope = self.constant(0), self.constant(1)
        columns = name == "SLOPE_OF_COLUMN"

        def one_slope() -> None:
            if self.half:
                w("ldr h10, [x5]")
                w(f"fcvt s{slope}, h10")
                w(f"dup {v.all(slope)}, {v.lane(slope, 0)}")
            else:
                w(f"ld1r {{{v.all(slope)}}}, [x5]")
            w(f"fcmeq {v.all(no_slope)}, {v.all(slope)}, #0.0")

        def row_slope() -> None:
            one_slope()
            w(f"add x5, x5, #{self.storage.size}")

        def body(count: int, tail: bool) -> None:
            vectors = self.vectors(count)
            self.load_all(vectors, tail=tail)
            for i, (x, y, n, r, p) in enumerate(vectors):
                a, zero = slope, no_slope
                if columns:
                    a, zero = p, r
                    self.load(a, "x9", i, tail=tail)
                    w(f"fcmeq {v.all(zero)}, {v.all(a)}, #0.0")
                # A zero slope gives zero: 0 * -inf would be NaN.
                w(f"fmul {v.all(y)}, {v.all(a)}, {v.all(x)}")
                w(f"bic v{y}.16b, v{y}.16b, v{zero}.16b")
                w(f"fcmlt {v.all(n)}, {v.all(x)}, #0.0")
                w(f"bit v{x}.16b, v{y}.16b, v{n}.16b")
            self.store_all([x for x, *_ in vectors], tail=tail)

        w.label(name)
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
        w, v = self.w, self.v
        low, six, three = (v.all(self.constant(i)) for i in range(3))

        def body(count: int, tail: bool) -> None:
            vectors = self.vectors(count)
            self.load_all(vectors, tail=tail)
            for x, *_ in vectors:
                w(f"fmax {v.all(x)}, {v.all(x)}, {low}")  # NaN stays
            for x, y, *_ in vectors:
                w(f"fadd {v.all(y)}, {v.all(x)}, {three}")
            for _, y, *_ in vectors:
                w(f"fmin {v.all(y)}, {v.all(y)}, {six}")
            for _, y, *_ in vectors:
                w(f"fmul {v.all(y)}, {v.all(y)}, {self.element(0)}")
            for x, y, *_ in vectors:
                w(f"fmul {v.all(x)}, {v.all(x)}, {v.all(y)}")
            self.store_all([x for x, *_ in vectors], tail=tail)

        w.label("HARDSWISH")
        self.hold("HARDSWISH", [-3.0, 6.0, 3.0], [1 / 6])
        self.loops("HARDSWISH", body)

    def logistic(self, name: str) -> None:
        """SIGMOID and SILU."""

        def body(count: int, tail: bool) -> None:
            vectors = self.vectors(count)
            self.load_all(vectors, tail=tail)
            silu = name == "SILU"
            self.exponential(vectors, silu=silu)
            self.store_all(self.quotient(vectors, silu=silu), tail=tail)

        e = self.e
        self.w.label(name)
        whole: list[float | int] = [-e.limit, e.magic, 1.0, e.bias]
        self.hold(name, whole, [e.log2e, e.ln2_high, e.ln2_low, *e.coefficients])
        self.loops(name, body)

    def exponential(self, vectors: list[list[int]], *, silu: bool) -> None:
        """From x: n in the low bits of n, p of exp(y), y = -|x|; for SiLU y * exp(r) in y."""
        w, v = self.w, self.v
        magic, one = self.constant(_MAGIC), self.constant(_ONE)
        self.negative_of_magnitude(vectors)
        for _, y, n, *_ in vectors:
            w(f"mov v{n}.16b, v{magic}.16b")
            w(f"fmla {v.all(n)}, {v.all(y)}, {self.element(_LOG2E)}")
        for _, y, n, r, p in vectors:
            w(f"fsub {v.all(p)}, {v.all(n)}, {v.all(magic)}")
            w(f"mov v{r}.16b, v{y}.16b")
            w(f"fmls {v.all(r)}, {v.all(p)}, {self.element(_LN2_HIGH)}")
            w(f"fmls {v.all(r)}, {v.all(p)}, {self.element(_LN2_LOW)}")
        # Horner's rule by FMLA, which adds to its target: the polynomial goes from p to y and
        # back. It ends in p for SiLU and in y otherwise.
        *lower, last = range(_COEFFICIENTS, _COEFFICIENTS + len(self.e.coefficients))
        constants = [*(self.element(index) for index in reversed(lower)), ""]
        in_y = bool(len(constants) % 2) == silu
        for _, y, _, _, p in vectors:
            w(f"dup {v.all(y if in_y else p)}, {self.element(last)}")
        for constant in constants:
            for _, y, _, r, p in vectors:
                before, after = (y, p) if in_y else (p, y)
                copy = f"dup {v.all(after)}, {constant}"
                w(copy if constant else f"mov v{after}.16b, v{one}.16b")
                w(f"fmla {v.all(after)}, {v.all(before)}, {v.all(r)}")
            in_y = not in_y
        if silu:
            self.negative_of_magnitude(vectors)
        for _, y, _, r, p in vectors:
            if silu:
                # y * s + y instead of y * (1 + s) avoids the rounding of 1 + s.
                w(f"fmul {v.all(r)}, {v.all(r)}, {v.all(p)}")
                w(f"fadd {v.all(p)}, {v.all(r)}, {v.all(one)}")
                w(f"fmla {v.all(y)}, {v.all(y)}, {v.all(r)}")
            else:
                w(f"mov v{p}.16b, v{one}.16b")
                w(f"fmla {v.all(p)}, {v.all(y)}, {v.all(r)}")

    def negative_of_magnitude(self, vectors: list[list[int]]) -> None:
        """Make y = -|x|, but no less than where the exponential is zero; NaN stays."""
        w, v = self.w, self.v
        for x, y, *_ in vectors:
            w(f"fabs {v.all(y)}, {v.all(x)}")
        for _, y, *_ in vectors:
            w(f"fneg {v.all(y)}, {v.all(y)}")
        for _, y, *_ in vectors:
            w(f"fmax {v.all(y)}, {v.all(y)}, {v.all(self.constant(_LOWEST))}")

    def quotient(self, vectors: list[list[int]], *, silu: bool) -> list[int]:
        """Divide, and multiply by 2**n where x is below zero: by two factors from its bits."""
        w, v, mantissa = self.w, self.v, self.e.mantissa
        one, bias = self.constant(_ONE), v.all(self.constant(_BIAS))
        for x, y, n, r, p in vectors:
            # Bits above n's own drop out of the shift to the left.
            w(f"ushr {v.all(r)}, {v.all(n)}, #1")
            w(f"sub {v.all(n)}, {v.all(n)}, {v.all(r)}")
            for half in (r, n):
                w(f"add {v.all(half)}, {v.all(half)}, {bias}")
                w(f"shl {v.all(half)}, {v.all(half)}, #{mantissa}")
            w(f"fmul {v.all(p)}, {v.all(p)}, {v.all(r)}")
            if silu:
                w(f"fmul {v.all(y)}, {v.all(y)}, {v.all(r)}")
            w(f"fmul {v.all(r)}, {v.all(p)}, {v.all(n)}")
            w(f"fadd {v.all(r)}, {v.all(r)}, {v.all(one)}")
            negative = p if silu else y  # by the sign, which -0.0 has too
            w(f"cmlt {v.all(negative)}, {v.all(x)}, #0")
            w(f"bif v{n}.16b, v{one}.16b, v{negative}.16b")
            if silu:
                w(f"bif v{y}.16b, v{x}.16b, v{negative}.16b")
            else:
                w(f"bsl v{y}.16b, v{p}.16b, v{one}.16b")
        for _, y, n, r, p in vectors:
            w(f"fdiv {v.all(y)}, {v.all(y)}, {v.all(r)}")
            w(f"fmul {v.all(y)}, {v.all(y)}, {v.all(n)}")
            if silu:  # a zero has lost its sign
                w(f"shl {v.all(p)}, {v.all(p)}, #{8 * v.size - 1}")
                w(f"orr v{y}.16b, v{y}.16b, v{p}.16b")
        return [y for _, y, *_ in vectors]


def generate(kernel: Kernel) -> str:
    """Assembly text of the kernel of curves for the dtype of `kernel`."""
    return _Curve(kernel).generate()

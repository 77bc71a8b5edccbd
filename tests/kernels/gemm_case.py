"""One call of a GEMM kernel: drawn at random, laid out between guard pages, judged.

Three references judge it. ``ordered_gemm`` of the native half takes the contract word by word
and gives the very bits, fused for the assembly kernels and with two roundings a step for the
portable ones. float64 in NumPy shares nothing with either: NaN and the infinities must stand
where it has them, and finite elements must lie within the bound of their rounding errors.
The portable kernels, called over the same tile in pieces, must agree within twice that bound.

The bound: each of the k products, C, bias and residual is rounded at most k + 3 times, so
|x - exact| <= gamma(k + 4, u) (|C| + |A| |B| + |bias| + |residual|) with u the unit roundoff and
gamma(n, u) = n u / (1 - n u) (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed.,
section 3.1); underflow adds a smallest subnormal number for each operation.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

import numpy as np

from asm.contract import FLAGS
from guarded_memory import CANARY, PLACES, POISON, Buffer, extent_of
from kernel_checker import Checker
from kernel_table import BITS, DTYPES
from kernel_values import KINDS, draw

ACCUMULATE = FLAGS["ACCUMULATE"]
BIAS_ROW = FLAGS["BIAS_ROW"]
BIAS_COLUMN = FLAGS["BIAS_COLUMN"]
RESIDUAL = FLAGS["RESIDUAL"]
CLIP = FLAGS["CLIP"]
B_PADDED = FLAGS["B_PADDED"]
# A bias goes along the rows or along the columns, never both.
FLAG_COMBINATIONS = [
    flags
    for flags in range(1 << len(FLAGS))
    if flags & (BIAS_ROW | BIAS_COLUMN) != BIAS_ROW | BIAS_COLUMN
]
DEPTHS = (0, 1, 2, 3, 4, 5, 8, 17, 70, 71)
# How A lies: a packed panel; rows of pixels (an image, channels last); planes. The contract
# wants one of its two strides to be one element.
A_LAYOUTS = ("panel", "rows", "planes")
ANYWHERE = "middle"
# relu, relu6, bounds on both sides of most sums, bounds that nothing passes.
CLIPS = ((0.0, np.inf), (0.0, 6.0), (-0.75, 0.5), (-np.inf, 0.25), (1.0, 1.0))


@dataclass
class Case:
    """The shape of a call; strides in bytes."""

    n: int
    k: int
    flags: int
    kind: str
    place: str
    a_layout: str
    a_rs: int = 0
    a_ks: int = 0
    b_ks: int = 0
    c_rs: int = 0
    residual_rs: int = 0
    offsets: tuple[int, ...] = field(default=(0,) * 6)


def draw_case(rng: np.random.Generator, row: dict, **fixed: object) -> Case:
    """Draw a case for the kernel `row`; what `fixed` names is not drawn."""
    size = DTYPES[row["dtype"]].itemsize
    mr, nr = row["mr"], row["nr"]
    case = Case(
        n=int(rng.integers(1, nr + 1)),
        k=int(rng.choice(DEPTHS)),
        flags=int(rng.choice(FLAG_COMBINATIONS)),
        kind=str(rng.choice(KINDS)),
        place=str(rng.choice(PLACES)),
        a_layout=str(rng.choice(A_LAYOUTS)),
    )
    for name, value in fixed.items():
        setattr(case, name, value)
    gaps = rng.integers(0, 9, 6) * rng.integers(0, 2, 6)
    case.a_rs, case.a_ks = {
        "panel": (1, mr + gaps[0]),
        "rows": (case.k + gaps[0], 1),
        "planes": (1, mr + 40 + gaps[0]),
    }[case.a_layout]
    case.a_rs, case.a_ks = int(case.a_rs) * size, int(case.a_ks) * size
    b_row = nr if case.flags & B_PADDED else case.n
    case.b_ks = int(b_row + gaps[2]) * size
    case.c_rs = int(case.n + gaps[3]) * size
    case.residual_rs = int(case.n + gaps[4]) * size
    if case.place == ANYWHERE:
        # The contract promises any alignment, down to the byte.
        case.offsets = tuple(int(x) for x in rng.integers(0, 64, 6))
    return case


class Call:
    """A case laid out in memory, ready to be made."""

    def __init__(self, checker: Checker, row: dict, case: Case, rng: np.random.Generator) -> None:
        self.checker, self.row, self.case = checker, row, case
        self.dtype = DTYPES[row["dtype"]]
        size, mr, n = self.dtype.itemsize, row["mr"], case.n
        self.values = {
            name: getattr(case, name) for name in ("k", "a_rs", "a_ks", "b_ks", "c_rs", "n")
        }
        self.values |= {"residual_rs": case.residual_rs, "flags": case.flags}
        # Prefetching reaches beyond B, and must not fault there.
        self.values["b_ahead"] = int(rng.integers(0, 1 << 20)) * int(rng.integers(0, 2))
        b_row = row["nr"] if case.flags & B_PADDED else n
        self.a = self._input("a", (mr, case.k), (case.a_rs, case.a_ks), rng)
        # With B_PADDED the padding is poison: readable, but nothing of it may reach C.
        b = self._place("b", extent_of((case.k, b_row), (case.b_ks, size), size), 1)
        self.b = b.array((case.k, n), self.dtype, (case.b_ks, size))
        self.b[...] = draw(rng, case.kind, self.b.shape, self.dtype)
        self.bias = self.residual = self.clip = None
        if case.flags & (BIAS_ROW | BIAS_COLUMN):
            length = mr if case.flags & BIAS_ROW else n
            self.bias = self._input("bias", (length,), (size,), rng, 3)
        if case.flags & RESIDUAL:
            strides = (case.residual_rs, size)
            self.residual = self._input("residual", (mr, n), strides, rng, 4)
        if case.flags & CLIP:
            self.clip = self._input("clip", (2,), (size,), rng, 5)
            self.clip[...] = CLIPS[int(rng.integers(len(CLIPS)))]
        self.buffer, self.c = self._output("c", rng)

    def _place(self, name: str, extent: int, index: int, *, writable: bool = False) -> Buffer:
        arena = self.checker.arena(name, writable=writable)
        buffer = arena.buffer(extent, self.case.place, self.case.offsets[index])
        buffer.fill(CANARY if writable else POISON)
        self.values[name.removesuffix(" of portable")] = buffer.address
        return buffer

    def _input(
        self,
        name: str,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        rng: np.random.Generator,
        index: int = 0,
    ) -> np.ndarray:
        buffer = self._place(name, extent_of(shape, strides, self.dtype.itemsize), index)
        array = buffer.array(shape, self.dtype, strides)
        array[...] = draw(rng, self.case.kind, shape, self.dtype)
        return array

    def _output(self, name: str, rng: np.random.Generator) -> tuple[Buffer, np.ndarray]:
        shape, size = (self.row["mr"], self.case.n), self.dtype.itemsize
        strides = (self.case.c_rs, size)
        buffer = self._place(name, extent_of(shape, strides, size), 2, writable=True)
        c = buffer.array(shape, self.dtype, strides)
        if self.case.flags & ACCUMULATE:
            c[...] = draw(rng, self.case.kind, shape, self.dtype)
        else:
            c[...] = np.nan
        return buffer, c

    def ordered(self) -> np.ndarray:
        """The bits that the contract's order of operations gives."""
        out = np.empty((self.row["mr"], self.case.n), self.dtype)
        reference = getattr(self.checker.native, f"ordered_gemm_{self.row['dtype']}")
        reference(
            ctypes.c_void_p(self.checker.arguments("gemm", self.values)),
            ctypes.c_int64(self.row["mr"]),
            ctypes.c_int64(self.row["isa"] != "portable"),
            ctypes.c_void_p(out.ctypes.data),
        )
        return out

    def exact(self) -> tuple[np.ndarray, np.ndarray]:
        """The result in float64, and how far rounding may take a kernel from it."""
        terms = [self.bias, self.residual]
        if self.case.flags & BIAS_ROW:
            terms[0] = self.bias[:, np.newaxis]
        if self.case.flags & ACCUMULATE:
            terms.append(self.c)
        a, b = self.a.astype(np.float64), self.b.astype(np.float64)
        x, magnitude = a @ b, np.abs(a) @ np.abs(b)
        for term in terms:
            if term is not None:
                x = x + term
                magnitude = magnitude + np.abs(term)
        if self.clip is not None:
            low, high = self.clip.astype(np.float64)
            x = np.where(x < low, low, np.where(x > high, high, x))
        info, roundings = np.finfo(self.dtype), self.case.k + 4
        # The float64 sum has an error of its own, which matters for float64 kernels only.
        unit = [float(info.eps) / 2, float(np.finfo(np.float64).eps) / 2]
        growth = sum(roundings * u / (1 - roundings * u) for u in unit)
        return x, growth * magnitude + 2 * roundings * float(info.smallest_subnormal)

    def run(self) -> np.ndarray:
        """Call the kernel; give what it made of C after looking for traces elsewhere."""
        initial, before = self.c.copy(), self.buffer.surroundings.copy()
        self.checker.call(self.row, self.values, self.case)
        result = self.c.copy()
        self.c[...] = initial
        same = np.array_equal(self.buffer.surroundings, before)
        assert same, f"{self.row['symbol']} wrote outside its columns of C\n{self.case}"
        return result

    def run_portable(self, portable: dict, rng: np.random.Generator) -> np.ndarray:
        """Compute the same C with the portable kernels, piece by piece."""
        size, case, nr = self.dtype.itemsize, self.case, portable[1]["nr"]
        whole = dict(self.values)
        initial = self.c.copy()
        _, c = self._output("c of portable", rng)
        c[...] = initial
        whole["c"], self.values["c"] = self.values["c"], whole["c"]
        for m in range(0, self.row["mr"], len(portable)):
            for n in range(0, case.n, nr):
                piece = dict(whole)
                rows = min(len(portable), self.row["mr"] - m)
                piece["n"] = min(nr, case.n - n)
                piece["a"] += m * case.a_rs
                piece["b"] += n * size
                piece["c"] += m * case.c_rs + n * size
                if self.bias is not None:
                    piece["bias"] += (m if case.flags & BIAS_ROW else n) * size
                if self.residual is not None:
                    piece["residual"] += m * case.residual_rs + n * size
                self.checker.call(portable[rows], piece, case)
        return c.copy()

    def same_bits(self, got: np.ndarray, expected: np.ndarray) -> None:
        """Fail unless every element has the expected bits, any NaN for a NaN."""
        bits = BITS[self.row["dtype"]]
        differ = got.view(bits) != expected.view(bits)
        if differ.any():
            differ &= ~(np.isnan(got) & np.isnan(expected))
        if differ.any():
            where = tuple(int(i[0]) for i in np.nonzero(differ))
            raise AssertionError(
                f"{self.row['symbol']}: {np.count_nonzero(differ)} of {got.size} elements have "
                f"other bits; at {where} {got[where]!r}, expected {expected[where]!r}\n{self.case}"
            )

    def near(self, got: np.ndarray, expected: np.ndarray, bound: np.ndarray) -> None:
        """Fail unless `got` is within `bound`, NaN and infinities standing where expected."""
        name = f"{self.row['symbol']}\n{self.case}"
        np.testing.assert_array_equal(np.isnan(got), np.isnan(expected), f"NaN: {name}")
        infinite = np.isinf(expected)
        np.testing.assert_array_equal(np.isinf(got), infinite, f"infinities: {name}")
        np.testing.assert_array_equal(got[infinite], expected[infinite], f"infinities: {name}")
        finite = np.isfinite(expected)
        error = np.abs(got[finite].astype(np.float64) - expected[finite])
        assert np.all(error <= bound[finite]), f"{name}: error {error.max()}"

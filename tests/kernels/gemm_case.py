"""One call of a GEMM kernel: drawn at random, laid out between guard pages, judged.

Three references judge it. ``ordered_gemm`` of the native half follows the contract word by word
and gives the exact bits, fused for the assembly kernels and with two roundings a step for the
portable ones; ``half_gemm`` does so for half precision, ``narrow_gemm`` for integers and, as far as
the bits are known, for bfloat16. float64 in NumPy shares no code with either: NaN and infinities
must be at the same places, and finite elements within the bound of their rounding errors.
The portable kernels, called over the same tile in pieces, must agree within twice that bound.

The bound: each of the k products (of all segments), C, bias and residual is rounded at most
k + 3 times, so |x - exact| <= gamma(k + 4, u) (|C| + |A| |B| + |bias| + |residual|) with u the unit
roundoff and
gamma(n, u) = n u / (1 - n u) (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed.,
section 3.1); underflow adds a smallest subnormal number for each operation.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from asm.contract import FLAGS
from asm.registry import PRODUCTS, ROUNDING_TILES
from tests.kernels.guarded_memory import CANARY, PLACES, POISON, Buffer, extent_of
from tests.kernels.half_gemm import ordered_sum
from tests.kernels.kernel_checker import Checker
from tests.kernels.kernel_table import BITS, DTYPES
from tests.kernels.kernel_values import KINDS, pick
from tests.kernels.narrow_gemm import (
    TINY,
    draw_stored,
    group_bytes,
    is_integer,
    known_sum,
    rounded,
    widened,
)

ACCUMULATE = FLAGS["ACCUMULATE"]
BIAS_ROW = FLAGS["BIAS_ROW"]
BIAS_COLUMN = FLAGS["BIAS_COLUMN"]
RESIDUAL = FLAGS["RESIDUAL"]
CLIP = FLAGS["CLIP"]
B_PADDED = FLAGS["B_PADDED"]
STORE_BF16 = FLAGS["STORE_BF16"]
# A bias goes along the rows or along the columns, never both.
FLAG_COMBINATIONS = [
    flags
    for flags in range(STORE_BF16)
    if flags & (BIAS_ROW | BIAS_COLUMN) != BIAS_ROW | BIAS_COLUMN
]
# Integers get the rest of their epilogue from `requantize`.
INTEGER_FLAGS = [flags for flags in FLAG_COMBINATIONS if not flags & ~(ACCUMULATE | B_PADDED)]
# Of kernels that can store bfloat16.
ROUNDING_FLAGS = FLAG_COMBINATIONS + [
    flags | STORE_BF16 for flags in FLAG_COMBINATIONS if not flags & ACCUMULATE
]
DEPTHS = (0, 1, 2, 3, 4, 5, 8, 17, 70, 71)
# Layouts of A: a packed panel; rows of pixels (an image, channels last); planes. By the contract,
# one of the two strides is one element.
A_LAYOUTS = ("panel", "rows", "planes")
ANYWHERE = "middle"
# Layouts of C and of the residual: row-major; blocks of channels (NCHWc); a gap after each vector.
C_LAYOUTS = ("rows", "blocks", "gaps")
SEGMENT_COUNTS = range(10)
# Segments of A and of B begin within this many bytes. They may overlap, in any order.
SEGMENT_ROOM = 6000
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
    c_layout: str
    segment_count: int
    segments: list[tuple[int, int]] = field(default_factory=list)
    a_rs: int = 0
    a_ks: int = 0
    b_ks: int = 0
    c_rs: int = 0
    c_vs: int = 0
    residual_rs: int = 0
    residual_vs: int = 0
    # The operand, "a" or "b", that is zero beyond k in the last group.
    zeros: str = "b"
    offsets: tuple[int, ...] = field(default=(0,) * 7)

    @property
    def depth(self) -> int:
        """Length of the whole sum."""
        return self.k * max(self.segment_count, 1)


def vector_strides(layout: str, mr: int, n: int, vector: int, size: int, gap: int) -> tuple:
    """Strides of C or the residual, from row to row and from vector to vector, in bytes."""
    vectors = -(-n * size // vector)
    if layout == "rows":
        return (n + gap) * size, vector
    if layout == "blocks":
        row = vector + gap * size
        return row, mr * row + gap * size
    return vectors * (vector + gap * size), vector + gap * size


def draw_segments(rng: np.random.Generator, count: int, size: int) -> list[tuple[int, int]]:
    """Draw where segments begin in A and B, in bytes from the first one in memory."""
    starts = []
    for _ in range(2):
        room = pick(rng, [1, 50, SEGMENT_ROOM // size])
        drawn = rng.integers(0, room, count) * size
        starts.append(drawn - drawn.min() if count else drawn)
    return [(int(a), int(b)) for a, b in zip(*starts, strict=True)]


def flag_combinations(row: dict) -> list[int]:
    """Sets of flags that the kernel `row` takes."""
    if row["op"] == "gemm" and (row["isa"], row["dtype"]) in ROUNDING_TILES:
        return ROUNDING_FLAGS
    return INTEGER_FLAGS if is_integer(row) else FLAG_COMBINATIONS


def stored_type(row: dict, flags: int) -> str:
    """Give the type of C and of the residual."""
    return "bf16" if flags & STORE_BF16 else PRODUCTS[row["dtype"]].sum


def draw_case(rng: np.random.Generator, row: dict, **fixed: object) -> Case:
    """Draw a case for the kernel `row`; `fixed` sets some members of it."""
    group = group_bytes(row)
    mr, nr = row["mr"], row["nr"]
    case = Case(
        n=int(rng.integers(1, nr + 1)),
        k=pick(rng, DEPTHS),
        flags=pick(rng, flag_combinations(row)),
        kind=pick(rng, KINDS),
        place=pick(rng, PLACES),
        a_layout=pick(rng, A_LAYOUTS),
        c_layout=pick(rng, C_LAYOUTS),
        segment_count=pick(rng, SEGMENT_COUNTS) * int(rng.integers(0, 2)),
        zeros=pick(rng, ["a", "b"]),
    )
    for name, value in fixed.items():
        setattr(case, name, value)
    case.segments = draw_segments(rng, case.segment_count, group)
    gaps = [int(gap) for gap in rng.integers(0, 9, 5) * rng.integers(0, 2, 5)]
    case.a_rs, case.a_ks = {
        "panel": (1, mr + gaps[0]),
        "rows": (-(-case.k // row["kr"]) + gaps[0], 1),
        "planes": (1, mr + 40 + gaps[0]),
    }[case.a_layout]
    case.a_rs, case.a_ks = case.a_rs * group, case.a_ks * group
    b_row = nr if case.flags & B_PADDED else case.n
    case.b_ks = (b_row + gaps[2]) * group
    lanes = row["vector_bytes"] // DTYPES[PRODUCTS[row["dtype"]].sum].itemsize
    size = DTYPES[stored_type(row, case.flags)].itemsize
    shape = mr, case.n, lanes * size, size
    case.c_rs, case.c_vs = vector_strides(case.c_layout, *shape, gaps[3])
    layout = pick(rng, C_LAYOUTS)
    case.residual_rs, case.residual_vs = vector_strides(layout, *shape, gaps[4])
    if case.place == ANYWHERE:
        # The contract allows any alignment, down to the byte.
        case.offsets = tuple(int(x) for x in rng.integers(0, 64, 7))
    return case


@dataclass
class Matrix:
    """A matrix within a buffer; `index` has the place of each element, row by row."""

    buffer: Buffer
    elements: np.ndarray
    index: np.ndarray

    def read(self) -> np.ndarray:
        """Copy the matrix out."""
        return self.elements[self.index]

    def write(self, values: np.ndarray | float) -> None:
        """Set the matrix."""
        self.elements[self.index] = values


class Call:
    """A case laid out in memory, ready to be made."""

    def __init__(self, checker: Checker, row: dict, case: Case, rng: np.random.Generator) -> None:
        self.checker, self.row, self.case = checker, row, case
        self.product = PRODUCTS[row["dtype"]]
        self.dtype = DTYPES[self.product.sum]
        self.stored_type = stored_type(row, case.flags)
        self.lanes = row["vector_bytes"] // self.dtype.itemsize
        mr, n = row["mr"], case.n
        names = ("segment_count", "k", "a_rs", "a_ks", "b_ks", "c_rs", "c_vs", "n")
        self.values = {name: getattr(case, name) for name in (*names, "flags")}
        self.values |= {"residual_rs": case.residual_rs, "residual_vs": case.residual_vs}
        # Prefetches beyond the end of B must not fault.
        self.values["b_ahead"] = int(rng.integers(0, 1 << 20)) * int(rng.integers(0, 2))
        self.values["b_ahead_ks"] = int(rng.integers(0, 1 << 10)) * int(rng.integers(0, 2))
        b_row = row["nr"] if case.flags & B_PADDED else n
        starts = case.segments or [(0, 0)]
        # All segments side by side, in the order of the sum. With B_PADDED the padding is poison
        # (or part of another segment): readable, but it must not influence C.
        kr = row["kr"]
        element, group, groups = group_bytes(row) // kr, group_bytes(row), -(-case.k // kr)
        a_shape, a_strides = (mr, groups, kr), (case.a_rs, case.a_ks, element)
        a = self._segments("a", 0, starts, [(a_shape, a_strides)] * 2, rng)
        self.a = widened(np.concatenate(a, axis=1), self.product.a).reshape(mr, -1)
        b_strides = (case.b_ks, group, element)
        shapes = [((groups, n, kr), b_strides), ((groups, b_row, kr), b_strides)]
        b = self._segments("b", 1, starts, shapes, rng)
        whole = widened(np.concatenate(b, axis=0), self.product.b)
        self.b = whole.transpose(0, 2, 1).reshape(-1, n)
        self.stored = a, b
        if case.segments:
            self._place_segments(rng)
        self._place_rest(rng, mr if case.flags & BIAS_ROW else n)

    def _place_rest(self, rng: np.random.Generator, length: int) -> None:
        """Place C and the operands of the epilogue: a bias of `length`, residual and clip."""
        case = self.case
        self.bias = self.residual = self.clip = None
        if case.flags & (BIAS_ROW | BIAS_COLUMN):
            self.bias = self._input("bias", length, rng, 3)
        if case.flags & RESIDUAL:
            residual = self._matrix("residual", (case.residual_rs, case.residual_vs), 4)
            shape = residual.index.shape
            residual.write(draw_stored(rng, case.kind, shape, self.stored_type))
            self.residual = self._computed(residual.read())
        if case.flags & CLIP:
            self.clip = self._input("clip", 2, rng, 5)
            self.clip[...] = CLIPS[int(rng.integers(len(CLIPS)))]
        self.c = self._output("c", rng)

    def _place(
        self, name: str, extent: int, index: int, *, writable: bool = False, unit: int = 1
    ) -> Buffer:
        arena = self.checker.arena(name, writable=writable)
        offset = self.case.offsets[index] // unit * unit
        buffer = arena.buffer(extent, self.case.place, offset)
        buffer.fill(CANARY if writable else POISON)
        self.values[name.split(" of ")[0]] = buffer.address
        return buffer

    def _input(self, name: str, length: int, rng: np.random.Generator, index: int) -> np.ndarray:
        size = self.dtype.itemsize
        array = self._place(name, length * size, index).array((length,), self.dtype, (size,))
        array[...] = self._drawn(rng, (length,))
        return array

    def _drawn(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return draw_stored(rng, self.case.kind, shape, self.product.sum)

    def _computed(self, values: np.ndarray) -> np.ndarray:
        """Elements of C or the residual in the type of sums."""
        return values if self.stored_type == self.product.sum else widened(values, self.stored_type)

    def _segments(
        self,
        name: str,
        which: int,
        starts: list[tuple[int, int]],
        shapes: list[tuple[tuple[int, int], tuple[int, int]]],
        rng: np.random.Generator,
    ) -> list[np.ndarray]:
        """Draw A or B of every segment into one buffer; `shapes`: the used part, the read part."""
        (shape, strides), readable = shapes
        kind = getattr(self.product, name)
        dtype = DTYPES[kind]
        first = [start[which] for start in starts]
        extent = extent_of(*readable, dtype.itemsize)
        buffer = self._place(name, extent + max(first) if extent else 0, which)
        if not extent:
            return [np.empty(shape, dtype)]
        views = [buffer.array(shape, dtype, strides, start) for start in first]
        drawn = draw_stored(rng, self.case.kind, (len(views), *shape), kind)
        for view, values in zip(views, drawn, strict=True):
            view[...] = values
        # Last, since segments may overlap: set the elements beyond k in the last group of each.
        if rest := self.case.k % self.row["kr"]:
            last = (-1, slice(None)) if name == "b" else (slice(None), -1)
            for view in views:
                beyond = view[(*last, slice(rest, None))]
                beyond[...] = 0
                if name != self.case.zeros:
                    beyond[...] = draw_stored(rng, "random", beyond.shape, kind)
        return [view.copy() for view in views]

    def _place_segments(self, rng: np.random.Generator) -> None:
        """Write the table of segments; its offsets count from a random origin."""
        table = np.array(self.case.segments, np.int64)
        buffer = self._place("segments", table.nbytes, 6, unit=8)
        for column, name in enumerate(("a", "b")):
            origin = int(rng.integers(-(1 << 40), 1 << 40)) * int(rng.integers(0, 2))
            self.values[name] += origin
            table[:, column] -= origin
        buffer.array(table.shape, table.dtype, table.strides)[...] = table

    def _matrix(
        self, name: str, strides: tuple[int, int], index: int, *, writable: bool = False
    ) -> Matrix:
        """Place C or the residual: whole vectors; the last one ends with column n."""
        dtype, mr, n = DTYPES[self.stored_type], self.row["mr"], self.case.n
        size = dtype.itemsize
        rows, columns = np.ogrid[:mr, :n]
        first = rows * strides[0] + columns // self.lanes * strides[1]
        index_of = first // size + columns % self.lanes
        count = int(index_of.max()) + 1
        buffer = self._place(name, count * size, index, writable=writable)
        return Matrix(buffer, buffer.array((count,), dtype, (size,)), index_of)

    def _output(self, name: str, rng: np.random.Generator) -> Matrix:
        c = self._matrix(name, (self.case.c_rs, self.case.c_vs), 2, writable=True)
        accumulate = self.case.flags & ACCUMULATE
        unread = np.nan if DTYPES[self.stored_type].kind == "f" else CANARY
        c.write(self._drawn(rng, c.index.shape) if accumulate else unread)
        return c

    def ordered(self) -> np.ndarray | None:
        """The bits that the contract's order of operations gives; None if they are not known."""
        if self.dtype == np.float16 or self.row["kr"] > 1:
            return self.ordered_here()
        return self.ordered_by_contract(self.values)

    def ordered_by_contract(self, values: dict[str, int]) -> np.ndarray:
        """The bits that the native half gives for a GEMM with these arguments."""
        out = np.empty((self.row["mr"], self.case.n), self.dtype)
        reference = getattr(self.checker.native, f"ordered_gemm_{self.row['dtype']}")
        reference(
            ctypes.c_void_p(self.checker.arguments("gemm", values)),
            ctypes.c_int64(self.row["mr"]),
            ctypes.c_int64(self.lanes),
            ctypes.c_int64(self.row["isa"] != "portable"),
            ctypes.c_void_p(out.ctypes.data),
        )
        return out

    def ordered_here(self) -> np.ndarray | None:
        """The same for half precision and narrow types, with sums from their own modules."""
        shape = self.row["mr"], self.case.n
        accumulate = self.case.flags & ACCUMULATE
        x = self.sums(self.c.read() if accumulate else np.zeros(shape, self.dtype))
        if x is None:
            return None
        if self.bias is not None:
            x = x + (self.bias[:, np.newaxis] if self.case.flags & BIAS_ROW else self.bias)
        if self.residual is not None:
            x = x + self.residual
        if self.clip is not None:
            low, high = self.clip
            x = np.where(x < low, low, x)
            x = np.where(x > high, high, x)
        x = np.ascontiguousarray(x)
        return self._computed(rounded(x)) if self.case.flags & STORE_BF16 else x

    def sums(self, start: np.ndarray) -> np.ndarray | None:
        """`start` plus the products, before the epilogue; None if the bits are not known."""
        if self.dtype == np.float16:
            return ordered_sum(self.a, self.b, start, max(self.case.segment_count, 1))
        return known_sum(self.checker.native, self.row, self.a, self.b, start)

    def exact(self) -> tuple[np.ndarray, np.ndarray]:
        """The result in float64, and the bound of the rounding errors."""
        terms = [self.bias, self.residual]
        if self.case.flags & BIAS_ROW:
            terms[0] = self.bias[:, np.newaxis]
        if self.case.flags & ACCUMULATE:
            terms.append(self.c.read())
        a, b = self.a.astype(np.float64), self.b.astype(np.float64)
        x, magnitude = a @ b, np.abs(a) @ np.abs(b)
        for term in terms:
            if term is not None:
                x = x + term
                magnitude = magnitude + np.abs(term)
        if self.clip is not None:
            low, high = self.clip.astype(np.float64)
            x = np.where(x < low, low, np.where(x > high, high, x))
        if is_integer(self.row):
            raise TypeError("integers are exact: see `ordered`")
        info, roundings = np.finfo(self.dtype), self.a.shape[1] + 4
        # Products of bfloat16 may flush subnormal numbers.
        lost = TINY if self.row["kr"] > 1 else float(info.smallest_subnormal)
        # The float64 reference has rounding errors, too; they matter for float64 kernels only.
        unit = [float(info.eps) / 2, float(np.finfo(np.float64).eps) / 2]
        growth = sum(roundings * u / (1 - roundings * u) for u in unit)
        bound = growth * magnitude + 2 * roundings * lost
        if self.case.flags & STORE_BF16:
            bound = bound + (np.abs(x) + bound) * 2.0**-8
        return x, bound

    def run(self, execute: Callable[[Call], None] | None = None) -> np.ndarray:
        """Call the kernel (by `execute`), check that it wrote nothing else, and give C."""
        initial, before = self.c.read(), self.c.buffer.surroundings.copy()
        if execute is None:
            self.checker.call(self.row, self.values, self.case)
        else:
            execute(self)
        result = self.c.read()
        self.c.write(initial)
        same = np.array_equal(self.c.buffer.surroundings, before)
        assert same, f"{self.row['symbol']} wrote outside its columns of C\n{self.case}"
        return self._computed(result)

    def run_unrounded(self) -> np.ndarray:
        """Run a kernel that stores bfloat16, and store the sums in their own type instead."""
        whole, stored = dict(self.values), self.stored_type
        self.stored_type = self.product.sum
        size, mr, n = self.dtype.itemsize, self.row["mr"], self.case.n
        strides = vector_strides("rows", mr, n, self.lanes * size, size, 0)
        c = self._matrix("c of sums", strides, 2, writable=True)
        self.values["c_rs"], self.values["c_vs"] = strides
        if self.residual is not None:
            self._matrix("residual of sums", strides, 4).write(self.residual)
            self.values["residual_rs"], self.values["residual_vs"] = strides
        self.values["flags"] &= ~STORE_BF16
        self.checker.call(self.row, self.values, self.case)
        self.values, self.stored_type = whole, stored
        return c.read()

    def run_portable(self, portable: dict, rng: np.random.Generator) -> np.ndarray:
        """Compute the same C with the portable kernels, piece by piece."""
        size, case, nr = self.dtype.itemsize, self.case, portable[1]["nr"]
        vector = portable[1]["vector_bytes"]
        whole = dict(self.values)
        c = self._output("c of portable", rng)
        c.write(self.c.read())
        whole["c"], self.values["c"] = self.values["c"], whole["c"]
        for m in range(0, self.row["mr"], len(portable)):
            for n in range(0, case.n, nr):
                column, lane = n // self.lanes, n % self.lanes * size
                piece = dict(whole)
                if vector < self.lanes * size:  # several vectors fit in one of the kernel's
                    piece |= {"c_vs": vector, "residual_vs": vector}
                rows = min(len(portable), self.row["mr"] - m)
                piece["n"] = min(nr, case.n - n)
                if n + nr > self.row["nr"]:
                    piece["flags"] &= ~B_PADDED  # wider than the tile that B was padded for
                piece["a"] += m * case.a_rs
                piece["b"] += n * size
                piece["c"] += m * case.c_rs + column * case.c_vs + lane
                if self.bias is not None:
                    piece["bias"] += (m if case.flags & BIAS_ROW else n) * size
                if self.residual is not None:
                    piece["residual"] += m * case.residual_rs + column * case.residual_vs + lane
                self.checker.call(portable[rows], piece, case)
        return c.read()

    def same_bits(self, got: np.ndarray, expected: np.ndarray) -> None:
        """Fail unless every element has the expected bits; any NaN equals any other."""
        bits = BITS.get(self.product.sum, self.dtype)
        differ = got.view(bits) != expected.view(bits)
        if differ.any():
            differ &= ~((got != got) & (expected != expected))
        if differ.any():
            where = tuple(int(i[0]) for i in np.nonzero(differ))
            raise AssertionError(
                f"{self.row['symbol']}: {np.count_nonzero(differ)} of {got.size} elements have "
                f"other bits; at {where} {got[where]!r}, expected {expected[where]!r}\n{self.case}"
            )

    def near(self, got: np.ndarray, expected: np.ndarray, bound: np.ndarray) -> None:
        """Fail unless `got` is within `bound`, with NaN and infinities at the expected places."""
        name = f"{self.row['symbol']}\n{self.case}"
        np.testing.assert_array_equal(np.isnan(got), np.isnan(expected), f"NaN: {name}")
        infinite = np.isinf(expected)
        np.testing.assert_array_equal(np.isinf(got), infinite, f"infinities: {name}")
        np.testing.assert_array_equal(got[infinite], expected[infinite], f"infinities: {name}")
        finite = np.isfinite(expected)
        error = np.abs(got[finite].astype(np.float64) - expected[finite])
        assert np.all(error <= bound[finite]), f"{name}: error {error.max()}"

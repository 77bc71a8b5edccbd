"""One call of a kernel of sparse weights: drawn at random, laid out between guard pages, judged.

A sum over terms is a GEMM whose segments are one step long: the weights of a term are one column
of A (or one row of B), and the input at its k is the other factor. So what judges GEMM judges these
kernels: ``ordered_gemm`` gives the very bits of floating point, 64-bit sums those of integers, and
float64 bounds both (``gemm_case.py``).

The input is there where terms lead, and nowhere else: its buffer begins with the first element that
a term reads and ends with the last, and what lies between is poison.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

import numpy as np

from asm.registry import PRODUCTS
from gemm_case import (
    ANYWHERE,
    B_PADDED,
    C_LAYOUTS,
    Call,
    flag_combinations,
    vector_strides,
)
from guarded_memory import PLACES, extent_of
from kernel_checker import Checker
from kernel_values import KINDS
from narrow_gemm import STORED, SUMS, draw_stored, widened

# Numbers of terms, in groups of those that are multiplied together.
GROUPS = (0, 1, 2, 3, 4, 5, 7, 8, 9, 17, 70)
# How far terms lie apart: each k has one, few have, gaps between runs, and all at one place.
WAYS = ("dense", "sparse", "runs", "same")
# How the input lies. Of pixels in vectors: rows apart, and rows that overlap as those of taps do;
# of channels in vectors: channels last, channels first, and pixels that overlap.
X_LAYOUTS = ("apart", "planes", "overlapping")
STEP = np.dtype(np.int32)
MOST_STEPS = 100


@dataclass
class SparseCase:
    """The shape of a call; strides in bytes."""

    n: int
    groups: int
    flags: int
    kind: str
    place: str
    way: str
    x_layout: str
    c_layout: str
    steps: np.ndarray = field(default_factory=lambda: np.zeros(0, STEP))
    x_ks: int = 0
    x_rs: int = 0
    c_rs: int = 0
    c_vs: int = 0
    residual_rs: int = 0
    residual_vs: int = 0
    offsets: tuple[int, ...] = (0,) * 7

    # Chains of half precision are cut from the first term on, as those of one segment are.
    segment_count: int = 1

    @property
    def count(self) -> int:
        """Terms."""
        return len(self.steps)


def draw_steps(rng: np.random.Generator, way: str, count: int) -> np.ndarray:
    """Draw how far each term lies behind the one before; the first one anywhere."""
    steps = {
        "dense": np.ones(count),
        "sparse": rng.integers(1, 6, count),
        "runs": np.where(rng.random(count) < 0.1, rng.integers(1, MOST_STEPS, count), 1),
        "same": rng.integers(0, 2, count) * rng.integers(0, 2),
    }[way].astype(np.int64)
    # What a row's address is made of is wider than the 32 bits of a step.
    steps[:1] = rng.choice([0, 1, 3, MOST_STEPS, 10**6, np.iinfo(STEP).max])
    # The rows have to fit the memory that is there.
    room = 3 * MOST_STEPS
    while count > 1 and steps[1:].sum() > room:
        steps[1 + int(np.argmax(steps[1:]))] = 0
    return steps.astype(STEP)


def draw_case(rng: np.random.Generator, row: dict, **fixed: object) -> SparseCase:
    """Draw a case for the kernel `row`; what `fixed` names is not drawn."""
    product, (mr, nr) = PRODUCTS[row["dtype"]], (row["mr"], row["nr"])
    size, item = SUMS[product.sum].itemsize, STORED[product.a].itemsize
    case = SparseCase(
        n=int(rng.integers(1, nr + 1)),
        groups=int(rng.choice(GROUPS)),
        flags=int(rng.choice(flag_combinations(row))),
        kind=str(rng.choice(KINDS)),
        place=str(rng.choice(PLACES)),
        way=str(rng.choice(WAYS)),
        x_layout=str(rng.choice(X_LAYOUTS)),
        c_layout=str(rng.choice(C_LAYOUTS)),
    )
    for name, value in fixed.items():
        setattr(case, name, value)
    case.steps = draw_steps(rng, case.way, case.groups * row["kr"])
    gaps = [int(gap) for gap in rng.integers(0, 9, 4) * rng.integers(0, 2, 4)]
    # Elements from k to k, and of channels in vectors from pixel to pixel.
    reach = int(case.steps[1:].sum()) + 1
    across = mr if row["op"] == "sparse_channels" else nr if case.flags & B_PADDED else case.n
    case.x_ks, case.x_rs = {
        "apart": (across + gaps[0], 1 + gaps[1])
        if row["op"] == "sparse_pixels"
        else (1, reach + gaps[1]),
        "planes": (across + 40 + gaps[0], 1 + gaps[1]),
        "overlapping": (1 + gaps[0], 1 + gaps[1]),
    }[case.x_layout]
    case.x_ks, case.x_rs = case.x_ks * item, case.x_rs * item
    shape = mr, case.n, row["vector_bytes"], size
    case.c_rs, case.c_vs = vector_strides(case.c_layout, *shape, gaps[2])
    layout = str(rng.choice(C_LAYOUTS))
    case.residual_rs, case.residual_vs = vector_strides(layout, *shape, gaps[3])
    if case.place == ANYWHERE:
        case.offsets = tuple(int(x) for x in rng.integers(0, 64, 7))
    return case


class SparseCall(Call):
    """A case laid out in memory, ready to be made."""

    def __init__(
        self, checker: Checker, row: dict, case: SparseCase, rng: np.random.Generator
    ) -> None:
        self.checker, self.row, self.case = checker, row, case
        self.product = PRODUCTS[row["dtype"]]
        self.dtype = SUMS[self.product.sum]
        self.lanes = row["vector_bytes"] // self.dtype.itemsize
        names = ("count", "x_ks", "x_rs", "c_rs", "c_vs", "residual_rs", "residual_vs", "n")
        self.values = {name: getattr(case, name) for name in (*names, "flags")}
        self.width = row["mr"] if row["op"] == "sparse_pixels" else row["nr"]
        checker.arena("x", pages=128)
        checker.arena("values", pages=64)
        self._place_steps()
        weights, pixels = self._weights(rng), self._pixels(rng)
        if row["op"] == "sparse_pixels":
            self.a, self.b = weights, pixels
        else:
            self.a, self.b = pixels.T, weights.T[:, : case.n]
        self._rest(rng)

    def _place_steps(self) -> None:
        size = STEP.itemsize
        buffer = self._place("steps", self.case.count * size, 6, unit=size)
        buffer.array((self.case.count,), STEP, (size,))[...] = self.case.steps

    def _weights(self, rng: np.random.Generator) -> np.ndarray:
        """Draw the weights of all terms, (width, terms)."""
        kr, dtype = self.row["kr"], STORED[self.product.b]
        shape = self.case.groups, self.width, kr
        strides = tuple(n * dtype.itemsize for n in (self.width * kr, kr, 1))
        buffer = self._place("values", extent_of(shape, strides, dtype.itemsize), 0)
        array = buffer.array(shape, dtype, strides)
        array[...] = draw_stored(rng, self.case.kind, shape, self.product.b)
        return widened(array.transpose(1, 0, 2).reshape(self.width, -1), self.product.b)

    def _pixels(self, rng: np.random.Generator) -> np.ndarray:
        """Draw the input where terms lead, (terms, pixels): rows of n, or MR pixels apart."""
        case, dtype = self.case, STORED[self.product.a]
        in_vectors = self.row["op"] == "sparse_pixels"
        count, stride = (case.n, dtype.itemsize) if in_vectors else (self.row["mr"], case.x_rs)
        readable = self.row["nr"] if in_vectors and case.flags & B_PADDED else count
        at = np.cumsum(case.steps, dtype=np.int64) * case.x_ks
        first = int(at[0]) if len(at) else 0
        last = int(at[-1] - first) if len(at) else 0
        extent = last + extent_of((readable,), (stride,), dtype.itemsize) if len(at) else 0
        buffer = self._place("x", extent, 1)
        self.values["x"] -= first
        self.at = at
        rows = [buffer.array((count,), dtype, (stride,), int(i) - first) for i in at]
        for row in rows:
            row[...] = draw_stored(rng, self.case.kind, row.shape, self.product.a)
        # After all, since rows may overlap.
        found = np.array([row.copy() for row in rows], dtype).reshape(-1, count)
        return widened(found, self.product.a)

    def ordered(self) -> np.ndarray:
        """The bits that the contract's order of operations gives."""
        if self.dtype == np.float16 or self.row["kr"] > 1:
            found = self.ordered_here()
            assert found is not None
            return found
        size, index = self.dtype.itemsize, np.arange(self.case.count)
        weights = index * self.width * size
        factors = (weights, self.at), (self.values["values"], self.values["x"]), (size, 0)
        if self.row["op"] == "sparse_channels":
            factors = tuple(pair[::-1] for pair in factors)
            factors = *factors[:2], (self.case.x_rs, 0)
        (starts, (a, b), (a_rs, _)) = factors
        table = np.ascontiguousarray(np.stack(starts, axis=1), np.int64)
        values = self.values | {
            "segments": table.ctypes.data,
            "segment_count": self.case.count,
            "k": min(self.case.count, 1),
            **{"a": a, "b": b, "a_rs": a_rs, "a_ks": 0, "b_ks": 0},
            **{"b_ahead": 0, "b_ahead_ks": 0},
        }
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


def judge(checker: Checker, row: dict, case: SparseCase, rng: np.random.Generator) -> None:
    """Make the call and hold its result against both references."""
    with np.errstate(all="ignore"):
        call = SparseCall(checker, row, case, rng)
        ordered = call.ordered()
        # Sums of extreme numbers overflow on the way in one type and not in the other.
        compared = case.kind != "extreme" and row["kr"] == 1
        exact = call.exact() if compared else None
        got = call.run()
        call.same_bits(got, ordered)
        if exact is not None:
            call.near(got, *exact)

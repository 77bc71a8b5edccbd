"""One call of a kernel of sparse weights: drawn at random, laid out between guard pages, judged.

A sum over terms is a GEMM whose segments are one step long: the weights of a term are one column
of A (or one row of B), and the input at its k is the other factor. So the references of GEMM serve
for each panel: ``ordered_gemm`` gives the exact bits of floating point, 64-bit sums those of
integers, and float64 bounds the errors (``gemm_case.py``).

Only the input elements that terms read exist: the buffer begins with the first of them and ends
with the last, and the gaps between them are poison.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from asm.registry import PRODUCTS
from tests.kernels.gemm_case import (
    ANYWHERE,
    B_PADDED,
    BIAS_COLUMN,
    BIAS_ROW,
    C_LAYOUTS,
    Call,
    Matrix,
    flag_combinations,
    vector_strides,
)
from tests.kernels.guarded_memory import PLACES, extent_of
from tests.kernels.kernel_checker import Checker
from tests.kernels.kernel_table import DTYPES
from tests.kernels.kernel_values import KINDS, pick
from tests.kernels.narrow_gemm import draw_stored, widened

# Numbers of groups of terms in a panel; a group is multiplied together.
GROUPS = (0, 1, 2, 3, 4, 5, 7, 8, 9, 17, 70)
FEW_GROUPS = GROUPS[:7]
PANELS = (1, 2, 3, 4, 5)
# Distances between terms: every k has a term; few have; gaps between runs; all terms at one place;
# steps back, as between taps of an image.
WAYS = ("dense", "sparse", "runs", "same", "back")
# Layouts of the input. For vectors of pixels: rows apart, and rows that overlap as those of taps
# do; for vectors of channels: channels last, channels first, and pixels that overlap.
X_LAYOUTS = ("apart", "planes", "overlapping")
STEP, PLACE = np.dtype(np.int32), np.dtype(np.int64)
# All terms lie within this many places.
REACH = 300


@dataclass
class SparseCase:
    """The shape of a call; strides in bytes. One of the panels has `groups` groups of terms."""

    n: int
    panels: int
    groups: int
    flags: int
    kind: str
    place: str
    way: str
    x_layout: str
    c_layout: str
    steps: list[np.ndarray] = field(default_factory=list)
    x_ks: int = 0
    x_rs: int = 0
    c_rs: int = 0
    c_vs: int = 0
    c_ps: int = 0
    residual_rs: int = 0
    residual_vs: int = 0
    residual_ps: int = 0
    offsets: tuple[int, ...] = (0,) * 8
    # Chains of half precision are cut as if all terms were one segment.
    segment_count: int = 1


def draw_steps(rng: np.random.Generator, way: str, count: int, origin: int) -> np.ndarray:
    """Draw the distance of each term from the previous one; the first is at or after `origin`."""
    if way == "back":
        places = rng.integers(0, REACH, count)
    elif way == "runs":
        places = np.where(rng.random(count) < 0.1, rng.integers(1, REACH // 4, count), 1).cumsum()
    elif way == "sparse":
        places = rng.integers(1, 6, count).cumsum()
    else:
        places = np.arange(1, count + 1) * int(way == "dense")
    # The input has to fit the arena.
    places %= REACH
    steps = np.diff(places, prepend=0)
    steps[:1] += origin
    return steps.astype(STEP)


def draw_case(rng: np.random.Generator, row: dict, **fixed: object) -> SparseCase:
    """Draw a case for the kernel `row`; `fixed` sets some members of it."""
    nr = row["nr"]
    case = SparseCase(
        n=int(rng.integers(1, nr + 1)),
        panels=pick(rng, PANELS),
        groups=pick(rng, GROUPS),
        flags=pick(rng, flag_combinations(row)),
        kind=pick(rng, KINDS),
        place=pick(rng, PLACES),
        way=pick(rng, WAYS),
        x_layout=pick(rng, X_LAYOUTS),
        c_layout=pick(rng, C_LAYOUTS),
    )
    for name, value in fixed.items():
        setattr(case, name, value)
    if case.flags & (BIAS_COLUMN if row["op"] == "sparse_pixels" else BIAS_ROW):
        case.panels = 1  # with several panels, a bias runs along their channels
    groups = [pick(rng, FEW_GROUPS) for _ in range(case.panels)]
    groups[int(rng.integers(case.panels))] = case.groups
    # Large origins: kernels must add up addresses in more than the 32 bits of a step.
    origin = pick(rng, [0, 1, 100, 10**6, np.iinfo(STEP).max - REACH])
    case.steps = [draw_steps(rng, case.way, count * row["kr"], origin) for count in groups]
    _draw_strides(rng, row, case)
    if case.place == ANYWHERE:
        case.offsets = tuple(int(x) for x in rng.integers(0, 64, 8))
    return case


def _draw_strides(rng: np.random.Generator, row: dict, case: SparseCase) -> None:
    product, mr = PRODUCTS[row["dtype"]], row["mr"]
    size, item = DTYPES[product.sum].itemsize, DTYPES[product.a].itemsize
    gaps = [int(gap) for gap in rng.integers(0, 9, 6) * rng.integers(0, 2, 6)]
    # Strides in elements from k to k, and, for vectors of channels, from pixel to pixel.
    in_vectors = row["op"] == "sparse_pixels"
    across = mr if not in_vectors else row["nr"] if case.flags & B_PADDED else case.n
    case.x_ks, case.x_rs = {
        "apart": (across + gaps[0], 1 + gaps[1]) if in_vectors else (1, REACH + gaps[1]),
        "planes": (across + 40 + gaps[0], 1 + gaps[1]),
        "overlapping": (1 + gaps[0], 1 + gaps[1]),
    }[case.x_layout]
    case.x_ks, case.x_rs = case.x_ks * item, case.x_rs * item
    strides = []
    for layout, gap, apart in zip(
        (case.c_layout, pick(rng, C_LAYOUTS)), gaps[2:4], gaps[4:6], strict=True
    ):
        shape = mr, case.n, row["vector_bytes"], size
        rs, vs = vector_strides(layout, *shape, gap)
        whole = (mr - 1) * rs + -(-case.n * size // row["vector_bytes"] - 1) * vs
        ps = whole + row["vector_bytes"] + apart * size
        if layout == "rows" and not in_vectors:  # the panels' channels lie side by side
            rs, ps = (case.panels * case.n + gap) * size, case.n * size
        strides.append((rs, vs, ps))
    (case.c_rs, case.c_vs, case.c_ps), residual = strides
    case.residual_rs, case.residual_vs, case.residual_ps = residual


class Panel(Call):
    """One panel of a call as the references need it: its operands, and its part of C."""

    def __init__(self, call: SparseCall, index: int, terms: slice) -> None:
        self.checker, self.row, self.case = call.checker, call.row, call.case
        self.product, self.dtype, self.lanes = call.product, call.dtype, call.lanes
        self.stored_type = call.stored_type
        self.width, self.at = call.width, call.at[terms]
        if self.row["op"] == "sparse_pixels":
            self.a, self.b = call.weights[:, terms], call.pixels[terms]
        else:
            self.a, self.b = call.pixels[terms].T, call.weights.T[terms, : self.case.n]
        mr, first, case = self.row["mr"], index * call.width, self.case
        rows = slice(index * mr, (index + 1) * mr)
        length = mr if case.flags & BIAS_ROW else case.n
        self.bias = None if call.bias is None else call.bias[first : first + length]
        self.residual = None if call.residual is None else call.residual[rows]
        self.clip, self.c = call.clip, Matrix(call.c.buffer, call.c.elements, call.c.index[rows])
        moved = {"c": index * case.c_ps, "residual": index * case.residual_ps}
        moved |= {"bias": first * self.dtype.itemsize}
        # Pointers whose flag is not set are not in `call.values`.
        self.values = dict(call.values)
        self.values |= {k: v + moved[k] for k, v in call.values.items() if k in moved}
        weight = DTYPES[self.product.b].itemsize
        self.values["values"] += terms.start * self.width * weight

    def ordered(self) -> np.ndarray:
        """The bits that the contract's order of operations gives."""
        if self.dtype == np.float16 or self.row["kr"] > 1:
            found = self.ordered_here()
            assert found is not None
            return found
        size, count = self.dtype.itemsize, len(self.at)
        weights = np.arange(count) * self.width * size
        starts, factors, a_rs = (weights, self.at), ("values", "x"), size
        if self.row["op"] == "sparse_channels":
            starts, factors, a_rs = starts[::-1], factors[::-1], self.case.x_rs
        table = np.ascontiguousarray(np.stack(starts, axis=1), np.int64)
        values = self.values | {
            "a": self.values[factors[0]],
            "b": self.values[factors[1]],
            "segments": table.ctypes.data,
            "segment_count": count,
            "k": min(count, 1),
            "a_rs": a_rs,
            **dict.fromkeys(("a_ks", "b_ks", "b_ahead", "b_ahead_ks"), 0),
        }
        return self.ordered_by_contract(values)


class SparseCall(Call):
    """A case laid out in memory. C has the rows of one panel after the other."""

    def __init__(
        self, checker: Checker, row: dict, case: SparseCase, rng: np.random.Generator
    ) -> None:
        self.checker, self.row, self.case = checker, row, case
        self.product = PRODUCTS[row["dtype"]]
        self.dtype = DTYPES[self.product.sum]
        self.stored_type = self.product.sum
        self.lanes = row["vector_bytes"] // self.dtype.itemsize
        strides = (f"{of}_{to}" for of in ("c", "residual") for to in ("rs", "vs", "ps"))
        names = ("panels", "x_ks", "x_rs", *strides, "n", "flags")
        self.values = {name: getattr(case, name) for name in names}
        # Prefetches beyond the end of the input must not fault.
        self.values["x_ahead"] = int(rng.integers(0, 1 << 20)) * int(rng.integers(0, 2))
        self.width = row["mr"] if row["op"] == "sparse_pixels" else row["nr"]
        checker.arena("x", pages=128)
        for name in ("values", "residual"):
            checker.arena(name, pages=64)
        checker.arena("c", writable=True, pages=64)
        self.ends = np.cumsum([0, *(len(steps) for steps in case.steps)])
        self._place_terms(rng)
        self.weights = self._draw_weights(rng)
        self.pixels = self._draw_pixels(rng)
        length = row["mr"] if case.flags & BIAS_ROW else case.n
        self._place_rest(rng, (case.panels - 1) * self.width + length)
        self.parts = [
            Panel(self, i, slice(int(first), int(end)))
            for i, (first, end) in enumerate(zip(self.ends[:-1], self.ends[1:], strict=True))
        ]

    def _place_terms(self, rng: np.random.Generator) -> None:
        """Write the steps, and where panels begin, counted from a random term.

        The `value` members of the places are -1, since kernels must not read them.
        """
        steps = np.concatenate(self.case.steps)
        size = STEP.itemsize
        buffer = self._place("steps", steps.nbytes, 6, unit=size)
        buffer.array(steps.shape, STEP, (size,))[...] = steps
        places = np.full((len(self.ends), 2), -1, PLACE)
        places[:, 0] = self.ends + pick(rng, [0, 7, 1 << 40])
        buffer = self._place("places", places.nbytes, 7, unit=8)
        buffer.array(places.shape, PLACE, places.strides)[...] = places

    def _draw_weights(self, rng: np.random.Generator) -> np.ndarray:
        """Draw the weights of all terms, (width, terms)."""
        kr, dtype = self.row["kr"], DTYPES[self.product.b]
        shape = int(self.ends[-1]) // kr, self.width, kr
        strides = tuple(n * dtype.itemsize for n in (self.width * kr, kr, 1))
        buffer = self._place("values", extent_of(shape, strides, dtype.itemsize), 0)
        array = buffer.array(shape, dtype, strides)
        array[...] = draw_stored(rng, self.case.kind, shape, self.product.b)
        return widened(array.transpose(1, 0, 2).reshape(self.width, -1), self.product.b)

    def _draw_pixels(self, rng: np.random.Generator) -> np.ndarray:
        """Draw the input of each term, (terms, pixels): n neighbours, or MR pixels `x_rs` apart."""
        case, dtype = self.case, DTYPES[self.product.a]
        in_vectors = self.row["op"] == "sparse_pixels"
        count, stride = (case.n, dtype.itemsize) if in_vectors else (self.row["mr"], case.x_rs)
        readable = self.row["nr"] if in_vectors and case.flags & B_PADDED else count
        places = [np.cumsum(steps, dtype=np.int64) for steps in case.steps]
        self.at = np.concatenate(places) * case.x_ks
        first, last = (int(self.at.min()), int(self.at.max())) if len(self.at) else (0, 0)
        extent = last - first + extent_of((readable,), (stride,), dtype.itemsize)
        buffer = self._place("x", extent if len(self.at) else 0, 1)
        self.values["x"] -= first
        rows = [buffer.array((count,), dtype, (stride,), int(i) - first) for i in self.at]
        drawn = draw_stored(rng, self.case.kind, (len(rows), count), self.product.a)
        for row, values in zip(rows, drawn, strict=True):
            row[...] = values
        # Read back after all writes, since rows may overlap.
        found = np.array([row.copy() for row in rows], dtype).reshape(-1, count)
        return widened(found, self.product.a)

    def _matrix(
        self, name: str, strides: tuple[int, int], index: int, *, writable: bool = False
    ) -> Matrix:
        """Place C or the residual of all panels."""
        size, mr, case = self.dtype.itemsize, self.row["mr"], self.case
        rows, columns = np.ogrid[: case.panels * mr, : case.n]
        apart = case.c_ps if name == "c" else case.residual_ps
        first = rows // mr * apart + rows % mr * strides[0] + columns // self.lanes * strides[1]
        index_of = first // size + columns % self.lanes
        count = int(index_of.max()) + 1
        buffer = self._place(name, count * size, index, writable=writable)
        return Matrix(buffer, buffer.array((count,), self.dtype, (size,)), index_of)

    def ordered(self) -> np.ndarray:
        """The bits that the contract's order of operations gives."""
        return np.concatenate([part.ordered() for part in self.parts])

    def exact(self) -> tuple[np.ndarray, np.ndarray]:
        """The result in float64, and the bound of the rounding errors."""
        found, bounds = zip(*(part.exact() for part in self.parts), strict=True)
        return np.concatenate(found), np.concatenate(bounds)

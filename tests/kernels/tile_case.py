"""One call of a GEMM kernel on tile registers: drawn, laid out between guard pages, judged.

The layout is that of ``gemm_case``, with A and B in groups of KR neighbouring k, 4 bytes a group.
Beyond k, the last group is finite in A and zero in B. A call is executed by silicon or by the
interpreter in ``tile_interpreter``, with the same bytes at the same addresses.

Sums of bytes must equal integer sums modulo 2**32. Sums of bfloat16 must have the bits of
``tile_arithmetic``, in steps of 16 groups from the start of each segment, followed by the epilogue
in float32; and they must lie within ``gemm_case``'s bound of the float64 sum.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from asm.registry import PRODUCTS, Kernel, kernels
from asm.x86_64.gemm_tiles import generate
from tests.kernels.gemm_case import (
    ACCUMULATE,
    ANYWHERE,
    B_PADDED,
    BIAS_COLUMN,
    BIAS_ROW,
    C_LAYOUTS,
    CLIP,
    CLIPS,
    RESIDUAL,
    Call,
    Case,
    draw_segments,
    vector_strides,
)
from tests.kernels.guarded_memory import PLACES, Buffer, extent_of
from tests.kernels.interpreted_memory import Memory, Piece
from tests.kernels.kernel_checker import STRUCTURES, Checker
from tests.kernels.kernel_table import rows
from tests.kernels.kernel_values import KINDS, draw
from tests.kernels.tile_arithmetic import dot_bf16, widened
from tests.kernels.tile_interpreter import Tiles

GROUP = 4  # bytes
STEP = 16  # groups
GROUPS = (0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 50)
KERNELS = [k for k in kernels("x86_64") if k.op == "gemm" and k.isa == "amx"]
TYPES = {"u8": np.uint8, "s8": np.int8, "bf16": np.uint16, "s32": np.int32, "f32": np.float32}
INTEGER_FLAGS = (0, ACCUMULATE, B_PADDED, ACCUMULATE | B_PADDED)


def draw_elements(rng: np.random.Generator, kind: str, shape: tuple, dtype: np.dtype) -> np.ndarray:
    """Draw elements of A, B or C; bfloat16 as bits."""
    if dtype == np.uint16:
        return (draw(rng, kind, shape, np.dtype(np.float32)).view(np.uint32) >> 16).astype(dtype)
    if dtype.kind == "f":
        return draw(rng, kind, shape, dtype)
    info = np.iinfo(dtype)
    if kind == "extreme":
        return rng.choice(np.array([info.min, info.max, 0, 1], dtype), shape)
    drawn = rng.integers(info.min, info.max + 1, shape).astype(dtype)
    return drawn if kind == "random" else np.where(rng.random(shape) < 0.2, drawn, 0).astype(dtype)


def row_of(kernel: Kernel) -> dict:
    """Give a row like those of the table for a kernel that need not be in it."""
    names = ("symbol", "op", "dtype", "isa", "mr", "nr", "kr")
    return {name: getattr(kernel, name) for name in names} | {"vector_bytes": 64}


def draw_case(rng: np.random.Generator, row: dict, **fixed: object) -> Case:
    """Draw a case for the kernel `row`; `fixed` sets some members of it."""
    nr, kr = row["nr"], row["kr"]
    groups = int(rng.choice(GROUPS))
    flags = int(rng.choice(INTEGER_FLAGS))
    if row["dtype"] == "bf16t":
        flags |= int(rng.choice([0, BIAS_ROW, BIAS_COLUMN]))
        flags |= int(rng.choice([0, RESIDUAL])) | int(rng.choice([0, CLIP]))
    case = Case(
        n=int(rng.choice([nr, rng.integers(1, nr + 1)])),
        k=max(groups * kr - int(rng.integers(0, kr)), 0),
        flags=flags,
        kind=str(rng.choice(KINDS)),
        place=str(rng.choice([*PLACES, ANYWHERE])),
        a_layout="rows",
        c_layout=str(rng.choice(C_LAYOUTS)),
        segment_count=int(rng.integers(0, 6)) * int(rng.integers(0, 2)),
    )
    for name, value in fixed.items():
        setattr(case, name, value)
    # Segments that overlap share whole elements.
    size = np.dtype(TYPES[PRODUCTS[row["dtype"]].a]).itemsize
    case.segments = draw_segments(rng, case.segment_count, size)
    unit = size if case.segments else 1
    gaps = [int(gap) * unit for gap in rng.integers(0, 9, 4) * rng.integers(0, 2, 4)]
    case.a_rs, case.a_ks = -(-case.k // kr) * GROUP + gaps[0], GROUP
    case.b_ks = (nr if case.flags & B_PADDED else case.n) * GROUP + gaps[1]
    shape = row["mr"], case.n, 64, 4
    case.c_rs, case.c_vs = vector_strides(case.c_layout, *shape, gaps[2])
    layout = str(rng.choice(C_LAYOUTS))
    case.residual_rs, case.residual_vs = vector_strides(layout, *shape, gaps[3])
    if case.place == ANYWHERE:
        case.offsets = tuple(int(x) for x in rng.integers(0, 64, 7))
    return case


class TileCall(Call):
    """A case laid out in memory; the call can be repeated."""

    def __init__(self, checker: Checker, row: dict, case: Case, rng: np.random.Generator) -> None:
        self.checker, self.row, self.case = checker, row, case
        self.product = PRODUCTS[row["dtype"]]
        self.dtype, self.lanes = np.dtype(TYPES[self.product.sum]), 16
        self.buffers: dict[str, tuple[Buffer, bool]] = {}
        names = ("segment_count", "k", "a_rs", "a_ks", "b_ks", "c_rs", "c_vs", "n", "flags")
        self.values = {name: getattr(case, name) for name in names}
        self.values |= {"residual_rs": case.residual_rs, "residual_vs": case.residual_vs}
        self.values["b_ahead"] = int(rng.integers(0, 1 << 20)) * int(rng.integers(0, 2))
        self.values["b_ahead_ks"] = int(rng.integers(0, 1 << 10)) * int(rng.integers(0, 2))
        self.draw_operands(rng)
        if case.segments:
            self._place_segments(rng)
        self.bias = self.residual = self.clip = None
        mr, n = row["mr"], case.n
        if case.flags & (BIAS_ROW | BIAS_COLUMN):
            self.bias = self._input("bias", mr if case.flags & BIAS_ROW else n, rng, 3)
        if case.flags & RESIDUAL:
            residual = self._matrix("residual", (case.residual_rs, case.residual_vs), 4)
            residual.write(draw(rng, case.kind, (mr, n), self.dtype))
            self.residual = residual.read()
        if case.flags & CLIP:
            self.clip = self._input("clip", 2, rng, 5)
            self.clip[...] = CLIPS[int(rng.integers(len(CLIPS)))]
        self.c = self._matrix("c", (case.c_rs, case.c_vs), 2, writable=True)
        self.c.write(draw_elements(rng, case.kind, (mr, n), self.dtype))

    def _place(
        self, name: str, extent: int, index: int, *, writable: bool = False, unit: int = 1
    ) -> Buffer:
        buffer = super()._place(name, extent, index, writable=writable, unit=unit)
        self.buffers[name] = buffer, writable
        return buffer

    def draw_operands(self, rng: np.random.Generator) -> None:
        """Draw A and B of every segment; keep the final contents, since segments overlap."""
        case, mr, kr = self.case, self.row["mr"], self.row["kr"]
        groups = -(-case.k // kr)
        starts = case.segments or [(0, 0)]
        columns = self.row["nr"] if case.flags & B_PADDED else case.n
        views = []
        for which, (name, strides, shape, readable, element) in enumerate((
            ("a", (case.a_rs, GROUP), (mr, groups), (mr, groups), self.product.a),
            ("b", (case.b_ks, GROUP), (groups, case.n), (groups, columns), self.product.b),
        )):  # fmt: skip
            dtype = np.dtype(TYPES[element])
            extent = extent_of(readable, strides, GROUP)
            first = [start[which] for start in starts]
            buffer = self._place(name, extent + max(first) if extent else 0, which)
            at = [
                buffer.array((*shape, kr), dtype, (*strides, dtype.itemsize), start)
                if extent
                else np.zeros((*shape, kr), dtype)
                for start in first
            ]
            for view in at:
                view[...] = draw_elements(rng, case.kind, view.shape, dtype)
            views.append(at)
        if case.k % kr:  # only in the last group
            for a in views[0]:
                a[:, -1, case.k % kr :] = 0x3F80 if a.dtype == np.uint16 else 99  # of bfloat16: 1
            for b in views[1]:
                b[-1, :, case.k % kr :] = 0
        # As 2-D arrays whose rows are whole in memory: [mr][k] and [groups][n][kr].
        self.a_of = [a.reshape(mr, groups * kr) for a in views[0]]
        self.b_of = [b.reshape(groups, case.n * kr) for b in views[1]]

    def run(self, execute: Callable[[TileCall], None]) -> np.ndarray:
        """Make the call, check that it wrote nothing else, and give C."""
        initial, before = self.c.read(), self.c.buffer.surroundings.copy()
        execute(self)
        result = self.c.read()
        self.c.write(initial)
        same = np.array_equal(self.c.buffer.surroundings, before)
        assert same, f"{self.row['symbol']} wrote outside its columns of C\n{self.case}"
        return result

    def ordered(self) -> np.ndarray:
        """The bits that the contract gives."""
        accumulate = self.case.flags & ACCUMULATE
        x = self.c.read() if accumulate else np.zeros_like(self.c.read())
        if self.dtype == np.int32:
            left = [a.astype(np.int64) for a in self.a_of]
            total = x + sum(
                a @ b.astype(np.int64) for a, b in zip(left, self.columns(), strict=True)
            )
            return total.astype(np.uint64).astype(np.uint32).view(np.int32)
        with np.errstate(all="ignore"):
            for a, b in zip(self.a_of, self.b_of, strict=True):
                for g in range(0, len(b), STEP):
                    groups = min(STEP, len(b) - g)
                    rows = np.zeros((STEP, b.shape[1]), b.dtype)
                    steps = np.zeros((len(a), 2 * STEP), a.dtype)
                    rows[:groups] = b[g : g + groups]
                    steps[:, : 2 * groups] = a[:, 2 * g : 2 * (g + groups)]
                    x = dot_bf16(x, steps, rows)
            if self.bias is not None:
                x = x + (self.bias[:, np.newaxis] if self.case.flags & BIAS_ROW else self.bias)
            if self.residual is not None:
                x = x + self.residual
            if self.clip is not None:
                low, high = self.clip
                x = np.where(x < low, low, x)
                x = np.where(x > high, high, x)
        return np.ascontiguousarray(x)

    def columns(self) -> list[np.ndarray]:
        """B of each segment as [k][n]."""
        kr, n = self.row["kr"], self.case.n
        return [b.reshape(-1, n, kr).transpose(0, 2, 1).reshape(len(b) * kr, n) for b in self.b_of]

    def exact(self) -> tuple[np.ndarray, np.ndarray]:
        """The float64 result of bfloat16, and the bound of the kernel's error."""
        self.a = np.concatenate([widened(a) for a in self.a_of], axis=1)
        self.b = np.concatenate([widened(b) for b in self.columns()], axis=0)
        x, bound = super().exact()
        # Subnormal numbers count as zero.
        roundings = 2 * (self.case.depth + 2 * self.row["kr"] + 4)
        return x, bound + roundings * float(np.finfo(np.float32).tiny)

    def judge(self, got: np.ndarray) -> None:
        """Fail unless all bits are as expected (any NaN equals any other) and errors in bounds."""
        expected = self.ordered()
        same = got.view(np.uint32) == expected.view(np.uint32)
        if self.dtype == np.float32:
            same |= np.isnan(got) & np.isnan(expected)
        if not same.all():
            where = tuple(int(i[0]) for i in np.nonzero(~same))
            raise AssertionError(
                f"{self.row['symbol']}: {np.count_nonzero(~same)} of {got.size} elements have "
                f"other bits; at {where} {got[where]!r}, expected {expected[where]!r}\n{self.case}"
            )
        if self.dtype == np.float32 and self.case.kind != "extreme":
            with np.errstate(all="ignore"):
                self.near(got, *self.exact())


class Silicon:
    """Executes calls on this machine's tiles, through the native checker.

    A ``with`` block releases the tiles at its end. Other libraries use tiles in the same thread and
    may mistake a loaded configuration for their own: onnxruntime 1.32 loads its configuration only
    if both rows and bytes of a row differ from it, so that tiles of fewer rows crash the process.
    """

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        arena = checker.arena("tiles", writable=True)
        # The last word before the guard page.
        self.tiles = arena.bytes[-8:].view(np.int64)
        self.address = arena.base + arena.size - 8

    def __enter__(self) -> Silicon:
        self.tiles[0] = 0
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __call__(self, call: TileCall) -> None:
        """Make a call."""
        self.checker.call(call.row, call.values | {"tiles": self.address}, call.case)
        assert self.tiles[0] == call.row["mr"]

    def release(self) -> None:
        """Release the tiles."""
        (row,) = rows("release_tiles")
        self.checker.call(row, {"tiles": self.address}, "release")
        assert self.tiles[0] == 0 and not configured(self.checker)


def configured(checker: Checker) -> bool:
    """Tell whether this thread has a tile configuration."""
    return bool(checker.native.tile_palette())


class Interpreted:
    """Executes calls by the interpreter; holds the state that a thread keeps between calls."""

    def __init__(self, checker: Checker, seed: int = 0) -> None:
        self.checker, self.thread = checker, Tiles(seed)
        self.tiles = np.zeros(1, np.int64)

    def memory(self, op: str, values: dict[str, int], buffers: dict) -> tuple[int, Memory]:
        """Address of the arguments, and exactly the memory that a call may touch."""
        arguments = self.checker.arguments(op, values | {"tiles": 1 << 40})
        size = ctypes.sizeof(STRUCTURES[op])
        inside = self.checker.arena("arguments", pages=1).bytes[-size:]
        pieces = [
            Piece("arguments", arguments, inside),
            Piece("tiles", 1 << 40, self.tiles.view(np.uint8), writable=True),
        ]
        for name, (buffer, writable) in buffers.items():
            inside = buffer.arena.bytes[buffer.first : buffer.first + buffer.extent]
            pieces.append(Piece(name, buffer.address, inside, writable))
        return arguments, Memory(pieces)

    def __call__(self, call: TileCall) -> None:
        """Make a call."""
        arguments, memory = self.memory("gemm", call.values, call.buffers)
        kernel = next(k for k in KERNELS if k.symbol == call.row["symbol"])
        self.thread.call(generate(kernel), arguments, memory)
        assert self.tiles[0] == call.row["mr"]

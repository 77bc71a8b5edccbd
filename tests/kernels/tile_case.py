"""One call of a GEMM kernel on tile registers: drawn, laid out between guard pages, judged.

The layout is that of ``gemm_case``, with A and B in groups of KR neighbouring k, 4 bytes a group.
Beyond k, the last group is finite in A and zero in B. A call is executed by silicon or by the
interpreter in ``tile_interpreter``, with the same bytes at the same addresses.

Sums of bytes must equal integer sums modulo 2**32. Sums of bfloat16 must have the bits of
``tile_arithmetic``, in steps of 16 groups from the start of each segment, the last one filled up
with zeros, or in one step of fewer groups; followed by the epilogue in float32. And they must lie
within ``gemm_case``'s bound of the float64 sum.
"""

from __future__ import annotations

import ctypes

import numpy as np

from asm.registry import PRODUCTS, Kernel, kernels
from asm.x86_64.gemm_tiles import STEP_NUMBER, generate
from tests.kernels import gemm_case
from tests.kernels.gemm_case import (
    ACCUMULATE,
    ANYWHERE,
    Call,
    Case,
    draw_segments,
)
from tests.kernels.guarded_memory import PLACES, Buffer
from tests.kernels.interpreter_x86_64 import Memory, Piece
from tests.kernels.kernel_checker import STRUCTURES, Checker
from tests.kernels.kernel_table import DTYPES, rows
from tests.kernels.tile_arithmetic import dot_bf16
from tests.kernels.tile_interpreter import Tiles

STEP = 16  # groups
GROUPS = (0, 1, 2, 7, 15, 16, 17, 24, 31, 32, 33, 50)
KERNELS = [k for k in kernels("x86_64") if k.op == "gemm" and k.isa == "amx"]


def row_of(kernel: Kernel) -> dict:
    """Give a row like those of the table for a kernel that need not be in it."""
    names = ("symbol", "op", "dtype", "isa", "mr", "nr", "kr")
    return {name: getattr(kernel, name) for name in names} | {"vector_bytes": 64}


def draw_case(rng: np.random.Generator, row: dict, **fixed: object) -> Case:
    """Draw a case for the kernel `row`; `fixed` sets some members of it.

    Rows of A, every k around steps of 16 groups, whole tiles in half of the cases, and strides of
    any number of bytes.
    """
    nr, kr = row["nr"], row["kr"]
    drawn = {
        "n": int(rng.choice([nr, rng.integers(1, nr + 1)])),
        "k": max(int(rng.choice(GROUPS)) * kr - int(rng.integers(0, kr)), 0),
        "place": str(rng.choice([*PLACES, ANYWHERE])),
        "a_layout": "rows",
    }
    case = gemm_case.draw_case(rng, row, **drawn | fixed)
    # Segments that overlap share whole elements.
    size = DTYPES[PRODUCTS[row["dtype"]].a].itemsize
    case.segments = draw_segments(rng, case.segment_count, size)
    unit = size if case.segments else 1
    gaps = rng.integers(0, 9, 2) * rng.integers(0, 2, 2) * unit
    case.a_rs, case.b_ks = case.a_rs + int(gaps[0]), case.b_ks + int(gaps[1])
    return case


class TileCall(Call):
    """A case laid out in memory; the call can be repeated."""

    def __init__(self, checker: Checker, row: dict, case: Case, rng: np.random.Generator) -> None:
        self.buffers: dict[str, tuple[Buffer, bool]] = {}
        super().__init__(checker, row, case, rng)

    def _place(
        self, name: str, extent: int, index: int, *, writable: bool = False, unit: int = 1
    ) -> Buffer:
        buffer = super()._place(name, extent, index, writable=writable, unit=unit)
        self.buffers[name] = buffer, writable
        return buffer

    def sums(self, start: np.ndarray) -> np.ndarray | None:
        """`start` plus the products, before the epilogue."""
        if self.dtype == np.int32:
            return super().sums(start)
        x = start
        step = self.step()
        for a, b in zip(*self.stored, strict=True):
            # Rows as they lie in memory: [mr][k] and [groups][n * kr].
            left, right = a.reshape(len(a), 2 * len(b)), b.reshape(len(b), 2 * self.case.n)
            for g in range(0, len(b), step):
                groups = min(step, len(b) - g)
                rows = np.zeros((step, right.shape[1]), b.dtype)
                steps = np.zeros((len(a), 2 * step), a.dtype)
                rows[:groups] = right[g : g + groups]
                steps[:, : 2 * groups] = left[:, 2 * g : 2 * (g + groups)]
                x = dot_bf16(x, steps, rows)
        return x

    def step(self) -> int:
        """Groups of a step, as the kernel's module says."""
        groups = -(-self.case.k // self.row["kr"])
        if self.dtype == np.float32:
            few = 0 < groups < STEP and not self.case.flags & ACCUMULATE
            return groups if few else STEP
        fewest = -(-groups // STEP)
        equal = [n for n in (fewest, fewest + 1) if n and groups % n == 0]
        return groups // equal[0] if equal and groups % STEP else STEP

    def number(self) -> int:
        """The number that a call leaves in its tiles."""
        return STEP_NUMBER * self.step() + self.row["mr"]

    def judge(self, got: np.ndarray) -> None:
        """Fail unless all bits are as expected (any NaN equals any other) and errors in bounds."""
        with np.errstate(all="ignore"):
            self.same_bits(got, self.ordered())
            if self.dtype == np.float32 and self.case.kind != "extreme":
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
        assert self.tiles[0] == call.number()

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
        assert self.tiles[0] == call.number()

"""Executes the text of a kernel on tile registers (AMX), for machines that have none.

Neither QEMU 7.2 nor valgrind knows AMX. Besides the interpreter's checks, the configured shapes of
a product's operands must match. The arithmetic of products is in ``tile_arithmetic``.
"""

from __future__ import annotations

import re
from functools import partialmethod

import numpy as np

from tests.kernels.interpreter_x86_64 import MASK, Interpreter
from tests.kernels.tile_arithmetic import dot_bf16, dot_bytes

_ELEMENTS = {"tdpbusd": ("u1", "i1"), "tdpbssd": ("i1", "i1"), "tdpbf16ps": ("u2", "u2")}


class Tiles(Interpreter):
    """A thread; only its tiles and their configuration outlive a call."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.tiles = np.zeros((8, 16, 64), np.uint8)
        self.shapes: list[tuple[int, int]] | None = None  # rows, bytes of a row
        self.configured = 0  # times LDTILECFG ran

    def do_ldtilecfg(self, source: str) -> None:
        block = self.memory.view(self.address(source), 64)
        assert block[0] == 1, "a palette that there is not"
        assert not block[1:16].any(), "reserved bytes"
        widths, rows = block[16:48].view(np.uint16), block[48:]
        assert not widths[8:].any() and not rows[8:].any(), "more than eight tiles"
        assert np.all(widths <= 64) and np.all(rows <= 16), "a tile that is too large"
        assert np.array_equal(widths == 0, rows == 0), "a tile without rows or columns"
        self.shapes = [(int(r), int(w)) for r, w in zip(rows[:8], widths[:8], strict=True)]
        self.tiles[:] = 0
        self.configured += 1

    def do_tilerelease(self) -> None:
        self.shapes = None
        self.tiles[:] = 0

    def _tile(self, name: str) -> tuple[int, int, int]:
        number = int(name.removeprefix("tmm"))
        assert self.shapes is not None, "no configuration is loaded"
        rows, width = self.shapes[number]
        assert rows, f"{name} is not configured"
        return number, rows, width

    def _rows(self, operand: str) -> tuple[int, int]:
        """Address of the first row and stride; the index is the stride."""
        _, index = re.findall(r"r\w+", operand)
        assert "*1" in operand
        return self.address(operand) - self.r[index], self.r[index]

    def do_tilezero(self, to: str) -> None:
        self.tiles[self._tile(to)[0]] = 0

    def do_tileloadd(self, to: str, source: str) -> None:
        number, rows, width = self._tile(to)
        first, stride = self._rows(source)
        self.tiles[number] = 0
        for row in range(rows):
            at = (first + row * stride) & MASK
            self.tiles[number, row, :width] = self.memory.view(at, width)

    def do_tilestored(self, to: str, source: str) -> None:
        number, rows, width = self._tile(source)
        first, stride = self._rows(to)
        for row in range(rows):
            at = (first + row * stride) & MASK
            self.memory.view(at, width, write=True)[:] = self.tiles[number, row, :width]

    def _dot(self, name: str, to: str, a: str, b: str) -> None:
        (c, rows, width), (left, a_rows, depth), (right, b_rows, b_width) = map(
            self._tile, (to, a, b)
        )
        assert (a_rows, b_width) == (rows, width), f"{name} of tiles that do not fit"
        assert depth == 4 * b_rows, f"{name} of tiles that do not fit"
        types = _ELEMENTS[name]
        x = self.tiles[left, :rows, :depth].view(types[0])
        y = self.tiles[right, :b_rows, :b_width].view(types[1])
        product = dot_bf16 if name == "tdpbf16ps" else dot_bytes
        of = np.float32 if name == "tdpbf16ps" else np.int32
        total = product(self.tiles[c, :rows, :width].view(of), x, y)
        self.tiles[c, :rows, :width] = np.ascontiguousarray(total).view(np.uint8)

    do_tdpbusd = partialmethod(_dot, "tdpbusd")
    do_tdpbssd = partialmethod(_dot, "tdpbssd")
    do_tdpbf16ps = partialmethod(_dot, "tdpbf16ps")

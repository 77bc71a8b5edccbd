"""Calls of kernels that compute rows of one array from rows of others."""

from __future__ import annotations

import numpy as np

from tests.kernels.guarded_memory import CANARY, POISON, extent_of


class Call:
    """The arrays of one call, each in memory of its own."""

    def __init__(self, checker, row, rng) -> None:
        self.checker, self.row = checker, row
        self.place = str(rng.choice(["start", "end", "middle"]))
        self.rng = rng
        self.values: dict[str, int] = {}

    def put(self, name, array, stride, writable=False):
        """Place an array with rows `stride` bytes apart; give a view of it."""
        strides = (stride, array.itemsize)
        extent = extent_of(array.shape, strides, array.itemsize)
        pages = next(p for p in (64, 1024) if extent < (p - 4) * 4096)
        offset = int(self.rng.integers(0, 16)) * array.itemsize
        arena = self.checker.arena(name, writable=writable, pages=pages)
        buffer = arena.buffer(extent, self.place, offset)
        buffer.fill(CANARY if writable else POISON)
        view = buffer.array(array.shape, array.dtype, strides)
        view[...] = array
        self.values[name] = buffer.address
        self.values[f"{name}_rs"] = stride
        if writable:
            self.buffer, self.view = buffer, view
        return view

    def run(self, **values):
        """Call the kernel, check that it wrote nothing else, and give its output."""
        self.values |= values
        self.values.setdefault("residual_rs", 0)
        before, held = self.buffer.surroundings.copy(), self.view.copy()
        self.checker.call(self.row, self.values, self.values)
        result = self.view.copy()
        self.view[...] = held
        assert np.array_equal(self.buffer.surroundings, before), f"wrote elsewhere: {self.values}"
        return result

"""A call of a kernel that runs an element-wise program, between guard pages."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from asm.contract.constants import INSTRUCTIONS, STORED
from tests.kernels.guarded_memory import PLACES, Buffer, extent_of
from tests.kernels.packing_case import PackingCall


class Call(PackingCall):
    """Streams of one call: inputs are read-only, outputs are watched; a stream may be both."""

    def __init__(self, checker: Any, row: dict, rng: np.random.Generator, shape: tuple[int, int]):
        super().__init__(checker, row, rng)
        self.shape = shape
        self.inputs: list[tuple[int, int, int, int, int]] = []
        self.outputs: list[tuple[int, int, int, int, int]] = []
        self.written: list[tuple[Buffer, np.ndarray]] = []
        self.gaps = True  # between rows, now and then

    def _place(
        self, name: str, shape: tuple[int, int], writable: bool, dtype: np.dtype | None = None
    ) -> tuple[Any, Any, int]:
        dtype = dtype or self.dtype
        size = dtype.itemsize
        gap = int(self.rng.integers(0, 5)) * int(self.rng.integers(0, 2)) if self.gaps else 0
        strides = ((shape[1] + gap) * size, size)
        extent = extent_of(shape, strides, size)
        self.place = str(self.rng.choice([*PLACES, "middle"]))
        buffer = self._buffer(name, extent, writable=writable)
        return buffer, buffer.array(shape, dtype, strides), strides[0]

    def read(self, x: np.ndarray, reg: int, stored: str = "") -> None:
        """Add an input; a dimension of size 1 is repeated. Bytes are truths if nothing is said."""
        stored = stored or ("TRUTH" if x.dtype == np.uint8 else "")
        dtype = x.dtype if stored else None
        buffer, array, rs = self._place(f"input {len(self.inputs)}", x.shape, False, dtype)
        array[...] = x
        rs = rs if x.shape[0] > 1 or self.shape[0] == 1 else 0
        step = int(x.shape[1] > 1 or self.shape[1] == 1)
        self.inputs.append((buffer.address, rs, step, reg, STORED.get(stored, 0)))

    def read_slopes(self, slopes: np.ndarray, reg: int, along: str) -> None:
        """Add an input with one number for all, for each row or for each column."""
        shape = (slopes.size, 1) if along == "rows" else (1, slopes.size)
        self.gaps = False
        buffer, array, rs = self._place(f"input {len(self.inputs)}", shape, False)
        array[...] = slopes.reshape(shape)
        self.inputs.append(
            (buffer.address, rs if along == "rows" else 0, int(along == "columns"), reg, 0)
        )

    def write(self, reg: int) -> None:
        """Add an output apart from all inputs."""
        buffer, array, rs = self._place(f"output {len(self.outputs)}", self.shape, True)
        array[...] = np.nan
        self.outputs.append((buffer.address, rs, 1, reg, 0))
        self.written.append((buffer, array))

    def write_truths(self, reg: int) -> None:
        """Add an output of truths."""
        self.write_as(reg, "TRUTH", np.dtype(np.uint8))

    def write_as(self, reg: int, stored: str, dtype: np.dtype) -> None:
        """Add an output of another type than the registers'."""
        buffer, array, rs = self._place(f"output {len(self.outputs)}", self.shape, True, dtype)
        array[...] = 0x5A
        self.outputs.append((buffer.address, rs, 1, reg, STORED.get(stored, 0)))
        self.written.append((buffer, array))

    def change(self, x: np.ndarray, reg: int, result: int) -> None:
        """Add an input that an output replaces."""
        buffer, array, rs = self._place(f"output {len(self.outputs)}", self.shape, True)
        array[...] = x
        self.inputs.append((buffer.address, rs, 1, reg, 0))
        self.outputs.append((buffer.address, rs, 1, result, 0))
        self.written.append((buffer, array))

    def _struct(self, name: str, content: bytes, unit: int) -> int:
        arena = self.checker.arena(name, pages=16)
        buffer = arena.buffer(len(content), "end" if len(content) % 8 == 0 else "start")
        buffer.array((len(content),), np.dtype(np.uint8), (1,))[...] = np.frombuffer(
            content, np.uint8
        )
        return buffer.address

    def run(self, code: Sequence[tuple[str, int, int, int, int]]) -> list[np.ndarray]:
        """Call the kernel, check that it wrote nothing else, and give its outputs."""
        lines = b"".join(struct.pack("5B", INSTRUCTIONS[op], *more) for op, *more in code)
        values = {
            "inputs": self._struct(
                "inputs", b"".join(struct.pack("@PqiHH", *s) for s in self.inputs), 8
            ),
            "outputs": self._struct(
                "outputs", b"".join(struct.pack("@PqiHH", *s) for s in self.outputs), 8
            ),
            "code": self._struct("code", lines, 1),
            "input_count": len(self.inputs),
            "output_count": len(self.outputs),
            "code_count": len(code),
            "rows": self.shape[0],
            "columns": self.shape[1],
        }
        context = (self.row["symbol"], code, self.shape, self.inputs, self.outputs)
        before = [buffer.surroundings.copy() for buffer, _ in self.written]
        initial = [array.copy() for _, array in self.written]
        self.checker.call(self.row, values, context)
        found = [array.copy() for _, array in self.written]
        for (buffer, array), x, around in zip(self.written, initial, before, strict=True):
            array[...] = x
            same = np.array_equal(buffer.surroundings, around)
            assert same, f"{self.row['symbol']} wrote outside an output\n{context}"
        return found

"""Helpers of the packing tests: geometries, plain im2col, memory of a call."""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np

from tests.kernels.guarded_memory import CANARY, PAGE, PLACES, POISON, Buffer, extent_of
from tests.kernels.kernel_checker import Checker
from tests.kernels.kernel_table import BITS, DTYPES
from tests.kernels.kernel_values import draw


@dataclass
class Geometry:
    """``struct pplconv_geometry``, member by member."""

    ih: int
    iw: int
    oh: int
    ow: int
    kh: int
    kw: int
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int
    pad_top: int
    pad_left: int

    @property
    def taps(self) -> int:
        """Taps of the kernel."""
        return self.kh * self.kw

    @property
    def pixels(self) -> int:
        """Output pixels of one image."""
        return self.oh * self.ow

    def as_tuple(self) -> tuple[int, ...]:
        """Members in order."""
        return astuple(self)


def draw_geometry(rng: np.random.Generator, stride_w: int | None = None) -> Geometry:
    """Draw a geometry; some of its taps fall on padding only.

    Padding at the bottom and at the right follows from the output's size.
    """
    while True:
        kh, kw = (int(x) for x in rng.integers(1, 6, 2))
        dilation_h, dilation_w = (int(x) for x in rng.choice([1, 1, 1, 2, 3], 2))
        stride_h = int(rng.integers(1, 4))
        wide = int(rng.choice([6, 20, 70]))
        ih, iw = int(rng.integers(1, 12)), int(rng.integers(1, wide))
        pads = [int(x) for x in rng.integers(0, 5, 4) * rng.integers(0, 2)]
        strides = stride_h, stride_w or int(rng.integers(1, 4))
        oh = (ih + pads[0] + pads[1] - dilation_h * (kh - 1) - 1) // strides[0] + 1
        ow = (iw + pads[2] + pads[3] - dilation_w * (kw - 1) - 1) // strides[1] + 1
        if oh > 0 and ow > 0:
            return Geometry(
                ih, iw, oh, ow, kh, kw, *strides, dilation_h, dilation_w, pads[0], pads[2]
            )


def im2col(planes: np.ndarray, g: Geometry, padding: int = 0) -> np.ndarray:
    """Plain im2col: (C, ih, iw) to (C, kh, kw, oh * ow), `padding` where a tap falls on it."""
    out = np.full((planes.shape[0], g.kh, g.kw, g.oh, g.ow), padding, planes.dtype)
    for i in range(g.kh):
        for j in range(g.kw):
            for y in range(g.oh):
                row = y * g.stride_h - g.pad_top + i * g.dilation_h
                if not 0 <= row < g.ih:
                    continue
                columns = np.arange(g.ow) * g.stride_w - g.pad_left + j * g.dilation_w
                inside = (columns >= 0) & (columns < g.iw)
                out[:, i, j, y, inside] = planes[:, row, columns[inside]]
    return out.reshape(planes.shape[0], g.kh, g.kw, g.pixels)


class PackingCall:
    """Buffers of one call; inputs are read-only, outputs are watched.

    The outputs are of type `out`; by default, of the inputs' type.
    """

    def __init__(
        self, checker: Checker, row: dict, rng: np.random.Generator, out: str = ""
    ) -> None:
        self.checker, self.row, self.rng = checker, row, rng
        self.dtype = DTYPES.get(row["dtype"])  # None of kernels between two types
        self.out = out or row["dtype"]
        self.values: dict[str, int] = {}
        self.place = str(rng.choice([*PLACES, "middle"]))
        self._outputs: list[tuple[Buffer, np.ndarray]] = []
        self._flag: Buffer | None = None
        self.flag = 0

    def place_input(
        self, name: str, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> np.ndarray:
        """Make an input array of special numbers; packing must keep every bit."""
        buffer = self._buffer(name, extent_of(shape, strides, self.dtype.itemsize), writable=False)
        array = buffer.array(shape, self.dtype, strides)
        array[...] = draw(self.rng, "special", shape, self.dtype)
        return array

    def place_bytes(self, name: str, content: bytes) -> None:
        """Make an input of structs, which are whole words, with C's alignment."""
        buffer = self._buffer(name, len(content), writable=False, unit=8)
        buffer.array((len(content),), np.dtype(np.uint8), (1,))[...] = np.frombuffer(
            content, np.uint8
        )

    def place_output(
        self, name: str, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> np.ndarray:
        """Make an output: NaN in the array, which must be written, canaries around it."""
        dtype, bits = DTYPES[self.out], BITS[self.out]
        buffer = self._buffer(
            name, extent_of(shape, strides, dtype.itemsize), writable=True, unit=dtype.itemsize
        )
        array = buffer.array(shape, dtype, strides)
        array.view(bits)[...] = np.iinfo(bits).max
        self._outputs.append((buffer, array))
        return array

    def place_rows(self, x: np.ndarray, *, in_place: bool = False) -> None:
        """Place `x` as src, and dst with the same shape or in the same place; rows have gaps."""
        rows, columns = x.shape
        size = self.dtype.itemsize
        src_rs, dst_rs = ((columns + int(self.rng.integers(0, 4))) * size for _ in range(2))
        dst = self.place_output("dst", x.shape, (dst_rs, size))
        if in_place:
            dst[...] = x
            src_rs, self.values["src"] = dst_rs, self.values["dst"]
        else:
            self.place_input("src", x.shape, (src_rs, size))[...] = x
        self.values |= {"src_rs": src_rs, "dst_rs": dst_rs, "rows": rows, "columns": columns}

    def place_flag(self, name: str) -> None:
        """Make an output of one word that need not be written; `run` leaves it in `flag`."""
        self._flag = self._buffer(name, 8, writable=True, unit=8)

    def _buffer(self, name: str, extent: int, *, writable: bool, unit: int = 0) -> Buffer:
        pages = next(p for p in (64, 512, 4096) if extent < (p - 4) * PAGE)
        # Arrays are aligned to their elements only.
        offset = int(self.rng.integers(0, 16)) * (unit or self.dtype.itemsize)
        arena = self.checker.arena(name, writable=writable, pages=pages)
        buffer = arena.buffer(extent, self.place, offset)
        buffer.fill(CANARY if writable else POISON)
        self.values[name] = buffer.address
        return buffer

    def run(self, context: object) -> np.ndarray:
        """Call the kernel, check that it wrote nothing else, and give its output."""
        ((buffer, array),) = self._outputs
        initial, before = array.copy(), buffer.surroundings.copy()
        if self._flag is not None:
            word = self._flag.array((1,), np.dtype(np.int64), (8,))
            word[0] = 0
            beside = self._flag.surroundings.copy()
        self.checker.call(self.row, self.values, context)
        if self._flag is not None:
            self.flag, word[0] = int(word[0]), 0
            same = np.array_equal(self._flag.surroundings, beside)
            assert same, f"{self.row['symbol']} wrote beside its flag\n{context}"
        result = array.copy()
        bits = f"u{array.itemsize}"
        array.view(bits)[...] = initial.view(bits)
        same = np.array_equal(buffer.surroundings, before)
        assert same, f"{self.row['symbol']} wrote outside its output\n{context}"
        return result

    def same_bits(self, got: np.ndarray, expected: np.ndarray, context: object) -> None:
        """Fail unless all bits agree, NaN's included."""
        bits = BITS[self.out]
        differ = got.view(bits) != np.ascontiguousarray(expected).view(bits)
        if differ.any():
            where = tuple(int(i[0]) for i in np.nonzero(differ))
            raise AssertionError(
                f"{self.row['symbol']}: {np.count_nonzero(differ)} of {got.size} elements differ; "
                f"at {where} {got[where]!r}, expected {expected[where]!r}\n{context}"
            )

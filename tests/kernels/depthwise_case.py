"""One call of a depthwise kernel: laid out between guard pages, judged bit by bit.

``ordered_depthwise`` of the native half follows the contracts word by word and gives the exact
bits: fused for vector kernels, with two roundings a step for the portable ones. Sums of small
integers are exact, so float64 in NumPy judges those too.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from asm.contract import FLAGS
from tests.kernels.kernel_table import BITS
from tests.kernels.kernel_values import draw
from tests.kernels.packing_case import Geometry, PackingCall

CLIPS = ((0.0, np.inf), (0.0, 6.0), (-0.75, 0.5), (-np.inf, 0.25), (1.0, 1.0))
BIAS = {"depthwise_pixels": FLAGS["BIAS_ROW"], "depthwise_channels": FLAGS["BIAS_COLUMN"]}
RESIDUAL, CLIP = FLAGS["RESIDUAL"], FLAGS["CLIP"]


@dataclass
class Part:
    """The part of a convolution to compute: geometry, channels, rows first .. first + rows - 1."""

    g: Geometry
    channels: int = 3
    multiplier: int = 1
    phase: int = 0
    depth: int = 1
    first: int = 0
    rows: int = 0
    place: str = ""
    slab: bool = False

    @property
    def lines(self) -> tuple[int, int]:
        """Input rows in memory, first and one past the last: all, or those that `rows` need."""
        if not self.slab:
            return 0, self.g.ih
        g, last = self.g, self.first + self.rows - 1
        top = min(max(self.first * g.stride_h - g.pad_top, 0), g.ih)
        bottom = last * g.stride_h - g.pad_top + (g.kh - 1) * g.dilation_h + 1
        return top, max(min(bottom, g.ih), top)

    def sums(self, src: np.ndarray, weights: np.ndarray, filler: int = 0) -> np.ndarray:
        """Add up the taps of the image surrounded by `filler`, without a loop over outputs.

        The sums of all outputs of the geometry have the type of the weights.
        """
        g = self.g
        (top, bottom), dtype = self.lines, weights.dtype
        last = (g.oh - 1) * g.stride_h, (g.ow - 1) * g.stride_w
        height = max(last[0] + (g.kh - 1) * g.dilation_h + 1, g.pad_top + g.ih)
        width = max(last[1] + (g.kw - 1) * g.dilation_w + 1, g.pad_left + g.iw)
        padded = np.full((src.shape[0], height, width), filler, dtype)
        padded[:, g.pad_top + top : g.pad_top + bottom, g.pad_left : g.pad_left + g.iw] = src
        first = (self.phase + np.arange(self.channels)) // self.multiplier
        first = first // self.depth * self.depth
        out = np.zeros((self.channels, g.oh, g.ow), dtype)
        for row in range(self.depth * g.taps):
            channel, tap = divmod(row, g.taps)
            y, x = tap // g.kw * g.dilation_h, tap % g.kw * g.dilation_w
            seen = padded[
                first + channel, y : y + last[0] + 1 : g.stride_h, x : x + last[1] + 1 : g.stride_w
            ]
            out += weights[:, row][:, np.newaxis, np.newaxis] * seen
        return out


@dataclass
class Depthwise(Part):
    """The part of a convolution of floats to compute, its flags, and the kind of its numbers."""

    flags: int = 0
    kind: str = "special"


def geometry(
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
) -> Geometry | None:
    """Describe a convolution, `pads` top, bottom, left and right; None if it has no output."""
    oh, ow = (
        (n + before + after - d * (k - 1) - 1) // s + 1
        for n, k, s, d, before, after in zip(
            size, kernel, stride, dilation, pads[::2], pads[1::2], strict=True
        )
    )
    if oh < 1 or ow < 1:
        return None
    return Geometry(*size, oh, ow, *kernel, *stride, *dilation, pads[0], pads[2])


def draw_geometry(rng: np.random.Generator) -> Geometry:
    """Draw any kernel size, stride, dilation and padding."""
    while True:
        g = geometry(
            (int(rng.integers(1, 15)), int(rng.integers(1, 41))),
            tuple(int(x) for x in rng.integers(1, 8, 2)),
            tuple(int(x) for x in rng.integers(1, 4, 2)),
            tuple(int(x) for x in rng.choice([1, 1, 1, 2, 3], 2)),
            tuple(int(x) for x in rng.integers(0, 10, 4) * rng.integers(0, 2, 4)),
        )
        if g is not None:
            return g


def draw_rows(rng: np.random.Generator, oh: int) -> tuple[int, int]:
    """Draw a first row and a number of rows; all rows in half of the cases."""
    if rng.random() < 0.5:
        return 0, oh
    first = int(rng.integers(0, oh))
    return first, int(rng.integers(1, oh - first + 1))


def gap(rng: np.random.Generator, size: int) -> int:
    """Draw a gap in bytes between rows or pixels; none in half of the cases."""
    return int(rng.integers(0, 9) * rng.integers(0, 2)) * size


def draw_strides(
    rng: np.random.Generator, shape: tuple[int, int, int], size: int, *, planes: bool
) -> tuple[int, int, int]:
    """Draw strides of an array of (channel, row, column): planes, or pixels of channels."""
    channels, rows, columns = shape
    if planes:
        return rows * columns * size + gap(rng, size), columns * size, size
    ps = channels * size + gap(rng, size)
    return size, columns * ps + gap(rng, size), ps


class PartCall(PackingCall):
    """A part of a convolution laid out in memory: its image and geometry."""

    def __init__(self, checker, row: dict, rng: np.random.Generator, case: Part) -> None:
        super().__init__(checker, row, rng)
        self.case, self.place = case, case.place or self.place
        self.pixels = row["op"].endswith("pixels")
        inputs = (case.phase + case.channels - 1) // case.multiplier + 1
        self.values |= {
            "first_row": case.first,
            "rows": case.rows,
            "channels": case.channels,
            "multiplier": case.multiplier,
            "phase": case.phase,
            "depth": case.depth,
        }
        # All arrays are viewed as (channel, row, column); their strides differ.
        top, bottom = case.lines
        strides = self._strides("src", (inputs, bottom - top, case.g.iw))
        self.src = self._input("src", (inputs, bottom - top, case.g.iw), strides)
        self.values["src"] -= top * strides[1]
        self.place_bytes("geometry", np.array(case.g.as_tuple(), np.int64).tobytes())

    def _strides(self, name: str, shape: tuple[int, int, int]) -> tuple[int, int, int]:
        """Draw strides for an array of (channel, row, column), and make them arguments."""
        strides = draw_strides(self.rng, shape, self.dtype.itemsize, planes=self.pixels)
        self.values |= dict(zip((f"{name}_cs", f"{name}_rs", f"{name}_ps"), strides, strict=True))
        return strides

    def _input(self, name: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
        return self.place_input(name, shape, strides)


class DepthwiseCall(PartCall):
    """A case of floats laid out in memory."""

    def __init__(self, checker, row: dict, rng: np.random.Generator, case: Depthwise) -> None:
        super().__init__(checker, row, rng, case)
        size, g, flags = self.dtype.itemsize, case.g, case.flags
        self.values["flags"] = flags
        shape = case.channels, case.rows, g.ow
        dst_strides = self._strides("dst", (case.channels, g.oh, g.ow))
        self.place_output("dst", shape, dst_strides)
        self.values["dst"] -= case.first * dst_strides[1]
        self.lanes = 1 if self.pixels else row["vector_bytes"] // size
        self.weights = self._weights()
        self.values |= {"residual_cs": 0, "residual_rs": 0, "residual_ps": 0}
        self.bias = self.residual = self.clip = None
        if flags & BIAS[row["op"]]:
            self.bias = self._input("bias", (case.channels,), (size,))
        if flags & RESIDUAL:
            strides = self._strides("residual", (case.channels, g.oh, g.ow))
            self.residual = self._input("residual", shape, strides)
            self.values["residual"] -= case.first * strides[1]
        if flags & CLIP:
            self.clip = self._input("clip", (2,), (size,))
            self.clip[...] = CLIPS[int(rng.integers(len(CLIPS)))]

    def _weights(self) -> np.ndarray:
        """Place packed weights, a vector of channels at a time; its last lanes may have none."""
        case, size, lanes = self.case, self.dtype.itemsize, self.lanes
        rows, vectors = case.depth * case.g.taps, -(-case.channels // lanes)
        strides = rows * lanes * size, size, lanes * size
        self.packed = self._input("weights", (vectors, lanes, rows), strides)
        return self.packed.reshape(-1, rows)[: case.channels]

    def _input(self, name: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
        array = self.place_input(name, shape, strides)
        if self.case.kind == "integers":
            array[...] = self.rng.integers(-8, 9, shape)
        else:
            array[...] = draw(self.rng, self.case.kind, shape, self.dtype)
        return array

    def ordered(self) -> np.ndarray:
        """The bits that the contract's order of operations gives."""
        op, case = self.row["op"], self.case
        out = np.empty((case.channels, case.rows, case.g.ow), self.dtype)
        reference = getattr(self.checker.native, f"ordered_{op}_{self.row['dtype']}")
        reference(
            ctypes.c_void_p(self.checker.arguments(op, self.values)),
            ctypes.c_int64(self.lanes),
            ctypes.c_int64(self.row["isa"] != "portable"),
            ctypes.c_void_p(out.ctypes.data),
        )
        return out

    def exact(self) -> np.ndarray:
        """The result in float64, from whole arrays and without a loop over outputs."""
        case, weights = self.case, self.weights.astype(np.float64)
        out = case.sums(self.src, weights)[:, case.first : case.first + case.rows]
        if self.bias is not None:
            out = out + self.bias[:, np.newaxis, np.newaxis]
        if self.residual is not None:
            out = out + self.residual
        if self.clip is not None:
            out = np.clip(out, *self.clip.astype(np.float64))
        return out


def judge(checker, row: dict, rng: np.random.Generator, case: Depthwise) -> None:
    """Make the call and compare bits with the ordered reference; any NaN equals any other."""
    case.rows = case.rows or case.g.oh
    with np.errstate(all="ignore"):
        call = DepthwiseCall(checker, row, rng, case)
        expected = call.ordered()
        got = call.run(case)
    if case.kind == "integers":
        np.testing.assert_array_equal(got, call.exact(), err_msg=f"{row['symbol']}\n{case}")
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(got), nan, err_msg=f"NaN: {row['symbol']}\n{case}")
    for array in (got, expected):
        array.view(BITS[row["dtype"]])[nan] = 0
    call.same_bits(got, expected, (case, call.values))

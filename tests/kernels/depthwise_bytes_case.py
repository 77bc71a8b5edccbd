"""One call of a kernel for depthwise convolution of bytes: packed weights, guarded arrays, judge.

The reference sums in NumPy's int64 over the image padded with its zero point. Such sums are exact
in any order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.kernels.depthwise_case import Part, PartCall, gap
from tests.kernels.guarded_memory import CANARY, extent_of
from tests.kernels.kernel_checker import Checker
from tests.kernels.kernel_table import every_row
from tests.kernels.packing_case import Geometry

# Kinds of random weights: of eight bits, of nine, and the largest of both.
WEIGHTS = ("s8", "wide", "extreme s8", "extreme wide", "mixed")


@dataclass
class DepthwiseBytes(Part):
    """The part of a convolution of bytes to compute: a range of columns, too; and its weights."""

    first_column: int = 0
    columns: int = 0
    weights: str = "s8"


def unit_of(row: dict) -> int:
    """Channels in a unit of packed weights."""
    return 1 if row["op"] == "depthwise_bytes_pixels" else row["vector_bytes"]


def unit_bytes(g: Geometry, unit: int) -> int:
    """Bytes of a unit of packed weights, the fewest that the contract allows."""
    if unit == 1:
        return 8 + 8 * g.kh * -(-g.kw // 4)
    taps = 64 + unit * 2 * g.taps
    if g.kh == g.kw and g.kh in (3, 5):
        taps = max(taps, 64 + unit * 4 * (1 + 4 * g.kw * -(-(g.kh + 2) // 4)))
    return -(-taps // 8) * 8


def draw_weights(rng: np.random.Generator, kind: str, shape: tuple[int, int]) -> np.ndarray:
    """Draw weights of a kind in `WEIGHTS`; "mixed" gives some channels weights of nine bits."""
    if kind == "mixed":
        wide = rng.random(shape[0]) < 0.1
        return np.where(
            wide[:, np.newaxis], draw_weights(rng, "wide", shape), draw_weights(rng, "s8", shape)
        )
    low, high = (-255, 255) if kind.endswith("wide") else (-128, 127)
    if kind.startswith("extreme"):
        return rng.choice(np.array([low, high], np.int16), shape, p=[0.8, 0.2])
    return rng.integers(low, high + 1, shape).astype(np.int16)


class DepthwiseBytesCall(PartCall):
    """A case laid out in memory."""

    def __init__(
        self, checker: Checker, row: dict, rng: np.random.Generator, case: DepthwiseBytes
    ) -> None:
        super().__init__(checker, row, rng, case)
        info = np.iinfo(self.dtype)
        self.x_zero = int(rng.choice([info.min, info.max, rng.integers(info.min, info.max + 1)]))
        self.values |= {
            "first_column": case.first_column,
            "columns": case.columns,
            "x_zero": self.x_zero,
        }
        if rng.random() < 0.2:
            self.src[...] = rng.choice([info.min, info.max])
        self.weights = draw_weights(rng, case.weights, (case.channels, case.g.taps))
        self._pack()

    def _pack(self) -> None:
        """Let the kernel's level pack the weights in two parts, and place them as an input."""
        case, values = self.case, self.values
        unit, oc = unit_of(self.row), case.channels
        us = unit_bytes(case.g, unit)
        size = -(-oc // unit) * us
        self.place_bytes("filters", self.weights.tobytes())
        out = self._buffer("packed", size, writable=True, unit=8)
        around = out.surroundings.copy()
        packed = out.array((size,), np.dtype(np.uint8), (1,))
        middle = int(self.rng.integers(0, oc // unit + 1)) * unit
        row = next(
            r
            for r in every_row("pack_depthwise_bytes")
            if (r["isa"], r["dtype"]) == (self.row["isa"], self.row["dtype"])
        )
        for begin, end in ((0, middle), (middle, oc)):
            arguments = {
                "src": values["filters"],
                "dst": values["packed"],
                "dst_us": us,
                "begin": begin,
                "end": end,
                "pixels": int(self.pixels),
                "multiplier": case.multiplier,
                "geometry": values["geometry"],
            }
            # Each call packs one part, and leaves the other as it is.
            self.checker.call(row, arguments, case)
        content = packed.tobytes()
        packed[...] = CANARY
        assert np.array_equal(out.surroundings, around), f"{row['symbol']} wrote elsewhere\n{case}"
        self.place_bytes("weights", content)
        values["weights_us"] = us

    def sums(self) -> np.ndarray:
        """Call the kernel, check its surroundings, and give the sums (channel, row, column)."""
        case, g, lanes = self.case, self.case.g, self.row["vector_bytes"] // 4
        if self.pixels:
            shape = case.channels, case.rows, g.ow
            strides = (case.rows * g.ow * 4 + gap(self.rng, 4), g.ow * 4, 4)
            extent = extent_of(shape, strides, 4) + 4 * lanes
            reach = (g.kh - 1) * g.dilation_h + 1
            width = (g.ow - 1) * g.stride_w + (g.kw - 1) * g.dilation_w + 65
            self.values |= {"dst_cs": strides[0], "slab_rs": width + gap(self.rng, 1)}
            lines = (case.rows - 1) * g.stride_h + reach
            slab = self._buffer("slab", lines * self.values["slab_rs"], writable=True, unit=1)
            first = 0
        else:
            room = -(-case.channels // lanes) * lanes
            shape = room, case.rows, case.columns
            ps = room * 4 + gap(self.rng, 4)
            strides = 4, case.columns * ps + gap(self.rng, 4), ps
            extent = extent_of(shape, strides, 4)
            self.values |= {"dst_rs": strides[1], "dst_ps": ps}
            first = case.first * strides[1] + case.first_column * ps
        out = self._buffer("dst", extent, writable=True, unit=4)
        sums = out.array(shape, np.dtype(np.int32), strides)
        before = out.surroundings.copy()
        self.values["dst"] -= first
        self.checker.call(self.row, self.values, (case, self.values))
        result = sums[: case.channels].copy()
        sums[...] = np.frombuffer(bytes([CANARY] * 4), np.int32)[0]
        after = out.surroundings.copy()
        if self.pixels:
            # A channel may overrun into the next, which is written later, the last one into room.
            begin, size = out.first - max(out.first - 256, 0), extent
            after[begin : begin + size] = CANARY
            lowest = self.values["slab"] - slab.address
            assert lowest == 0
        assert np.array_equal(before, after), f"{self.row['symbol']} wrote elsewhere\n{case}"
        return result

    def expected(self) -> np.ndarray:
        """The sums, in int64."""
        case = self.case
        out = case.sums(self.src, self.weights.astype(np.int64), self.x_zero)
        rows = slice(case.first, case.first + case.rows)
        columns = slice(None)
        if not self.pixels:
            columns = slice(case.first_column, case.first_column + case.columns)
        return out[:, rows, columns]


def judge(checker: Checker, row: dict, rng: np.random.Generator, case: DepthwiseBytes) -> None:
    """Make the call and hold its sums against the exact ones."""
    case.rows = case.rows or case.g.oh
    case.columns = case.columns or case.g.ow
    call = DepthwiseBytesCall(checker, row, rng, case)
    np.testing.assert_array_equal(call.sums(), call.expected(), err_msg=f"{row['symbol']}\n{case}")

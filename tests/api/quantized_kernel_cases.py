"""Random problems for `QuantizedKernel`, and their right results by int64 and float32 steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pplconv.ops.quantized.quantized_run import QuantizedKernel

RANGES = {"u8": (0, 255, np.uint8), "s8": (-128, 127, np.int8)}
LIMITS = {"s32": np.int32, "f32": np.float32}


@dataclass
class Case:
    """A problem with its arrays, all in NCHW."""

    x: np.ndarray
    weight: np.ndarray
    numbers: dict[str, Any]
    geometry: dict[str, Any]
    residual: np.ndarray | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    def kernel(self, layout: str, **settings: Any) -> QuantizedKernel:
        return QuantizedKernel(
            self.weight, layout=layout, **self.numbers, **self.geometry, **settings
        )

    def run(self, kernel: QuantizedKernel) -> np.ndarray:
        """The result in NCHW, of an output that held something else."""
        x, residual = (laid(array, kernel.layout) for array in (self.x, self.residual))
        expected = laid(self.expected(), kernel.layout)
        out = np.full_like(expected, 77)
        assert kernel(x, residual, out) is out
        return np.moveaxis(out, 3, 1) if kernel.layout == "NHWC" else out

    def expected(self) -> np.ndarray:
        n = self.numbers
        sums = self._sums() + n["offset"].astype(np.int64)[:, None, None]
        # What leaves int32 is refused before a kernel is made.
        assert abs(sums).max(initial=0) < 2**31
        sums = sums.astype(np.int32)
        kind = n["out_dtype"]
        if kind == "s32":
            return sums
        y = sums.astype(np.float32) * n["multiplier"][:, None, None]
        if self.residual is not None:
            more = self.residual
            if kind in RANGES:
                more = (more.astype(np.int32) - n["residual_zero"]).astype(np.float32)
                more = more * np.float32(n["residual_scale"])
            y = y + more
        y = np.minimum(np.maximum(y, np.float32(n["low"])), np.float32(n["high"]))
        if kind == "f32":
            return y
        low, high, dtype = RANGES[kind]
        return np.clip(np.rint(y).astype(np.int32) + n["y_zero"], low, high).astype(dtype)

    def add_residual(self, rng: np.random.Generator) -> None:
        """Draw a residual of the type of the outputs, and what it is multiplied by."""
        kind, shape = self.numbers["out_dtype"], self._sums().shape
        self.numbers |= {"residual_scale": 0.37, "residual_zero": 3 if kind in RANGES else 0}
        if kind in RANGES:
            self.residual = rng.integers(*RANGES[kind][:2], shape).astype(RANGES[kind][2])
        else:
            self.residual = rng.normal(size=shape).astype(np.float32)

    def _sums(self) -> np.ndarray:
        g, w = self.geometry, self.weight.astype(np.int64)
        (sh, sw), (dh, dw), groups = g["stride"], g["dilation"], g["groups"]
        x = np.pad(
            self.x.astype(np.int64) - self.numbers["x_zero"], ((0, 0), (0, 0), *g["padding"])
        )
        oc, ic, kh, kw = w.shape
        oh = (x.shape[2] - (kh - 1) * dh - 1) // sh + 1
        ow = (x.shape[3] - (kw - 1) * dw - 1) // sw + 1
        y = np.zeros((len(x), oc, oh, ow), np.int64)
        each = oc // groups
        for group in range(groups):
            own = slice(group * each, (group + 1) * each)
            channels = x[:, group * ic : (group + 1) * ic]
            for i in range(kh):
                for j in range(kw):
                    down = slice(i * dh, i * dh + (oh - 1) * sh + 1, sh)
                    across = slice(j * dw, j * dw + (ow - 1) * sw + 1, sw)
                    y[:, own] += np.einsum(
                        "nchw,oc->nohw", channels[:, :, down, across], w[own, :, i, j]
                    )
        return y


def laid(array: np.ndarray | None, layout: str) -> np.ndarray | None:
    """An array of NCHW as the layout has it."""
    if array is None or layout == "NCHW":
        return array
    return np.ascontiguousarray(np.moveaxis(array, 1, 3))


def draw_geometry(
    rng: np.random.Generator,
) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """Shapes of input and weights, and the rest."""
    groups = int(rng.choice([1, 1, 1, 2, 3]))
    ic, oc = int(rng.choice([1, 3, 4, 7, 16, 20, 64, 100])), int(rng.choice([1, 5, 16, 33, 64]))
    kh, kw = int(rng.choice([1, 1, 3, 5])), int(rng.choice([1, 1, 2, 3]))
    dilation = (1, 1) if rng.random() < 0.8 else (2, 1)
    h = int(rng.integers((kh - 1) * dilation[0] + 1, 18))
    w = int(rng.integers(kw, 18))
    stride = tuple(int(s) for s in rng.integers(1, 3, 2))
    padding = tuple((int(a), int(b)) for a, b in rng.integers(0, 3, (2, 2)))
    if rng.random() < 0.25 and h >= 3 <= w:  # what Winograd may serve
        (kh, kw), stride, dilation = (3, 3), (1, 1), (1, 1)
    if (kh, kw) == (1, 1) and rng.random() < 0.7:
        stride, padding = (1, 1), ((0, 0), (0, 0))
    geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return (int(rng.integers(1, 3)), ic * groups, h, w), (oc * groups, ic, kh, kw), geometry


def numbers_of(rng: np.random.Generator, x_dtype: str, x_zero: int, oc: int, out: str) -> dict:
    """Draw what finishes sums, whose results are spread over the outputs' range."""
    numbers: dict[str, Any] = {
        "x_dtype": x_dtype,
        "x_zero": x_zero,
        "offset": rng.integers(-10_000, 10_000, oc).astype(np.int32),
        "out_dtype": out,
        "multiplier": (rng.random(oc) * 1e-3 + 1e-4).astype(np.float32),
        "low": -np.inf,
        "high": np.inf,
    }
    if out in RANGES:
        low, high, _ = RANGES[out]
        numbers["y_zero"] = zero = int(rng.integers(low, high + 1))
        numbers |= {"low": low - zero, "high": high - zero}
    return numbers


def draw(seed: int, **fixed: Any) -> Case:
    """Draw a case; `fixed` are numbers that are not drawn."""
    rng = np.random.default_rng(seed)
    x_shape, w_shape, geometry = draw_geometry(rng)
    x_dtype = str(rng.choice(list(RANGES)))
    low, high, dtype = RANGES[x_dtype]
    kind = str(rng.choice([*RANGES, *LIMITS]))
    x = rng.integers(low, high + 1, x_shape).astype(dtype)
    if rng.random() < 0.15:  # zero points that eight bits cannot take away
        weight = rng.integers(-255, 256, w_shape).astype(np.int16)
    else:
        weight = rng.integers(-128, 128, w_shape).astype(np.int8)
        if rng.random() < 0.4:  # seven bits, which pairs of products take
            weight >>= 1
    numbers = numbers_of(rng, x_dtype, int(rng.integers(low, high + 1)), w_shape[0], kind)
    case = Case(x, weight, numbers | fixed, geometry)
    if kind != "s32" and rng.random() < 0.4:
        case.add_residual(rng)
    return case

"""Random problems for `QuantizedKernel`, and their right results by int64 and float32 steps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pplconv.arguments.checks import make_problem
from pplconv.ops.quantized.quantized_run import QuantizedKernel
from pplconv.problem import ConvProblem
from tests import quantized_reference as reference
from tests.api.blocks import from_layout, to_layout

RANGES = {"u8": (0, 255, np.uint8), "s8": (-128, 127, np.int8)}
LONG = {"u8": "uint8", "s8": "int8", "s32": "int32", "f32": "float32"}


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
        x, residual = (to_layout(array, kernel.layout) for array in (self.x, self.residual))
        out = np.full_like(to_layout(self.expected(), kernel.layout), 77)
        assert kernel(x, residual, out) is out
        return from_layout(out, kernel.layout)

    def expected(self) -> np.ndarray:
        """The result in NCHW, by the contract's steps."""
        n = self.numbers
        output = reference.Output(LONG[n["out_dtype"]])
        if n["out_dtype"] != "s32":
            output = reference.Output(
                output.dtype,
                n["multiplier"][:, None, None],
                n.get("y_zero", 0),
                activation=("clip", n["low"], n["high"]),
                residual=self.residual,
                residual_scale=n.get("residual_scale"),
                residual_zero=n.get("residual_zero", 0),
            )
        return reference.outputs(self._sums() + n["offset"][:, None, None], output)

    def problem(self, layout: str, **changes: Any) -> ConvProblem:
        """Describe the case, as `QuantizedKernel` does."""
        x_dtype, g, filters = self.numbers["x_dtype"], self.geometry, self.weight.shape
        made = make_problem(to_layout(self.x, layout).shape, filters, x_dtype, **g, layout=layout)
        return replace(made, destination=self.numbers["out_dtype"], **changes)

    def add_residual(self, rng: np.random.Generator) -> None:
        """Draw a residual of the type of the outputs, and what it is multiplied by."""
        kind, shape = self.numbers["out_dtype"], self._sums().shape
        self.numbers |= {"residual_scale": 0.37, "residual_zero": 3 if kind in RANGES else 0}
        if kind in RANGES:
            self.residual = rng.integers(*RANGES[kind][:2], shape).astype(RANGES[kind][2])
        else:
            self.residual = rng.normal(size=shape).astype(np.float32)

    def _sums(self) -> np.ndarray:
        return reference.integer_sums(self.x, self.weight, self.numbers["x_zero"], **self.geometry)


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
    kind = str(rng.choice([*LONG]))
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

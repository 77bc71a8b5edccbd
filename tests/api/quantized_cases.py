"""Random quantized convolutions, with the reference's answer."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests import quantized_reference as reference
from tests.api.problems import Problem, draw_problem

F32 = np.float32
TYPES = ["uint8", "int8"]
OUTPUTS = ["uint8", "int8", "int32", "float32"]


@dataclass(frozen=True)
class Case:
    """A quantized convolution: geometry and seed are those of a `Problem`."""

    problem: Problem
    x_dtype: str
    w_dtype: str
    out_dtype: str
    scale_each: bool  # a scale for each output channel
    zero_each: bool  # a zero point of weights for each output channel
    w_zeros: bool  # whether weights have a zero point other than 0
    bias: str | None
    powers: bool  # scales are powers of two, so that half of all odd sums are ties

    @property
    def activation(self) -> Any:
        """What follows the sums; int32 outputs have none."""
        return None if self.out_dtype == "int32" else self.problem.activation

    @property
    def geometry(self) -> dict[str, Any]:
        """The arguments about shapes."""
        names = ("stride", "padding", "dilation", "groups", "layout")
        return {name: getattr(self.problem, name) for name in names}

    def drawn(self) -> Drawn:
        """Give arrays, scales and zero points, as the seed decides."""
        p, rng = self.problem, np.random.default_rng(self.problem.seed)
        oc = p.out_channels

        def integers(dtype, shape=()):
            info = np.iinfo(dtype)
            return rng.integers(info.min, info.max + 1, shape).astype(dtype)

        def scale(shape=()):
            exponents = rng.integers(-6, 1, shape) if self.powers else rng.uniform(-6, 1, shape)
            return np.exp2(exponents).astype(F32)

        x = integers(self.x_dtype, p.input_shape)
        w = integers(self.w_dtype, (oc, p.in_channels // p.groups, *p.kernel))
        x_zero = integers(self.x_dtype)
        w_zero = integers(self.w_dtype, (oc,) if self.zero_each else ())
        if not self.w_zeros:
            w_zero = np.zeros_like(w_zero)
        x_scale, w_scale = scale(), scale((oc,) if self.scale_each else ())
        bias = None
        if self.bias == "int32":
            bias = rng.integers(-5000, 5001, oc).astype(np.int32)
        elif self.bias == "float32":
            bias = (rng.standard_normal(oc) * 500 * x_scale * w_scale).astype(F32)
        # Outputs spread over about the range of eight bits.
        spread = float(x_scale) * float(np.max(w_scale)) * np.sqrt(w[0].size) * 64 * 64 / 60
        y_scale = F32(np.exp2(np.rint(np.log2(spread)))) if self.powers else F32(spread)
        residual = residual_scale = None
        residual_zero = 0
        if p.with_residual and self.out_dtype == "float32":
            residual = (rng.standard_normal(p.output_shape) * spread * 30).astype(F32)
        elif p.with_residual and self.out_dtype != "int32":
            residual = integers(self.out_dtype, p.output_shape)
            residual_scale = F32(float(y_scale) * float(scale()) * 2)
            residual_zero = int(integers(self.out_dtype))
        y_zero = integers(self.out_dtype) if self.out_dtype in TYPES else None
        if y_zero is None:
            y_scale = None
        return Drawn(
            self, x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias, residual,
            residual_scale, residual_zero,
        )  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """The numbers of a case."""

    case: Case
    x: Any
    x_scale: Any
    x_zero: Any
    w: Any
    w_scale: Any
    w_zero: Any
    y_scale: Any
    y_zero: Any
    bias: Any
    residual: Any
    residual_scale: Any
    residual_zero: Any

    def sums(self) -> np.ndarray:
        """Give the exact sums, bias included."""
        case = self.case
        sums = reference.integer_sums(self.x, self.w, self.x_zero, self.w_zero, **case.geometry)
        if self.bias is None:
            return sums
        bias = self.bias
        if bias.dtype == F32:
            bias = reference.float_bias(bias, self.x_scale, self.w_scale)
        return sums + self.channels(bias.astype(np.int64))

    def channels(self, values: Any) -> np.ndarray:
        """See numbers of channels as they are broadcast."""
        values = np.asarray(values)
        last = values.ndim == 0 or self.case.problem.layout == "NHWC"
        return values if last else values[:, np.newaxis, np.newaxis]

    def expected(self) -> np.ndarray:
        """Give the outputs."""
        y_scale = 1.0 if self.y_scale is None else self.y_scale
        return reference.outputs(
            self.sums(),
            reference.Output(
                self.case.out_dtype,
                self.channels(reference.multiplier(self.x_scale, self.w_scale, y_scale)),
                0 if self.y_zero is None else int(self.y_zero),
                y_scale,
                self.case.activation,
                self.residual,
                self.residual_scale,
                self.residual_zero,
            ),
        )

    def keywords(self) -> dict[str, Any]:
        """Give the keywords that function and class share, but for the scales."""
        case = self.case
        return {
            **case.geometry,
            "activation": case.activation,
            "out_dtype": case.out_dtype,
            "residual_scale": self.residual_scale,
            "residual_zero_point": self.residual_zero if self.residual_scale is not None else None,
            **case.problem.options,
        }

    def scales(self) -> dict[str, Any]:
        """Give scales and zero points by name."""
        return {
            "x_scale": self.x_scale,
            "x_zero_point": self.x_zero,
            "w_scale": self.w_scale,
            "w_zero_point": self.w_zero,
            "y_scale": self.y_scale,
            "y_zero_point": self.y_zero,
        }


def draw_numbers(r: Random) -> dict[str, Any]:
    """Draw what a `Case` takes besides its problem and the type of its output."""
    return {
        "x_dtype": r.choice(TYPES),
        "w_dtype": r.choice(("int8", "int8", "uint8")),
        "scale_each": r.random() < 0.5,
        "zero_each": r.random() < 0.5,
        "w_zeros": r.random() < 0.5,
        "bias": r.choice((None, "int32", "float32")),
        "powers": r.random() < 0.5,
    }


def draw_case(r: Random, **parameters: Any) -> Case:
    """Draw a case; parameters are those of `draw_problem`."""
    problem = draw_problem(r, dtypes=("uint8",), curved=False, **parameters)
    return Case(problem, out_dtype=r.choice(("uint8", "int8", *OUTPUTS)), **draw_numbers(r))


def cases() -> st.SearchStrategy[Case]:
    """Draw cases."""
    return st.randoms(use_true_random=False).map(draw_case)

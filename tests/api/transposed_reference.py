"""Transposed convolution in float64 by its definition, and random cases of it.

Each input pixel, times each tap, is added where it belongs; what is outside the output is cut off.
Nothing of it is shared with the package under test. How far a result may be from it is derived in
`reference`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import pplconv
from tests.api.blocks import from_layout, to_layout
from tests.reference import HALF_ULP, LEAST_HALF_ULP, activate, assert_within, rounding_bound

LAYOUTS = ("NCHW", "NHWC", "NCHWc")
ACTIVATIONS = (None, None, "relu", ("clip", -0.5, 2.0), ("leaky_relu", 0.1), "prelu", "silu")


def scatter(x, w, bias, residual, *, stride, padding, output_padding, dilation, groups):
    """Give the sums of NCHW arrays, in float64."""
    (n, ic, h, width), (_, own, kh, kw) = x.shape, w.shape
    (sh, sw), (dh, dw) = stride, dilation
    high = (h - 1) * sh + (kh - 1) * dh + 1 + output_padding[0]
    wide = (width - 1) * sw + (kw - 1) * dw + 1 + output_padding[1]
    y = np.zeros((n, groups, own, high, wide))
    x = x.astype(np.float64).reshape(n, groups, ic // groups, h, width)
    w = w.astype(np.float64).reshape(groups, ic // groups, own, kh, kw)
    with np.errstate(all="ignore"):
        for i in range(kh):
            for j in range(kw):
                rows = slice(i * dh, i * dh + (h - 1) * sh + 1, sh)
                columns = slice(j * dw, j * dw + (width - 1) * sw + 1, sw)
                seen = x.reshape(n, groups, ic // groups, h * width)
                terms = w[..., i, j].transpose(0, 2, 1) @ seen
                y[..., rows, columns] += terms.reshape(n, groups, own, h, width)
        (top, bottom), (left, right) = padding
        y = y.reshape(n, groups * own, high, wide)[:, :, top : high - bottom, left : wide - right]
        if bias is not None:
            y = y + bias.astype(np.float64)[:, np.newaxis, np.newaxis]
        return y if residual is None else y + residual.astype(np.float64)


def sums_of_halves(magnitudes, terms: int, expected) -> np.ndarray:
    """Bound the error of half precision: chains of 64 products, and an epilogue of halves."""
    steps = (min(terms, 64) + 4) * HALF_ULP
    return steps / (1 - steps) * magnitudes + 8 * HALF_ULP * np.abs(expected) + 64 * LEAST_HALF_ULP


@dataclass
class Case:
    """One call: arrays in NCHW, and how they are passed."""

    x: np.ndarray
    weight: np.ndarray
    bias: np.ndarray | None
    residual: np.ndarray | None
    geometry: dict[str, Any]
    activation: Any
    layout: str
    block: int

    @property
    def parameters(self) -> dict[str, Any]:
        """Arguments of `ConvTranspose2d` besides the weights."""
        return {**self.geometry, "activation": self.activation, "layout": self.layout}

    @property
    def input(self) -> np.ndarray:
        return to_layout(self.x, self.layout, self.block)

    @property
    def added(self) -> np.ndarray | None:
        return to_layout(self.residual, self.layout, self.block)

    def layer(self, **settings: Any) -> pplconv.ConvTranspose2d:
        """Prepare the weights."""
        return pplconv.ConvTranspose2d(self.weight, self.bias, **self.parameters, **settings)

    def check(self, y: np.ndarray, plan: pplconv.TransposedPlan | None = None) -> None:
        """Assert that a result is right, NaN and infinities included.

        The plan tells whether a part is no direct sum, or a sum of halves; without one, none is.
        """
        parts = () if plan is None else plan.parts
        by_winograd = any(part.algorithm == "winograd" for part in parts)
        stated = plan.error_bound if by_winograd else 0.0
        dtype = self.x.dtype
        assert type(y) is np.ndarray
        got = from_layout(y, self.layout, self.weight.shape[1] * self.geometry["groups"])
        sums = scatter(self.x, self.weight, self.bias, self.residual, **self.geometry)
        expected = activate(sums, self.activation, dtype)
        terms = self.weight.shape[0] // self.geometry["groups"]
        terms *= self.weight.shape[2] * self.weight.shape[3]
        arrays = [self.x, self.weight, self.bias, self.residual]
        magnitudes = scatter(
            *(None if a is None else np.abs(a.astype(np.float64)) for a in arrays), **self.geometry
        )
        with np.errstate(all="ignore"):
            bound = rounding_bound(magnitudes, terms + 4, dtype, stated)
            if any(part.compute == "f16" for part in parts):
                bound = bound + sums_of_halves(magnitudes, terms, expected)
        assert_within(got, expected, bound, dtype, self.activation)


def draw(rng: np.random.Generator, layout: str, dtype: str) -> Case:
    """Draw a case: strides and dilations to 3, cut on any side, as large as the edges of tiles."""

    def pair(low: int, high: int) -> tuple[int, int]:
        a, b = rng.integers(low, high, 2, endpoint=True)
        return int(a), int(b)

    while True:
        groups = int(rng.choice([1, 1, 1, 2, 3]))
        most = 40 if rng.random() < 0.2 else 8
        own = [int(n) for n in rng.integers(1, most, 2, endpoint=True)]
        if rng.random() < 0.1:
            groups, own = int(rng.integers(2, 20)), [1, 1]
        stride, dilation, kernel = pair(1, 3), pair(1, 3), pair(1, 5)
        if rng.random() < 0.5:
            dilation = (1, 1)
        if rng.random() < 0.3:
            times = pair(1, 2)
            kernel = (times[0] * stride[0], times[1] * stride[1])
        most_more = [max(s, d) - 1 for s, d in zip(stride, dilation, strict=True)]
        geometry = {
            "stride": stride, "padding": (pair(0, 3), pair(0, 3)), "dilation": dilation,
            "output_padding": tuple(int(rng.integers(0, n, endpoint=True)) for n in most_more),
            "groups": groups,
        }  # fmt: skip
        image = pair(1, 20 if rng.random() < 0.3 else 7)
        size = [
            (n - 1) * s + (k - 1) * d + 1 + more - sum(cut)
            for n, s, k, d, more, cut in zip(
                image, stride, kernel, dilation, geometry["output_padding"], geometry["padding"],
                strict=True,
            )
        ]  # fmt: skip
        if min(size) > 0:
            break
    x = rng.standard_normal((int(rng.choice([1, 1, 2, 3])), own[0] * groups, *image))
    weight = rng.standard_normal((own[0] * groups, own[1], *kernel))
    oc = own[1] * groups

    def maybe(*shape: int) -> np.ndarray | None:
        return rng.standard_normal(shape).astype(dtype) if rng.random() < 0.4 else None

    activation = ACTIVATIONS[int(rng.integers(len(ACTIVATIONS)))]
    if activation == "prelu":
        activation = ("prelu", rng.standard_normal(oc).astype(dtype))
    return Case(
        x.astype(dtype), weight.astype(dtype), maybe(oc), maybe(len(x), oc, *size), geometry,
        activation, layout, int(rng.choice([4, 8, 16])),
    )  # fmt: skip

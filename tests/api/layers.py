"""A small layer of each kind with its arrays, for tests of what all kinds have in common."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import pplconv
from tests.api.blocks import to_layout

F32, S8, U8 = np.float32, np.int8, np.uint8
BRAIN = np.dtype(ml_dtypes.bfloat16)
SCALES = {"x_scale": 0.02, "w_scale": 0.01, "y_scale": 0.3, "y_zero_point": 100}


class Layer(NamedTuple):
    """Class, shape of the weights, types and arguments of a layer with a bias."""

    kind: type
    shape: tuple[int, ...]
    settings: dict[str, Any]
    dtype: Any = F32
    input_dtype: Any = F32
    bias_dtype: Any = F32

    def weights(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw weights and bias."""
        outputs = self.shape[self.kind is pplconv.ConvTranspose2d]
        return draw(rng, self.shape, self.dtype), draw(rng, (outputs,), self.bias_dtype)

    def made(self, rng: np.random.Generator, **more: Any) -> Any:
        """Draw weights and prepare them."""
        return self.kind(*self.weights(rng), **self.settings, **more)

    def input(self, rng: np.random.Generator, size: int = 9) -> np.ndarray:
        """Draw an input of a size: rows of an image, or of a matrix."""
        channels = self.shape[self.kind is not pplconv.ConvTranspose2d]
        if len(self.shape) == 2:
            return draw(rng, (size, channels), self.input_dtype)
        image = draw(rng, (1, channels, size, size + 3), self.input_dtype)
        return to_layout(image, self.settings.get("layout", "NCHW"))


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Draw normal numbers, or integers of -99 to 99."""
    if np.dtype(dtype).kind not in "ui":
        return rng.standard_normal(shape).astype(F32).astype(dtype)
    return rng.integers(0 if dtype is U8 else -99, 100, shape).astype(dtype)


LAYERS = {
    "Conv2d": Layer(pplconv.Conv2d, (24, 10, 3, 3), {"padding": 1, "activation": "relu"}),
    "Conv2d of bfloat16": Layer(
        pplconv.Conv2d, (24, 10, 3, 3), {"precision": "low", "activation": "relu"},
        BRAIN, BRAIN, BRAIN,
    ),
    "ConvTranspose2d": Layer(
        pplconv.ConvTranspose2d, (10, 6, 3, 3),
        {"stride": 2, "padding": ((1, 0), (0, 1)), "output_padding": (1, 0), "layout": "NHWC",
         "activation": "relu", "tolerance": 0.0},
    ),
    "Linear": Layer(pplconv.Linear, (24, 10), {"activation": ("leaky_relu", 0.5)}),
    "QConv2d": Layer(pplconv.QConv2d, (16, 8, 3, 3), {"padding": 1, **SCALES}, S8, U8, np.int32),
}  # fmt: skip
every_layer = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(layer, id=name, marks=[pytest.mark.narrow] if layer.dtype != F32 else [])
        for name, layer in LAYERS.items()
    ],
)

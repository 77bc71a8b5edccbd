"""Tiles of layers whose padding is made of the picture's own pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("dask.array")

import dask.array as da

from pplconv import Conv2d
from pplconv.integrations.dask import Layer, map_tiles

pytestmark = pytest.mark.unemulated("computes by calls that other tests emulate; dask takes long")

_NUMPY = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def convolved(x: np.ndarray, w: np.ndarray, layer: dict[str, Any]) -> np.ndarray:
    """Pad with NumPy, and convolve in float64."""
    (top, bottom), (left, right) = layer["padding"]
    around = ((0, 0), (0, 0), (top, bottom), (left, right))
    x = np.pad(x.astype(np.float64), around, _NUMPY[layer["padding_mode"]])
    seen = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    down, across = layer["stride"]
    return np.einsum("nchwij,ocij->nohw", seen[:, :, ::down, ::across], w)


def drawn(rng: np.random.Generator, modes: tuple[str, ...]) -> tuple[list[Any], list[Any]]:
    """Give weights of small integers, whose sums are exact, and the arguments of some layers."""
    weights, layers = [], []
    for _ in range(rng.integers(1, 4)):
        kernel = rng.integers(1, 6, 2)
        padding = [tuple(int(n) for n in rng.integers(0, 5, 2)) for _ in kernel]
        weights.append(rng.integers(-2, 3, (1, 1, *kernel)).astype(np.float32))
        layers.append({
            "padding": tuple(padding), "stride": tuple(int(n) for n in rng.integers(1, 3, 2)),
            "padding_mode": str(rng.choice(modes)),
        })  # fmt: skip
    return weights, layers


@pytest.mark.parametrize("described", [False, True])
def test_tiles_are_the_picture_in_every_padding_mode(described, rng):
    """Layers in sequence; tiles may be smaller than their receptive field."""
    tiled = 0
    for _ in range(40):
        weights, layers = drawn(rng, ("zeros", "reflect", "replicate"))
        x = rng.integers(-3, 4, (1, 1, *rng.integers(12, 60, 2))).astype(np.float32)

        def make_model(algorithm, weights=weights, layers=layers):
            convs = [
                Conv2d(w, **layer, algorithm=algorithm, threads=1)
                for w, layer in zip(weights, layers, strict=True)
            ]

            def model(tile):
                for conv in convs:
                    tile = conv(tile)
                return tile

            return model

        expected = x
        try:
            for w, layer in zip(weights, layers, strict=True):
                expected = convolved(expected, w, layer)
            make_model("direct")(x)
        except ValueError:  # too small for such padding or kernels
            continue
        if described:
            stack: Any = [
                Layer(w.shape[2:], **layer) for w, layer in zip(weights, layers, strict=True)
            ]
        else:
            stack = [Conv2d(w, **layer) for w, layer in zip(weights, layers, strict=True)]
        chunks = (1, 1, *rng.integers(3, 24, 2).tolist())
        y = map_tiles(make_model, da.from_array(x, chunks=chunks), layers=stack)
        tiled += y.npartitions > 1
        np.testing.assert_array_equal(y.compute(scheduler="synchronous"), expected)
    assert tiled


@pytest.mark.parametrize("axis", ["height", "width"])
def test_the_other_side_of_the_picture_is_in_no_tile(axis, rng):
    padding = ((1, 1), (0, 0)) if axis == "height" else ((0, 0), (1, 1))
    layer = {"padding": padding, "stride": (1, 1), "padding_mode": "circular"}
    w = rng.integers(-2, 3, (1, 1, 3, 3)).astype(np.float32)
    x = rng.integers(-3, 4, (1, 1, 16, 16)).astype(np.float32)

    def make_model(algorithm):
        return Conv2d(w, **layer, algorithm=algorithm)

    plain = Layer(1)
    for stack in ([plain, make_model("direct")], [plain, Layer(3, **layer)]):
        cut = da.from_array(x, chunks=(1, 1, 8, 8))
        with pytest.raises(ValueError, match=rf"layers\[1\] has padding_mode='circular'.*{axis}"):
            map_tiles(make_model, cut, layers=stack)
        whole = cut.rechunk({2 if axis == "height" else 3: 16})
        y = map_tiles(make_model, whole, layers=stack)
        assert y.npartitions == 2
        np.testing.assert_array_equal(
            y.compute(scheduler="synchronous"), convolved(x, w, layer))  # fmt: skip

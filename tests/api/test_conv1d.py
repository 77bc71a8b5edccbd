"""`conv1d` against sums over taps, and its errors in terms of signals."""

from __future__ import annotations

import numpy as np
import pytest

import pplconv
from tests.reference import assert_convolution


def assert_signals(y, x, w, b=None, *, layout="NCW", padding=(0, 0), stride=1, **more):
    """Compare with a convolution of images of one row."""
    axis = 2 if layout == "NCW" else 1
    assert_convolution(
        np.expand_dims(y, axis), np.expand_dims(x, axis), w[:, :, None], b,
        layout="NCHW" if layout == "NCW" else "NHWC", padding=((0, 0), padding),
        stride=(1, stride), **more,
    )  # fmt: skip


@pytest.mark.parametrize("layout", ["NCW", "NWC"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_signals(layout, dtype, rng):
    x = rng.standard_normal((2, 6, 50) if layout == "NCW" else (2, 50, 6)).astype(dtype)
    w, b = rng.standard_normal((4, 3, 5)).astype(dtype), rng.standard_normal(4).astype(dtype)
    common = {"groups": 2, "layout": layout}
    y = pplconv.conv1d(x, w, b, 2, 3, precision=None, tolerance=0, **common)
    if dtype is not np.float16:
        assert_signals(y, x, w, b, stride=2, padding=(3, 3), **common)
    assert y.shape == ((2, 4, 26) if layout == "NCW" else (2, 26, 4))
    for padding, sides in (((1, 4), (1, 4)), ((2,), (2, 2)), ([0, 3], (0, 3)), ("same", (2, 2))):
        y = pplconv.conv1d(x.astype(np.float64), w.astype(np.float64), padding=padding, **common)
        assert_signals(
            y, x.astype(np.float64), w.astype(np.float64), padding=sides, **common
        )  # fmt: skip
    one = pplconv.conv1d(x[0], w, b, (2,), 3, tolerance=0, **common)
    assert one.shape == y.shape[1:][:0] + ((4, 26) if layout == "NCW" else (26, 4))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_modes(mode, rng):
    x, w = rng.standard_normal((2, 3, 40)), rng.standard_normal((4, 3, 7))
    wide = np.pad(x, ((0, 0), (0, 0), (3, 5)), mode={"reflect": "reflect", "replicate": "edge",
                                                    "circular": "wrap"}[mode])  # fmt: skip
    y = pplconv.conv1d(x, w, padding=(3, 5), padding_mode=mode)
    assert_signals(y, wide, w)


def test_epilogue_and_out(rng):
    x, w = rng.standard_normal((2, 3, 40)), rng.standard_normal((4, 3, 3))
    residual, out = rng.standard_normal((2, 4, 38)), np.zeros((2, 4, 38))
    found = pplconv.conv1d(x, w, residual=residual, activation="relu", out=out)
    assert found is out
    expected = np.maximum(pplconv.conv1d(x, w) + residual, 0)
    np.testing.assert_allclose(out, expected, atol=1e-12)


def test_dilation_and_lists():
    y = pplconv.conv1d([[1, 2, 3, 4, 5]], np.ones((1, 1, 2)), dilation=(3,))
    assert y.tolist() == [[5, 7]]
    assert pplconv.conv1d(np.ones((1, 4)), [[[1, 2]]]).tolist() == [[3, 3, 3]]


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"input": np.ones((1, 1, 1, 9))}, ValueError, r"input must have shape \(N, C, W\)"),
        ({"weight": np.ones((1, 3))}, ValueError, "weight must have the 3 dimensions"),
        ({"layout": "NCHW"}, ValueError, "layout must be one of NCW, NWC"),
        ({"stride": (1, 1)}, TypeError, "stride must be an integer"),
        ({"dilation": 0}, ValueError, "dilation must be at least 1"),
        ({"padding": (1, 2, 3)}, ValueError, r"padding must be an int, \(int,\), \(left, right\)"),
        ({"padding": "full"}, ValueError, "padding must be"),
        ({"groups": 2}, ValueError, "groups must divide"),
        ({"bias": np.ones(3)}, ValueError, "bias"),
        ({"residual": np.ones((1, 1, 8))}, ValueError, r"residual must have shape \(1, 1, 7\)"),
        ({"out": np.ones((1, 7))}, ValueError, r"out must have shape \(1, 1, 7\)"),
        ({"out": [1]}, TypeError, "out"),
        ({"padding_mode": "mirror"}, ValueError, "padding_mode must be one of"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_errors_name_what_is_wrong(arguments, error, match):
    given = {"input": np.ones((1, 1, 9)), "weight": np.ones((1, 1, 3)), **arguments}
    with pytest.raises(error, match=match):
        pplconv.conv1d(**given)

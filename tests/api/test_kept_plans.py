"""``conv2d`` keeps plans between calls: no call may get the plan of another."""

from __future__ import annotations

import numpy as np
import pytest

import pplconv
from tests.reference import assert_convolution

F32 = np.float32
ONE_PIXEL = (np.zeros((1, 1, 1, 1), F32), np.zeros((1, 1, 1, 1), F32))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ({"stride": 1}, {"stride": True}),
        ({"stride": (1, 1)}, {"stride": (1, True)}),
        ({"stride": 1}, {"stride": 1.0}),
        ({"padding": 0}, {"padding": False}),
        ({"padding": ((0, 0), (0, 0))}, {"padding": ((0, 0), (0, 0.0))}),
        ({"dilation": 1}, {"dilation": 1.0}),
        ({"groups": 1}, {"groups": True}),
        ({"groups": 1}, {"groups": 1.0}),
        ({"threads": 1}, {"threads": True}),
        ({"threads": 1}, {"threads": 1.0}),
        ({"activation": ("clip", 0, 1)}, {"activation": ("clip", 0, "1")}),
        ({"activation": ("clip", 0, 1)}, {"activation": ("clip", False, True)}),
        ({"activation": ("leaky_relu", 1)}, {"activation": ("leaky_relu", True)}),
        ({"activation": ("prelu", [1.0])}, {"activation": ("prelu", [True])}),
    ],
)
def test_a_kept_plan_is_no_way_around_the_checks(right, wrong):
    """Values that compare equal to good ones are refused before and after a good call."""
    (name,) = wrong
    for _ in range(2):
        with pytest.raises(TypeError, match=rf"\b{name}\b"):
            pplconv.conv2d(*ONE_PIXEL, **wrong)
        pplconv.conv2d(*ONE_PIXEL, **right)


def test_kept_plans_tell_apart_what_differs():
    """The same shapes again and again, one argument changed each time."""
    rng = np.random.default_rng(3)
    x32 = rng.standard_normal((1, 4, 9, 9)).astype(F32)
    w32 = rng.standard_normal((4, 4, 3, 3)).astype(F32)
    variations = [
        {},
        {"stride": 2},
        {"stride": (1, 2)},
        {"padding": 1},
        {"padding": (1, 0)},
        {"padding": ((1, 0), (0, 1))},
        {"padding": "same_upper", "stride": 2},
        {"padding": "same_lower", "stride": 2},
        {"dilation": 2},
        {"activation": "relu"},
        {"activation": ("clip", -1, 1)},
        {"activation": ("clip", -1, 0.5)},
        {"activation": ("leaky_relu", 0.5)},
        {"activation": ("leaky_relu", -0.5)},
        {"activation": ("prelu", np.array([0.5, -1, 2, 0]))},
        {"activation": ("prelu", np.array([0.5, -1, 2, 3]))},
        {"activation": ("prelu", [-2.0])},
        {"activation": "silu"},
        {"activation": "sigmoid"},
        {"activation": "hardswish"},
    ]
    for _ in range(2):
        for dtype in (F32, np.float64):
            x, w = x32.astype(dtype), w32.astype(dtype)
            for parameters in variations:
                assert_convolution(pplconv.conv2d(x, w, **parameters), x, w, **parameters)
                only = w[:, :2]
                y = pplconv.conv2d(x, only, groups=2, **parameters)
                assert_convolution(y, x, only, groups=2, **parameters)
        square = rng.standard_normal((1, 5, 5, 5)).astype(F32)
        w = rng.standard_normal((5, 5, 3, 3)).astype(F32)
        for layout in ("NCHW", "NHWC"):
            assert_convolution(pplconv.conv2d(square, w, layout=layout), square, w, layout=layout)

"""Bad arguments of `conv3d` and `Conv3d`: messages begin with their names, `out` is untouched."""

from __future__ import annotations

import numpy as np
import pytest

import pplconv
from tests.api.buffers import untouched

F32 = np.float32


def ones(*shape, dtype=F32):
    return np.ones(shape, dtype)


CASES = {
    "input of 3 dimensions": ({"input": ones(4, 6, 6)}, r"input must have shape \(N, C, D, H, W\)"),
    "input of 6 dimensions": ({"input": ones(1, 1, 4, 6, 6, 6)}, "input must have shape"),
    "input of other channels": (
        {"input": ones(1, 3, 6, 6, 6)}, r"input must have 4 channels .* got 3 in shape",
    ),
    "input channels last": ({"input": ones(1, 6, 6, 6, 4)}, "input must have 4 channels"),
    "input without depths": ({"input": ones(1, 4, 0, 6, 6)}, "input must not be empty"),
    "input of integers": ({"input": ones(1, 4, 6, 6, 6, dtype=int)}, "input must be float16"),
    "input of objects": ({"input": ones(1, 4, 6, 6, 6, dtype=object)}, "input must be float16"),
    "weight of 4 dimensions": (
        {"weight": ones(5, 4, 3, 3)},
        r"weight must have the 5 dimensions \(oc, ic / groups, kd, kh, kw\)",
    ),
    "weight without taps": ({"weight": ones(5, 4, 0, 3, 3)}, "weight must not be empty"),
    "weight of another type": (
        {"weight": ones(5, 4, 3, 3, 3, dtype="d")},
        "weight must be float32 like input|input must be float64 like weight",
    ),
    "deep kernel": (
        {"weight": ones(5, 4, 7, 3, 3)},
        r"weight: the kernel spans 7 pixels in depth but the padded input has 6",
    ),
    "high kernel": (
        {"weight": ones(5, 4, 3, 7, 3)}, "weight: the kernel spans 7 pixels vertically",
    ),
    "wide kernel": (
        {"weight": ones(5, 4, 3, 3, 4), "dilation": (1, 1, 2)},
        "weight: the kernel spans 7 pixels horizontally",
    ),
    "groups": ({"groups": 2}, "groups must divide the 5 output channels"),
    "no groups": ({"groups": 0}, "groups must be at least 1"),
    "pair as stride": ({"stride": (1, 1)}, r"stride must be an int or three ints, got \(1, 1\)"),
    "stride of zero": ({"stride": (1, 0, 1)}, "stride must be at least 1, got 0"),
    "fractional dilation": ({"dilation": 1.5}, "dilation must be an int or three ints"),
    "padding of two": (
        {"padding": (1, 1)}, r"padding must be an int, \(depth, vertical, horizontal\), \(\(front",
    ),
    "negative padding": ({"padding": (-1, 0, 0)}, "padding must be at least 0"),
    "misspelt padding": ({"padding": "sane"}, "padding must be .* did you mean 'same'"),
    "same with a stride": (
        {"padding": "same", "stride": (2, 1, 1)}, r'padding="same" needs stride 1, got stride',
    ),
    "huge padding of copies": (
        {"padding": ((1 << 40,) * 2, (0, 0), (0, 0)), "padding_mode": "replicate"},
        "padding, stride or dilation is too large",
    ),
    "huge padding": ({"padding": 1 << 40}, "out is too large"),
    "bias of another length": ({"bias": ones(4)}, r"bias must have shape \(5,\)"),
    "bias of another type": ({"bias": ones(5, dtype="d")}, "bias must be float32"),
    "activation": ({"activation": "rely"}, "activation must be .* did you mean 'relu'"),
    "layout": ({"layout": "NHWC"}, "layout must be one of NCDHW, NDHWC"),
    "algorithm": ({"algorithm": "depthwise"}, "algorithm"),
    "tolerance": ({"tolerance": -1}, "tolerance"),
    "precision": ({"precision": "half"}, "precision must be None or one of"),
    "threads": ({"threads": 0}, "threads must be at least 1"),
    "max_workspace": ({"max_workspace": -1}, "max_workspace"),
    "padding_mode": ({"padding_mode": "mirror"}, "padding_mode must be one of"),
    "reflected further than the volume": (
        {"padding": (6, 0, 0), "padding_mode": "reflect"}, "padding must be at most 5 for 6 depths",
    ),
}  # fmt: skip
CALLS = {
    "residual of another shape": ({"residual": ones(1, 5, 4, 4, 3)}, "residual must have shape"),
    "residual without batch": ({"residual": ones(5, 4, 4, 4)}, "residual must have shape"),
    "residual of another type": (
        {"residual": ones(1, 5, 4, 4, 4, dtype="d")}, "residual must be float32",
    ),
    "out of another shape": ({"out": ones(1, 5, 4, 4, 3)}, r"out must have shape \(1, 5, 4, 4, 4"),
    "out of another type": ({"out": ones(1, 5, 4, 4, 4, dtype="d")}, "out must be float32"),
    "out with gaps": ({"out": ones(1, 5, 4, 4, 8)[..., ::2]}, "out must be C-contiguous"),
    "out as a list": ({"out": [1]}, r"out must be a numpy\.ndarray"),
}  # fmt: skip


def call(as_layer, **arguments):
    """Call the function, or make a layer and call it."""
    if not as_layer:
        return pplconv.conv3d(**arguments)
    operands = {name: arguments.pop(name, None) for name in ("input", "residual", "out")}
    return pplconv.Conv3d(**arguments)(**operands)


@pytest.mark.parametrize("as_layer", [False, True], ids=["function", "layer"])
@pytest.mark.parametrize("name", [*CASES, *CALLS])
def test_errors_name_the_argument(name, as_layer):
    changes, match = (CASES | CALLS)[name]
    out = np.zeros((1, 5, 4, 4, 4), F32)
    arguments = {"input": ones(1, 4, 6, 6, 6), "weight": ones(5, 4, 3, 3, 3), "out": out, **changes}
    with untouched(out), pytest.raises((TypeError, ValueError), match=f"^(?:{match})"):
        call(as_layer, **arguments)


@pytest.mark.parametrize("as_layer", [False, True], ids=["function", "layer"])
def test_what_serves_only_the_first_part_leaves_no_trace(as_layer):
    """The first depth of the output sees one channel, which takes no scratch memory."""
    x, w = ones(1, 1, 4, 6, 6), ones(5, 1, 3, 3, 3)
    assert pplconv.conv3d(x, w[:, :, :1], max_workspace=0).shape == (1, 5, 4, 4, 4)
    out = np.zeros((1, 5, 6, 4, 4), F32)
    with untouched(out), pytest.raises(ValueError, match=r"^max_workspace"):
        call(as_layer, input=x, weight=w, padding=(2, 0, 0), max_workspace=0, out=out)


def test_shapes_of_plans_are_called_so():
    conv = pplconv.Conv3d(ones(5, 4, 3, 3, 3))
    for shape in ((4, 6, 6), (1, 3, 6, 6, 6), (1, 4, 0, 6, 6)):
        with pytest.raises(ValueError, match=r"^input_shape must"):
            conv.plan_for(shape)
        with pytest.raises(ValueError, match=r"^input_shape must"):
            pplconv.Conv3d(ones(5, 4, 3, 3, 3), input_shape=shape)
    with pytest.raises(TypeError, match=r"^input_shape must be a tuple of ints"):
        conv.plan_for(ones(1, 4, 6, 6, 6))


def test_sizes_are_no_weights():
    with pytest.raises(TypeError, match=r"^weight must be an array .* torch\.nn\.Conv3d takes"):
        pplconv.Conv3d(3, 8)

"""Bad arguments of transposed convolutions: each is refused by its name, and nothing is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pplconv
from tests.api.blocks import in_blocks

F32 = np.float32


def good() -> dict[str, Any]:
    """Give a call that is right; every case below spoils it."""
    rng = np.random.default_rng(1)
    return {
        "input": rng.standard_normal((2, 6, 5, 7)).astype(F32),
        "weight": rng.standard_normal((6, 4, 3, 3)).astype(F32),
        "bias": rng.standard_normal(8).astype(F32),
        "stride": 2, "groups": 2,
    }  # fmt: skip


def zeros(*shape: int, dtype: Any = F32) -> np.ndarray:
    return np.zeros(shape, dtype)


OUT = (2, 8, 11, 15)
MASKED = np.ma.masked_array(zeros(2, 6, 5, 7), False)

# Spoiled arguments, and texts that the message must have.
CASES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"input": zeros(5, 7)}, ("input", "(5, 7)")),
    ({"input": zeros(2, 5, 5, 7)}, ("input", "5", "6")),
    ({"input": zeros(2, 6, 0, 7)}, ("input", "0 rows")),
    ({"input": zeros(2, 6, 5, 7, dtype=np.int32)}, ("input", "int32")),
    ({"input": MASKED}, ("input", "mask")),
    ({"input": "image"}, ("input",)),
    ({"weight": zeros(6, 4, 3)}, ("weight", "(6, 4, 3)")),
    ({"weight": zeros(6, 0, 3, 3)}, ("weight", "empty")),
    ({"weight": zeros(6, 4, 3, 3, dtype=np.float64)}, ("weight", "float64")),
    ({"bias": zeros(4)}, ("bias", "(8,)")),
    ({"bias": zeros(8, dtype=np.float64)}, ("bias", "float64")),
    ({"stride": 0}, ("stride", "0")),
    ({"stride": 1.5}, ("stride", "1.5")),
    ({"stride": (1, 2, 3)}, ("stride",)),
    ({"stride": 2**40}, ("large",)),
    ({"padding": -1}, ("padding", "-1")),
    ({"padding": "same"}, ("padding", "same_upper", "'same'")),
    ({"padding": ((1, 2), 3, 4)}, ("padding",)),
    ({"padding": 6}, ("padding", "no output")),
    ({"padding": ((0, 11), (0, 0))}, ("padding", "no output")),
    ({"output_padding": 2}, ("output_padding", "2")),
    ({"output_padding": -1}, ("output_padding", "-1")),
    ({"output_padding": "1"}, ("output_padding",)),
    ({"output_size": (10, 15)}, ("output_size", "(11, 15)", "(12, 16)")),
    ({"output_size": (11, 17)}, ("output_size", "17")),
    ({"output_size": (11, 15), "output_padding": 1}, ("output_size", "output_padding")),
    ({"dilation": 0}, ("dilation", "0")),
    ({"groups": 4}, ("groups", "4", "6")),
    ({"groups": 0}, ("groups", "0")),
    ({"groups": True}, ("groups", "True")),
    ({"activation": "tanhshrink"}, ("activation", "tanhshrink")),
    ({"activation": ("prelu", np.ones(4, F32))}, ("activation", "(8,)")),
    ({"activation": ["relu"]}, ("activation",)),
    ({"layout": "NCWH"}, ("layout", "NCWH")),
    ({"layout": "NHWC"}, ("input", "NHWC")),
    ({"algorithm": "fft"}, ("algorithm", "fft")),
    ({"algorithm": "winograd"}, ("winograd", "cannot serve")),
    ({"tolerance": -1.0}, ("tolerance",)),
    ({"precision": "half"}, ("precision",)),
    ({"threads": 0}, ("threads", "0")),
    ({"max_workspace": -1}, ("max_workspace", "-1")),
    ({"residual": zeros(2, 8, 11, 14)}, ("residual", "(2, 8, 11, 15)")),
    ({"residual": zeros(*OUT, dtype=np.float64)}, ("residual", "float64")),
    ({"out": zeros(2, 8, 11, 14)}, ("out", "(2, 8, 11, 15)")),
    ({"out": zeros(*OUT, dtype=np.float64)}, ("out", "float64")),
    ({"out": zeros(2, 8, 11, 30)[..., ::2]}, ("out", "contiguous")),
    ({"out": [0.0]}, ("out", "list")),
]


@pytest.mark.parametrize("changes, says", CASES, ids=lambda v: str(list(v))[:40])
def test_each_is_refused(changes, says):
    out = np.full(OUT, 42, F32)
    arguments = {**good(), "out": out, **changes}
    with pytest.raises((TypeError, ValueError)) as caught:
        pplconv.conv_transpose2d(**arguments)
    for text in says:
        assert text in str(caught.value), str(caught.value)
    assert np.all(out == 42)


# A layer takes weights of any type; of another one, the input is wrong.
LAYER_CASES = [(changes, says) for changes, says in CASES if says != ("weight", "float64")]


@pytest.mark.parametrize("changes, says", LAYER_CASES, ids=lambda v: str(list(v))[:40])
def test_the_layer_refuses_it_too(changes, says):
    """Where it is told: at once, or when it is called."""
    arguments = {**good(), **changes}
    call = {
        name: arguments.pop(name)
        for name in ("input", "residual", "out", "output_size")
        if name in arguments
    }
    with pytest.raises((TypeError, ValueError)) as caught:
        pplconv.ConvTranspose2d(**arguments)(**call)
    for text in says:
        if (
            text != "float64" or "weight" not in changes
        ):  # of other types than the weights, the input is wrong
            assert text in str(caught.value), str(caught.value)


def test_the_good_call_is_good():
    assert pplconv.conv_transpose2d(**good()).shape == OUT


def test_blocks_that_may_be_planes():
    arguments = good()
    x = in_blocks(arguments["input"], 4)  # (2, 2, 5, 7, 4)
    one = np.zeros((2, 6, 7, 4), F32)  # of height 6, or NCHW with 6 channels
    arguments |= {"groups": 1, "bias": None, "layout": "NCHWc"}
    assert pplconv.conv_transpose2d(**{**arguments, "input": x}).shape == (2, 1, 11, 15, 4)
    with pytest.raises(ValueError, match="batch axis"):
        pplconv.conv_transpose2d(**{**arguments, "input": one})


def test_huge_sizes():
    """They are refused before memory is asked for."""
    x = np.broadcast_to(np.zeros((1, 1, 1, 1), F32), (1, 1, 1 << 16, 1 << 16))
    w = zeros(1, 1, 2, 2)
    for changes in ({"stride": 1 << 20}, {"dilation": 1 << 31}, {"padding": 1 << 61}):
        with pytest.raises(ValueError):
            pplconv.conv_transpose2d(x[..., :4, :4], w, **changes)

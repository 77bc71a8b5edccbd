"""Sizes beyond 64 bits, and memory that cannot be had: refused before anything is written."""

from __future__ import annotations

import numpy as np
import pytest

import pplconv
from tests.api.buffers import untouched
from tests.api.huge_arrays import huge, needs_huge_arrays
from tests.api.test_errors import good_arguments, good_output

F32 = np.float32


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"padding": 2**31}, "padding|input|out"),
        ({"padding": 2**62}, "padding|input|out"),
        ({"padding": 2**64}, "padding"),
        ({"padding": ((2**63 - 1, 2**63 - 1), (0, 0))}, "padding"),
        ({"dilation": 2**62}, "dilation|weight"),
        ({"dilation": 2**63}, "dilation|weight"),
        ({"stride": 2**64}, "stride"),
        ({"groups": 2**64}, "groups"),
        ({"padding": ((2**33, 2**33), (2**33, 0))}, "padding|input|out"),
        # 2**60 bytes of input and 2**65 of output
        pytest.param(
            {"input": huge(2**57, 2, 1, 1), "weight": huge(64, 2, 1, 1)},
            "input|out",
            marks=needs_huge_arrays,
        ),
    ],
)
def test_sizes_beyond_64_bits(changes, names):
    """Products of sizes are checked before anything is allocated or written."""
    arguments = {**good_arguments(), "bias": None, **changes}
    out = good_output()
    with untouched(out), pytest.raises(ValueError, match=rf"\b(?:{names})\b"):
        pplconv.conv2d(**arguments, out=out)
    with pytest.raises(ValueError, match=rf"\b(?:{names})\b"):
        pplconv.conv2d(**arguments)


@needs_huge_arrays
@pytest.mark.parametrize(
    ("x", "weight", "out_shape"),
    [
        # A sum of 2**50 terms: its weights alone take 2**54 bytes.
        (huge(1, 2**50, 1, 1), huge(4, 2**50, 1, 1), (1, 4, 1, 1)),
        (huge(1, 1, 1, 2**50), huge(4, 2**50, 1, 1), (1, 1, 1, 4)),
    ],
)
def test_memory_that_cannot_be_had_for_packing(x, weight, out_shape):
    layout = "NCHW" if x.shape[1] > 1 else "NHWC"
    out = np.full(out_shape, 42, F32)
    with untouched(out), pytest.raises(MemoryError):
        pplconv.conv2d(x, weight, layout=layout, out=out)
    with pytest.raises(MemoryError):
        pplconv.Conv2d(weight, layout=layout)


@needs_huge_arrays
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_memory_that_cannot_be_had_for_the_output(layout):
    x = huge(2**50, 1, 1, 1)
    with pytest.raises(MemoryError):
        pplconv.conv2d(x, np.zeros((2, 1, 1, 1), F32), layout=layout)
    with pytest.raises(MemoryError):
        pplconv.Conv2d(np.zeros((2, 1, 1, 1), F32), layout=layout)(x)

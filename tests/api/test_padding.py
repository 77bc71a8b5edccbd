"""Every form of padding against the explicit one, over sizes where the halves differ."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import pplconv
from tests.api.blocks import from_layout, to_layout
from tests.reference import assert_convolution, conv2d_reference, explicit_padding

SIZES = (1, 4, 5, 7, 8)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("padding", ["valid", "same", "same_upper", "same_lower"])
def test_words(padding, layout, rng):
    """Each word pads as its rule says: the same bits as with the numbers written out."""
    uneven = 0
    for size, k, s, d in product(SIZES, (1, 2, 3, 4), (1, 2, 3), (1, 2)):
        if (padding == "same" and s > 1) or (padding == "valid" and size <= d * (k - 1)):
            continue
        # Other sizes across than down: neither axis may take the other's padding.
        image, kernel, stride, dilation = (size, 9), (k, 2), (s, 1), (d, 3)
        sides = explicit_padding(padding, image, kernel, stride, dilation)
        uneven += sides[0][0] != sides[0][1]
        x = to_layout(rng.standard_normal((1, 3, *image)).astype(np.float32), layout)
        w = rng.standard_normal((5, 3, *kernel)).astype(np.float32)
        arguments = {"stride": stride, "dilation": dilation, "layout": layout, "padding": padding}
        y = pplconv.conv2d(x, w, **arguments)
        assert_convolution(y, x, w, **arguments)
        explicit = pplconv.conv2d(x, w, **{**arguments, "padding": sides})
        assert y.tobytes() == explicit.tobytes()
        assert pplconv.Conv2d(w, **arguments)(x).tobytes() == explicit.tobytes()
    assert uneven >= (0 if padding == "valid" else 10)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("padding", "sides"),
    [
        (0, ((0, 0), (0, 0))),
        (2, ((2, 2), (2, 2))),
        ((1, 3), ((1, 1), (3, 3))),
        ([1, 3], ((1, 1), (3, 3))),
        ([(0, 2), (4, 1)], ((0, 2), (4, 1))),
        (((3, 0), (0, 0)), ((3, 0), (0, 0))),
        (((0, 0), (0, 5)), ((0, 0), (0, 5))),
        (np.int64(2), ((2, 2), (2, 2))),
    ],
)
def test_numbers(padding, sides, layout, rng):
    x = to_layout(rng.standard_normal((2, 4, 6, 7)), layout)
    w = rng.standard_normal((3, 4, 3, 2))
    y = pplconv.conv2d(x, w, padding=padding, layout=layout)
    assert_convolution(y, x, w, padding=sides, layout=layout)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_outputs_that_see_nothing_but_padding(layout, rng):
    """Padding may be larger than the kernel; such outputs are the bias, activated."""
    x = to_layout(rng.standard_normal((1, 2, 3, 4)).astype(np.float32), layout)
    w = rng.standard_normal((18, 2, 2, 2)).astype(np.float32)
    bias = rng.standard_normal(18).astype(np.float32)
    arguments = {"padding": ((7, 5), (40, 3)), "activation": "relu", "layout": layout}
    y = pplconv.conv2d(x, w, bias, **arguments)
    assert_convolution(y, x, w, bias, **arguments)
    np.testing.assert_array_equal(from_layout(y, layout)[0, :, 0, 0], np.maximum(bias, 0))
    assert conv2d_reference(x, w, bias, **arguments).shape == y.shape

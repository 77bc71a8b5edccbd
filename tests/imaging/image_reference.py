"""Filters by their definition: `numpy.pad`, and sums of fractions or of float64."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

# What NumPy calls each border.
PADS = {
    "reflect101": "reflect",
    "reflect": "symmetric",
    "replicate": "edge",
    "wrap": "wrap",
    "constant": "constant",
}
BORDERS = tuple(PADS)
INTEGERS = ("uint8", "int8", "uint16", "int16")
FLOATS = ("float16", "float32", "float64")


def padded(image, sides, border, value):
    """Surround an image (H, W, C) by ((top, bottom), (left, right)) pixels."""
    more = {"constant_values": value} if border == "constant" else {}
    return np.pad(image, (*sides, (0, 0)), mode=PADS[border], **more)


def windows_of(image, extent, anchor, border, value):
    """Give the pixels that each output sees: (H, W, C, kh, kw)."""
    (above, left), (kh, kw) = anchor, extent
    around = padded(image, ((above, kh - 1 - above), (left, kw - 1 - left)), border, value)
    return np.lib.stride_tricks.sliding_window_view(around, extent, axis=(0, 1))


def exactly(image, kernel, anchor, border, value, dtype):
    """Filter an image (H, W, C) of integers in fractions: half to even, saturated."""
    windows = windows_of(image, kernel.shape, anchor, border, value)
    taps = [Fraction(float(tap)) for tap in kernel.ravel()]
    limits = np.iinfo(dtype)
    flat = windows.reshape(-1, kernel.size).tolist()
    sums = [round(sum(t * p for t, p in zip(taps, one, strict=True))) for one in flat]
    limited = [min(max(total, limits.min), limits.max) for total in sums]
    return np.array(limited, dtype).reshape(windows.shape[:3])


@st.composite
def geometries(draw, most=9):
    """Draw (H, W, C), (kh, kw) and an anchor: small images and kernels, either the larger."""
    sizes = st.integers(1, most)
    shape = draw(sizes), draw(sizes), draw(st.sampled_from([1, 3]))
    extent = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    anchor = tuple(draw(st.integers(0, size - 1)) for size in extent)
    return shape, extent, anchor

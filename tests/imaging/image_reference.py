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
# Kernels most of whose sums lie half way between integers, and others, next to it or anywhere.
HALVES = ("box", "box of float32", "tenths", "sixths", "halves", "dyadic")
KINDS = (
    *HALVES, "integers", "decimals", "thirds", "float32", "normal", "any", "tiny", "subnormal",
    "cancelling", "wide",
)  # fmt: skip


def padded(image, sides, border, value):
    """Surround an image (H, W, C) by ((top, bottom), (left, right)) pixels."""
    more = {"constant_values": value} if border == "constant" else {}
    return np.pad(image, (*sides, (0, 0)), mode=PADS[border], **more)


def turned(kernel, anchor):
    """Give a kernel turned by half a turn, and the anchor in it."""
    return kernel[::-1, ::-1], tuple(k - 1 - at for k, at in zip(kernel.shape, anchor, strict=True))


def windows_of(image, extent, anchor, border, value):
    """Give the pixels that each output sees: (H, W, C, kh, kw)."""
    (above, left), (kh, kw) = anchor, extent
    around = padded(image, ((above, kh - 1 - above), (left, kw - 1 - left)), border, value)
    return np.lib.stride_tricks.sliding_window_view(around, extent, axis=(0, 1))


def exactly(image, kernel, anchor, border, value, dtype):
    """Filter an image (H, W, C) of integers in fractions: half to even, saturated."""
    windows = windows_of(image.astype(int), kernel.shape, anchor, border, value)
    taps = [Fraction(tap) for tap in kernel.ravel().tolist()]
    limits = np.iinfo(dtype)
    flat = windows.reshape(-1, kernel.size).tolist()
    sums = [round(sum(t * p for t, p in zip(taps, one, strict=True))) for one in flat]
    limited = [min(max(total, limits.min), limits.max) for total in sums]
    return np.array(limited, dtype).reshape(windows.shape[:3])


def outer(column, row):
    """Give the products of two vectors' taps in fractions, as a kernel."""
    taps = (np.array([Fraction(tap) for tap in vector.tolist()]) for vector in (column, row))
    return np.multiply.outer(*taps)


def kernel_of(kind, extent, rng):
    """Draw a kernel of `KINDS`; its extent may be that of a column or a row."""
    taps = int(np.prod(extent))
    if kind == "box":
        return np.full(extent, 1 / taps)
    if kind == "box of float32":
        return np.full(extent, np.float32(1 / taps)).astype(np.float64)
    if kind in ("tenths", "sixths"):
        return np.resize((0.3, 0.4, 0.3) if kind == "tenths" else (1 / 6, 4 / 6, 1 / 6), extent)
    if kind == "halves":
        return np.full(extent, 0.5)
    if kind == "integers":
        return rng.integers(-9, 10, extent).astype(np.float64)
    if kind == "dyadic":
        return rng.integers(-64, 65, extent) / 2.0 ** rng.integers(1, 8)
    if kind == "decimals":
        return rng.integers(-9, 10, extent) / 10
    if kind == "thirds":
        return rng.integers(-40, 80, extent) / rng.choice([6, 36, 120])
    if kind == "float32":
        return (rng.integers(0, 5, extent) / 12).astype(np.float32).astype(np.float64)
    if kind == "subnormal":
        halves = rng.integers(-3, 4, extent) / 2
        return np.where(rng.random(extent) < 0.5, halves, rng.choice([5e-324, -1e-310, 2.0**-400]))
    if kind == "normal":
        return rng.standard_normal(extent)
    if kind == "any":
        return rng.integers(-3, 4, extent) + rng.standard_normal(extent)
    if kind == "tiny":
        return rng.standard_normal(extent) * 1e-9 + 0.5 * (rng.random(extent) < 0.2)
    if kind == "cancelling":
        return np.where(rng.random(extent) < 0.5, 1e25, -1e25) + 0.5
    return rng.choice([0.5, 1e-30, -1e-25, 2.0**-60, 1.5], extent)


def any_values(shape, dtype, rng):
    """Draw an image with areas that saturate."""
    limits = np.iinfo(dtype)
    image = rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    return np.where(rng.random(shape) < 0.3, limits.max, image).astype(dtype)


def few_values(shape, dtype, rng):
    """Draw an image that has sums half way in most places: two or three values, or stripes."""
    start = rng.integers(0, 90)
    stripes = np.broadcast_to(np.arange(shape[1]).reshape(-1, *[1] * (len(shape) - 2)) % 2, shape)
    drawn = rng.integers(0, rng.integers(2, 4), shape)
    return (start + (drawn if rng.random() < 0.7 else stripes)).astype(dtype)


@st.composite
def geometries(draw, most=9):
    """Draw (H, W, C), (kh, kw) and an anchor: small images and kernels, either the larger."""
    sizes = st.integers(1, most)
    shape = draw(sizes), draw(sizes), draw(st.sampled_from([1, 3]))
    extent = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    anchor = tuple(draw(st.integers(0, size - 1)) for size in extent)
    return shape, extent, anchor


def drawn_bytes(rng, shape):
    """Draw bytes of any size, or the smallest and the largest alone."""
    return rng.choice([rng.integers(0, 256, shape), rng.integers(0, 2, shape) * 255]).astype(
        np.uint8
    )

"""Pixels of images to float or double: every type, every tail."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv._kernels import PIXELS
from tests.kernels.kernel_table import DTYPES, every_row, symbol
from tests.kernels.rows_call import Call

every_kernel = pytest.mark.parametrize("row", every_row("read_pixels"), ids=symbol)
TYPES = {
    "u8": np.uint8,
    "s8": np.int8,
    "u16": np.uint16,
    "s16": np.int16,
    "f32": np.float32,
    "f64": np.float64,
}


def test_every_type_has_a_number():
    assert set(PIXELS) == set(TYPES)


@every_kernel
@pytest.mark.parametrize("kind", PIXELS)
def test_every_tail(checker, row, kind, rng):
    """Values equal NumPy's conversion; integers include the type's smallest and largest."""
    pixel, element = np.dtype(TYPES[kind]), DTYPES[row["dtype"]]
    for count in (*range(1, 4 * row["lanes"] + 2), 16 * row["lanes"] + 5):
        if pixel.kind == "f":
            pixels = rng.standard_normal(count).astype(pixel)
        else:
            info = np.iinfo(pixel)
            pixels = rng.integers(info.min, info.max, count, pixel, endpoint=True)
            pixels[rng.integers(count)] = info.min
            pixels[rng.integers(count)] = info.max
        call = Call(checker, row, rng)
        call.put("src", pixels.reshape(1, -1), 0)
        call.put("dst", np.full((1, count), np.nan, element), 0, writable=True)
        got = call.run(count=count, kind=PIXELS[kind])[0]
        np.testing.assert_array_equal(got, pixels.astype(element))

"""Filters of floating point, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.kernel_table import DTYPES, every_row, symbol
from tests.kernels.rows_call import Call

every_kernel = pytest.mark.parametrize("row", every_row("filter_floats"), ids=symbol)


def filtered(checker, row, rng, source, weights, places, count):
    """Run the kernel on elements between guard pages."""
    element = DTYPES[row["dtype"]]
    call = Call(checker, row, rng)
    call.put("src", source.astype(element).reshape(1, -1), 0)
    call.put("places", (places * element.itemsize).astype(np.int64).reshape(1, -1), 0)
    call.put("weights", weights.astype(element).reshape(1, -1), 0)
    call.put("dst", np.full((1, count), np.nan, element), 0, writable=True)
    return call.run(taps=len(places), count=count)[0]


@every_kernel
def test_sums(checker, row, rng):
    """Every tail of up to a vector and around many, of taps in any places; integers are exact."""
    lanes = row["lanes"]
    ends = [n * lanes + more for n in (1, 2, 7, 8, 11, 17) for more in (-1, 0, 1, lanes // 2)]
    for count in (*range(1, lanes), *ends):
        taps = int(rng.integers(1, 12))
        source = rng.integers(-500, 500, count + 40)
        places = np.append(rng.integers(0, 41, taps - 1), 40)
        weights = rng.integers(-300, 300, taps)
        expected = weights @ np.stack([source[at : at + count] for at in places.tolist()])
        found = filtered(checker, row, rng, source, weights, places, count)
        np.testing.assert_array_equal(found, expected)


@every_kernel
def test_rounding(checker, row, rng):
    """Each product and each sum is rounded at most once; NaN stays where it is seen."""
    count, places = 5 * row["lanes"] + 3, np.array([0, 3, 3, 7])
    source, weights = rng.standard_normal(count + 7), rng.standard_normal(4)
    element = DTYPES[row["dtype"]]
    source, weights = (x.astype(element).astype(np.float64) for x in (source, weights))
    source[9] = np.nan
    found = filtered(checker, row, rng, source, weights, places, count)
    windows = np.stack([source[at : at + count] for at in places.tolist()])
    expected, sizes = weights @ windows, abs(weights) @ abs(windows)
    seen = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), seen)
    assert (abs(found - expected)[~seen] <= 8 * np.finfo(element).eps * sizes[~seen]).all()

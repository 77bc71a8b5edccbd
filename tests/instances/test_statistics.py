"""Percentiles and their window."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.instances.statistics import WINDOW, Record, percentile


@pytest.mark.parametrize("size", [1, 2, 3, 19, 20, 21, 100, 101, 1024])
@pytest.mark.parametrize("percent", [50, 95])
def test_percentiles_are_the_nearest_rank(size, percent, rng):
    values = sorted(rng.random(size).tolist())
    expected = np.percentile(values, percent, method="inverted_cdf")
    assert percentile(values, percent) == expected


def test_the_window_holds_the_latest():
    record = Record()
    assert record.percentiles() == (None, None)
    for _ in range(WINDOW):
        record.add(100.0, failed=False)
    for i in range(WINDOW):
        record.add(float(i), failed=i % 2 == 1)
    assert record.percentiles() == (WINDOW / 2 - 1, np.ceil(0.95 * WINDOW) - 1)
    assert (record.served, record.errors) == (WINDOW + WINDOW // 2, WINDOW // 2)

"""The loop that measures the ceiling: it keeps the ABI and returns, whatever the turns."""

from __future__ import annotations

import pytest

from kernel_table import every_row, symbol


@pytest.mark.parametrize("row", every_row("fma_peak"), ids=symbol)
@pytest.mark.parametrize("iterations", [-1, 0, 1, 2, 1000])
def test_returns(checker, row, iterations):
    checker.call(row, {"iterations": iterations}, f"{iterations=}")

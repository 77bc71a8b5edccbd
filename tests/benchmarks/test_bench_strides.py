"""Loops at powers of two: the measured loops, and the definition of a dip."""

from __future__ import annotations

import os

import numpy as np
import pytest

from benchmarks import strides
from tests.benchmarks.known_runs import FAST, python


@pytest.mark.parametrize(
    ("rates", "part", "dips"),
    [((10, 5, 20), 0.5, True), ((10, 9.5, 9), 9.5 / 9, False), ((4, 3.5, 8), 0.875, True)],
)
def test_a_dip_is_against_the_slower_neighbour(rates, part, dips):
    found = strides.figures(rates)
    assert found == (pytest.approx(part), dips)


@pytest.mark.parametrize("name", strides.LOOPS)
def test_each_loop_computes_rows_of_any_length(name):
    for n in (24, 32):
        result = strides.LOOPS[name](n, 1)()
        values = np.asarray(getattr(result, "array", result), np.float64)
        assert values.size
        assert np.isfinite(values).all()


@pytest.mark.slow
def test_the_tool_writes_a_figure_for_each_loop_and_size(ran):
    found = ran(strides.main, "--loops", "1x1", "--sizes", "16,32", *FAST)
    assert "1 thread: rate at n" in found.out
    runs = found.plain["runs"]
    assert [(run["loop"], run["n"]) for run in runs] == [
        (loop, n) for loop in ("1x1", "sparse 1x1") for n in (16, 32)
    ]
    assert all(rate > 0 for run in runs for rate in run["rates"])
    assert "python -m benchmarks.strides" in found.text


def test_openblas_is_measured_at_its_best():
    """Variables that slow it are gone before NumPy is loaded, and so in processes that follow."""
    code = (
        "import benchmarks, os; from benchmarks import machine; import numpy; numpy.ones((2, 2)); "
        "print(sorted(set(benchmarks.SLOWER) & set(os.environ)), machine.blas())"
    )
    slow = os.environ | {"OPENBLAS_CORETYPE": "PRESCOTT", "OPENBLAS_L2_SIZE": "64"}
    fast = {k: v for k, v in slow.items() if not k.startswith("OPENBLAS_")}
    told = [python(code, env=environment).stdout for environment in (slow, fast)]
    assert told[0] == told[1]
    assert told[0].startswith("[] ")

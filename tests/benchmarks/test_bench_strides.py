"""Loops at powers of two: what is measured, and what is called a dip."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import strides
from tests.documents import ROOT
from tests.patience import PATIENCE

FAST = ["--rounds", "1", "--min-ms", "0.1"]


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
def test_the_tool_writes_a_figure_for_each_loop_and_size(tmp_path, capfd):
    markdown, figures = tmp_path / "s.md", tmp_path / "s.json"
    files = ["--markdown", str(markdown), "--json", str(figures)]
    assert strides.main(["--loops", "1x1", "--sizes", "16,32", *FAST, *files]) == 0
    assert "1 thread: rate at n" in capfd.readouterr().out
    runs = json.loads(figures.read_text())["runs"]
    assert [(run["loop"], run["n"]) for run in runs] == [
        ("1x1", 16), ("1x1", 32), ("sparse 1x1", 16), ("sparse 1x1", 32)
    ]  # fmt: skip
    assert all(rate > 0 for run in runs for rate in run["rates"])
    assert "python -m benchmarks.strides" in markdown.read_text()


@pytest.mark.parametrize("wrong", [["--loops", "none"], ["--sizes", "8"]])
def test_arguments_without_a_meaning_are_refused(wrong, capfd):
    with pytest.raises(SystemExit):
        strides.main(wrong)
    assert wrong[0] in capfd.readouterr().err


def test_openblas_is_measured_at_its_best():
    """Variables that slow it are gone before NumPy is loaded, and so in processes that follow."""
    code = (
        "import benchmarks, os; from benchmarks import machine; import numpy; numpy.ones((2, 2)); "
        "print(sorted(set(benchmarks.SLOWER) & set(os.environ)), machine.blas())"
    )
    slow = os.environ | {"OPENBLAS_CORETYPE": "PRESCOTT", "OPENBLAS_L2_SIZE": "64"}
    told = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True,
            check=True, timeout=PATIENCE,
        ).stdout
        for env in (slow, {k: v for k, v in slow.items() if not k.startswith("OPENBLAS_")})
    ]  # fmt: skip
    assert told[0] == told[1]
    assert told[0].startswith("[] ")

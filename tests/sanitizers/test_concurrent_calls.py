"""The program of concurrent calls makes as many calls as asked, and finds wrong results."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import pplconv
from tests.patience import PATIENCE
from tests.sanitizers.call_cases import Case
from tests.sanitizers.concurrent_calls import Callers

HERE = Path(__file__).resolve().parent


def raises() -> bytes:
    raise ValueError("refused")


def case(call: Callable[[], bytes]) -> Case:
    return Case("kind", "direct", "NCHW", "float32", 2, call, b"right")


@pytest.mark.parametrize("callers", [1, 3])
def test_calls_are_counted(callers):
    made = []
    tried = Callers([case(lambda: made.append(1) or b"right")], 50, callers, seed=0)
    tried.run()
    assert len(made) == tried.tried["kind", "kind"] == tried.tried["team", "2"] == 50
    assert tried.wrong == []
    assert 1 <= tried.most <= callers


@pytest.mark.parametrize(
    ("call", "fault"), [(lambda: b"wrong", "other bytes"), (raises, "refused")]
)
def test_what_is_wrong_is_seen(call, fault):
    tried = Callers([case(call), case(lambda: b"right")], 60, 3, seed=0)
    tried.run()
    assert 0 < len(tried.wrong) < 60
    assert all(fault in line for line in tried.wrong)


@pytest.mark.slow
@pytest.mark.unsanitized("`make tsan` and `make leaks` run the same cases")
@pytest.mark.parametrize("more", [[], ["--networks"]])
def test_the_script(more):
    """All cases are made, and some of them are called."""
    done = subprocess.run(
        [sys.executable, HERE / "concurrent_calls.py", "--calls", "60", *more],
        env=os.environ | {
            "PYTHONPATH": str(Path(pplconv.__file__).parents[1]),
            "PPLCONV_WISDOM": "off", "OPENBLAS_NUM_THREADS": "1",
        },
        capture_output=True, text=True, timeout=2 * PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "60 calls from 4 Python threads" in done.stdout
    assert "0 results wrong" in done.stdout
    assert ("by kind: network 60" in done.stdout) == bool(more)

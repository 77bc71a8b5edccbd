"""Sizes below zero are refused by name; ONNX's inference would end the process behind them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import children
from tests.network.negative_size_probe import CASES

pytestmark = pytest.mark.unemulated("reads and refuses models, which no machine changes")
PROBE = Path(__file__).resolve().parent / "negative_size_probe.py"
# The converter runs for all but the last.
OPSETS = (10, 11, 13, 16, 18, 22, 24)


@pytest.mark.parametrize("opset", OPSETS)
def test_negative_sizes(opset):
    done = children.python("-W", "ignore", str(PROBE), str(opset))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told) == 2 * sum(opset >= oldest for oldest, *_ in CASES.values())
    for name, error in told.items():
        operator = CASES[name.removesuffix(" in a branch")][1]
        assert error.startswith("model has shapes that contradict at the node "), (name, error)
        assert "wrong'" in error.split("(")[0] or "v'" in error.split("(")[0], (name, error)
        assert f"({operator})" in error, (name, error)

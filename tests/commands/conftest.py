"""Fixtures of the command tests: a small network in a file, and fixed roofs.

All networks of these tests run on memory that is filled before (`poisoning`).
"""

from __future__ import annotations

import onnx
import pytest
from onnx import helper

from pplconv.machine.ceilings import Ceilings
from tests import poisoning
from tests.network.models import model_of

poisoning.install()

CEILINGS = Ceilings("avx2", 2, 100e9, {"L2": 200e9, "L3": 50e9, "memory": 20e9})


@pytest.fixture
def model_file(tmp_path, rng):
    """Write a network with open sizes: a convolution, and a softmax over its channels."""
    weights = {"w": rng.standard_normal((8, 3, 3, 3)).astype("f")}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Softmax", ["b"], ["y"], axis=1),
    ]
    inputs = {"x": ("f4", ["n", 3, "h", "w"])}
    model = model_of(nodes, inputs, weights, opset=17, ir_version=8)
    path = tmp_path / "small.onnx"
    onnx.save(model, str(path))
    return path


@pytest.fixture
def ceilings(monkeypatch):
    """Give profiles fixed roofs, so that nothing is measured."""
    monkeypatch.setattr("pplconv.machine.ceilings.measure", lambda *a, **k: CEILINGS)
    return CEILINGS

"""The examples of docs/quantization.md and of docstrings run as they stand."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import pplconv

ROOT = Path(__file__).resolve().parent.parent.parent
MODULES = [
    "api.quantized_function", "api.quantized_layer", "api.quantized_matmul", "quant.numbers",
    "quant.observing", "quant.weights",
]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    found = doctest.testmod(importlib.import_module(f"pplconv.{name}"))
    assert found.attempted > 2 and not found.failed


def test_docstring_of_quantize():
    test = doctest.DocTestFinder().find(pplconv.Conv2d.quantize, "quantize", module=False)[0]
    assert test.examples and not doctest.DocTestRunner().run(test).failed


def test_page():
    found = doctest.testfile(str(ROOT / "docs" / "quantization.md"), module_relative=False)
    assert found.attempted > 10 and not found.failed

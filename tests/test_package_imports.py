"""Imports are read correctly, on which the rules of `test_architecture.py` depend."""

from __future__ import annotations

import pytest

from tests.package_imports import Import, cython_imports, python_imports


def test_python_imports_are_read():
    text = (
        "import os, pplconv.machine\n"
        "from ..planner import (Plan,\n    cost)\n"
        "from . import nest\n"
        "def f():\n    if True:\n        from ..api import conv\n"
    )
    assert list(python_imports(text, ("pplconv", "algorithms", "tiled"))) == [
        Import("os", False, 1),
        Import("pplconv.machine", False, 1),
        Import("pplconv.planner.Plan", False, 2),
        Import("pplconv.planner.cost", False, 2),
        Import("pplconv.algorithms.nest", False, 4),
        Import("pplconv.api.conv", True, 7),
    ]


def test_cython_imports_are_read():
    text = (
        '"""import nothing\nfrom here"""\n'
        "from libc.stdint cimport int64_t\n"
        "from pplconv._kernels cimport (\n    find,  # a comment\n    rows as r,\n)\n"
        "cimport cython\n"
        "from . import planner\n"
        "import threading\n"
        "    from pplconv import imaging\n"
    )
    found = sorted(cython_imports(text, ("pplconv", "_conv")), key=lambda item: item.line)
    assert [(item.target, item.lazy, item.line) for item in found] == [
        ("libc.stdint.int64_t", False, 3),
        ("pplconv._kernels.find", False, 4),
        ("pplconv._kernels.rows", False, 4),
        ("cython", False, 8),
        ("pplconv.planner", False, 9),
        ("threading", False, 10),
        ("pplconv.imaging", True, 11),
    ]


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ('import_module("..network.calibration", __name__)', "pplconv.network.calibration"),
        ('importlib.import_module("pplconv.network")', "pplconv.network"),
        ('import_module(name=".team", package=__package__)', "pplconv.quant.team"),
        ('import_module(f".{name}", __package__)', "pplconv.quant.*"),
        ('import_module(f"..network.{name}", __package__)', "pplconv.network.*"),
        ('import_module(f"{__name__}.{homes[name]}")', "pplconv.quant.*"),
        ('import_module(f"{__package__}.ranges")', "pplconv.quant.ranges"),
        ("import_module(name)", "?"),
        ('import_module(f"{name}.ranges")', "?"),
        ('__import__("pplconv.api.conv")', "pplconv.api.conv"),
        ('import_module("ml_dtypes")', "ml_dtypes"),
        (
            'HOMES = {"quantize_model": "pplconv.network.calibration"}',
            "pplconv.network.calibration",
        ),
        ('HOMES = {"quantize_model": "..network.calibration"}', "pplconv.network.calibration"),
    ],
)
def test_imports_by_calls_and_strings_are_read(text, target):
    found = {item.target for item in python_imports(text, ("pplconv", "quant", "__init__"))}
    assert target in found
    assert all(item.lazy for item in python_imports(text, ("pplconv", "quant", "__init__")))


def test_strings_that_name_no_module_import_nothing():
    text = 'A = ["pplconv.Conv", "pplconv.serve", "network", "a text of pplconv.network", "..."]'
    assert list(python_imports(text, ("pplconv", "quant", "__init__"))) == []


def test_calls_in_cython_import_anything():
    text = 'def f():\n    return import_module("..network", __name__)\n'
    assert list(cython_imports(text, ("pplconv", "api", "layer"))) == [Import("?", True, 2)]

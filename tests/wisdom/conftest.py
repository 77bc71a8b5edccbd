"""A wisdom file of its own for every test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

_HERE = str(Path(__file__).resolve().parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a wisdom file may lie; its folder is not there yet."""
    return tmp_path / "cache" / "wisdom.json"


@pytest.fixture
def named(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, named by the environment."""
    monkeypatch.setenv("PPLCONV_WISDOM", str(path))
    return path

"""A wisdom file of its own for every test."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a wisdom file; its folder does not exist yet."""
    return tmp_path / "cache" / "wisdom.json"


@pytest.fixture
def named(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, named by the environment."""
    monkeypatch.setenv("PPLCONV_WISDOM", str(path))
    return path

"""Each test plans with a wisdom of its own, and on the machine's own kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

import pplconv


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of this test's wisdom; the file does not exist yet."""
    path = tmp_path / "wisdom.json"
    monkeypatch.setenv("PPLCONV_WISDOM", str(path))
    monkeypatch.delenv("PPLCONV_NUM_THREADS", raising=False)
    assert not pplconv.wisdom.export()["entries"]
    return path

"""Each test plans with a wisdom of its own, and on the machine's own kernels."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import pplconv

_HERE = Path(__file__).resolve().parent
# Plans are made for recorded machines, too, and for the layers of the benchmarks.
for _folder in (_HERE, _HERE.parent / "machine", _HERE.parents[1]):
    if str(_folder) not in sys.path:
        sys.path.append(str(_folder))


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the wisdom of this test lies; the file is not there yet."""
    path = tmp_path / "wisdom.json"
    monkeypatch.setenv("PPLCONV_WISDOM", str(path))
    monkeypatch.delenv("PPLCONV_NUM_THREADS", raising=False)
    assert not pplconv.wisdom.export()["entries"]
    return path

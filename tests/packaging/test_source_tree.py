"""What an import says where nothing is compiled."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def tree(tmp_path):
    """The Python sources that an import of a bare clone reads."""
    (tmp_path / "pplconv").mkdir()
    for name in ("__init__.py", "_source_tree.py"):
        shutil.copy(ROOT / "pplconv" / name, tmp_path / "pplconv")
    return tmp_path


def imported(folder: Path) -> str:
    code = "import pplconv"
    ran = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=folder, env={}, capture_output=True, text=True
    )
    assert ran.returncode == 1
    return ran.stderr.splitlines()[-1]


def test_an_import_in_a_clone_says_what_to_do(tree):
    (tree / "setup.py").touch()
    said = imported(tree)
    assert said.startswith(f"ImportError: pplconv was imported from its source tree, {tree}, where")
    assert "another folder" in said
    assert "pip install -e ." in said


def test_a_broken_installation_is_no_source_tree(tree):
    assert imported(tree) == "ModuleNotFoundError: No module named 'pplconv._kernels'"

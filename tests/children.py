"""Child processes that find the package under test and the tests' helpers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pplconv
from tests.patience import PATIENCE

__all__ = ["ROOTS", "environment", "python"]

# The root of the repository comes last: it holds the sources of the package, and the package under
# test may be an installed one.
ROOTS = [str(Path(pplconv.__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1])]


def environment(**variables: str) -> dict[str, str]:
    """Give this process's environment with `ROOTS` on ``PYTHONPATH``, and these variables."""
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*ROOTS, *given]), **variables}


def python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python, and give its output as text; options are those of `subprocess.run`."""
    usual = {"capture_output": True, "text": True, "timeout": PATIENCE, "check": False}
    return subprocess.run([sys.executable, *arguments], **(usual | options))

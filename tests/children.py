"""Processes that tests start: they find the package under test, and the helpers of the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pplconv

__all__ = ["ROOTS", "environment"]

# The helpers' comes last: it has the sources of the package, which may not be what is tested.
ROOTS = [str(Path(pplconv.__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1])]


def environment(**variables: str) -> dict[str, str]:
    """Give this process's environment with `ROOTS` on the path, and these variables."""
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*ROOTS, *given]), **variables}

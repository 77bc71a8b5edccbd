"""The environment of child processes: it finds the package under test and the tests' helpers."""

from __future__ import annotations

import os
from pathlib import Path

import pplconv

__all__ = ["ROOTS", "environment"]

# The root of the repository comes last: it holds the sources of the package, and the package under
# test may be an installed one.
ROOTS = [str(Path(pplconv.__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1])]


def environment(**variables: str) -> dict[str, str]:
    """Give this process's environment with `ROOTS` on ``PYTHONPATH``, and these variables."""
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*ROOTS, *given]), **variables}

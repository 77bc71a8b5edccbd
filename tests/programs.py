"""Python programs that tests start, within `PATIENCE`; they find the package under test."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from tests.children import ROOTS
from tests.patience import PATIENCE


def ran(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run this Python with these arguments to its end, and keep what it writes."""
    given = {"capture_output": True, "text": True, "timeout": PATIENCE, "check": False}
    return subprocess.run([sys.executable, *map(str, arguments)], **{**given, **options})


def output(*arguments: object, **options: Any) -> str:
    """Return what a program writes, which must succeed."""
    done = ran(*arguments, **options)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def started(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start this Python with these arguments; its output can be read."""
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, *map(str, arguments)], **{**given, **options})


def finding(code: str) -> str:
    """Return code that first puts the package and the helpers of the tests on the path."""
    return f"import sys\nsys.path[:0] = {ROOTS!r}\n{code}"

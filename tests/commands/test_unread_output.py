"""Commands whose output nobody reads to the end, as before `head`, stop without a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pplconv
from tests.patience import PATIENCE


@pytest.mark.parametrize("arguments", [["info"], ["info", "--json"], ["doctor"]], ids=" ".join)
def test_a_closed_pipe_is_no_error(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pplconv", *arguments],
            cwd=Path(pplconv.__file__).parents[1],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")

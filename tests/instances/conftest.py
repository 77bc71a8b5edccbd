"""No test leaves a thread behind; helpers are imported by name, also by processes."""

from __future__ import annotations

import gc
import sys
import threading
from pathlib import Path

import pytest

from patience import eventually

_HERE = str(Path(__file__).resolve().parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)


def own() -> set[threading.Thread]:
    return {t for t in threading.enumerate() if t.name.startswith("pplconv-instance")}


@pytest.fixture(autouse=True)
def _no_threads_left():
    before = own()
    yield
    if own() - before:
        gc.collect()  # a pool that failed with its test may be in a traceback's frames
    eventually(lambda: own() <= before, "the end of all threads of its pools")

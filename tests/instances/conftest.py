"""No test leaves a thread behind; helpers are imported by name, also by processes."""

from __future__ import annotations

import gc
import sys
import threading
from pathlib import Path

import pytest

_HERE = str(Path(__file__).resolve().parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

from gates import eventually  # noqa: E402  (beside this file)


def own() -> set[threading.Thread]:
    return {t for t in threading.enumerate() if t.name.startswith("pplconv-instance")}


@pytest.fixture(autouse=True)
def _no_threads_left():
    before = own()
    yield
    if own() - before:
        gc.collect()  # a pool that failed with its test may be in a traceback's frames
    assert eventually(lambda: own() <= before), own() - before

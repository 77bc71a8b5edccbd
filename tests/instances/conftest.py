"""No test leaves a thread behind."""

from __future__ import annotations

import gc
import threading

import pytest
from gates import eventually


def own() -> set[threading.Thread]:
    return {t for t in threading.enumerate() if t.name.startswith("pplconv-instance")}


@pytest.fixture(autouse=True)
def _no_threads_left():
    before = own()
    yield
    gc.collect()
    assert eventually(lambda: own() <= before), own() - before

"""No test leaves a thread behind; one worker serves the tests of a module."""

from __future__ import annotations

import gc
import threading

import pytest

from tests.instances import process_models as models
from tests.instances.process_case import worker
from tests.patience import eventually


def own() -> set[threading.Thread]:
    return {t for t in threading.enumerate() if t.name.startswith("pplconv-instance")}


@pytest.fixture(autouse=True)
def _no_threads_left():
    before = own()
    yield
    if own() - before:
        gc.collect()  # the frames of a traceback may hold a failed test's pool
    eventually(lambda: own() <= before, "the end of all threads of its pools")


@pytest.fixture(scope="module")
def servant():
    """A worker process of `models.Servant`."""
    with worker(models.Servant) as one:
        yield one

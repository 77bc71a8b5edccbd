"""Puts source tree and helpers last on the path: ``benchmarks`` is found from any directory.

All networks of these tests run on memory that is filled before (`poisoning`).
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

HERE = Path(__file__).resolve().parent
ROOT = str(HERE.parents[1])
sys.path += [room for room in (ROOT, str(HERE)) if room not in sys.path]

from tests import poisoning  # noqa: E402  (beside the folders of tests)

poisoning.install()


@pytest.fixture
def fake_time():
    """A clock that only moves when told to."""
    from benchmarks.timing import Clock

    class FakeTime:
        def __init__(self):
            self.seconds = 0.0
            self.cpu_seconds = 0.0
            self.sleeps = []
            # CPU time that background threads still burn while this process sleeps.
            self.spin_left = 0.0
            self.clock = Clock(now=lambda: self.seconds, sleep=self.sleep, cpu=self.cpu)

        def cpu(self):
            return self.cpu_seconds

        def pass_by(self, seconds):
            self.seconds += seconds

        def sleep(self, seconds):
            self.sleeps.append(seconds)
            spun = min(self.spin_left, seconds)
            self.spin_left -= spun
            self.cpu_seconds += spun
            self.seconds += seconds

    return FakeTime()


@pytest.fixture(autouse=True)
def _blas_threads_as_before():
    """Undo what an engine sets for the whole process."""
    with threadpool_limits(1, user_api="blas"):
        yield


# `make test-peers` has those that want PyTorch.
collect_ignore_glob = [] if find_spec("torch") else ["test_bench_torch_*.py"]

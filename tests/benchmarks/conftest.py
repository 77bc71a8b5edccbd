"""Puts source tree and helpers last on the path: ``benchmarks`` is found from any directory.

All networks of these tests run on memory that is filled before (`poisoning`).
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

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


@pytest.fixture
def ran(tmp_path, capfd):
    """Run a command to its exit status; gives its output, report and record, and their paths."""

    def run(main, *arguments, status=0):
        page, record = tmp_path / "files" / "run.md", tmp_path / "files" / "run.json"
        assert main([*arguments, "--markdown", str(page), "--json", str(record)]) == status
        out, err = capfd.readouterr()
        text, plain = page.read_text(encoding="utf-8"), json.loads(record.read_text())
        return SimpleNamespace(out=out, err=err, text=text, plain=plain, record=record)

    return run


@pytest.fixture
def refused(capsys):
    """Run a command that refuses its arguments; gives the complaint."""

    def run(main, *arguments):
        with pytest.raises(SystemExit) as caught:
            main(list(arguments))
        assert caught.value.code == 2
        return capsys.readouterr().err

    return run


@pytest.fixture
def interrupted(monkeypatch):
    """Have Ctrl-C meet a function of a module after so many calls; gives the function as it was."""

    def replace(module, name, after):
        real, calls = getattr(module, name), []

        def function(*arguments, **named):
            if len(calls) == after:
                raise KeyboardInterrupt
            calls.append(arguments)
            return real(*arguments, **named)

        monkeypatch.setattr(module, name, function)
        return real

    return replace


@pytest.fixture(autouse=True)
def _blas_threads_as_before():
    """Undo what an engine sets for the whole process."""
    with threadpool_limits(1, user_api="blas"):
        yield


# `make test-peers` has those that want PyTorch, and names what it could not install: onnxscript,
# which PyTorch's exporter of graphs takes, is one.
collect_ignore_glob = ([] if find_spec("torch") else ["test_bench_torch_*.py"]) + (
    [] if find_spec("onnxscript") else ["test_bench_torch_exported.py"]
)

"""Fit the suite to user-mode emulation: options of ``make test-arm``, and tests to leave out.

Emulation proves values, memory accesses and dispatch, ten to twenty times as slowly as the machine
computes. Under ``--emulated`` a run has fewer random problems (`EXAMPLES`, `few`), and leaves out

- rooms whose tests say nothing about the emulated CPU (`ROOMS`), before they are imported;
- tests marked ``unemulated(reason)``, which cannot run there or only start processes;
- tests outside this run's share, or part of the files (`shares`): each CPU has its own.

The end of the run prints how many tests were left out.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings

from tests import shares

T = TypeVar("T")

__all__ = [
    "LEFT_OUT",
    "ROOMS",
    "add_options",
    "deselect",
    "few",
    "ignore",
    "is_emulated",
    "report",
    "use_profile",
]

# Random problems of a test under emulation; elsewhere a test has 200.
EXAMPLES = 10

ROOMS = {
    "benchmarks": "times and charts; emulation has no speed",
    "docs": "reads documents and draws pictures, which no machine changes",
    "browser": "needs a browser; pages, which no machine changes",
    "serving": "needs packages that are not installed for the emulator",
    "clusters": "starts clusters of processes, which would take minutes",
    "commands": "profiles and pages of them; emulation has no speed",
    "fuzz": "endless workers in processes; the random problems of tests/api run",
    "packaging": "builds by pip, which the sysroot has not; the wheel under test was built so",
    "sanitizers": "another build, of x86-64",
    "soak": "minutes of load in processes",
    "tools": "makes this emulation",
    "test_architecture.py": "reads sources, which no machine changes",
    "test_documents.py": "reads documents, which no machine changes",
}
# These rooms need packages for which no package index has 32-bit wheels.
if sys.maxsize < 1 << 32:
    ROOMS |= {
        "demo": "needs ONNX and images, of which there are no wheels for 32 bits",
        "integrations": "needs ONNX, of which there are no wheels for 32 bits",
        "network": "needs ONNX, of which there are no wheels for 32 bits",
    }
_HERE = Path(__file__).resolve().parent
LEFT_OUT = pytest.StashKey[Counter]()
_state = {"emulated": False}


def is_emulated() -> bool:
    """Whether this run is fitted to emulation, for tests that `few` cannot fit."""
    return _state["emulated"]


def few(items: Iterable[T], most: int) -> list[T]:
    """Give all of `items`; under emulation at most `most`, drawn anew in each run."""
    found = list(items)
    if not _state["emulated"] or len(found) <= most:
        return found
    chosen = random.sample(range(len(found)), most)
    return [found[i] for i in sorted(chosen)]


def add_options(parser: pytest.Parser) -> None:
    """Declare the option that ``make test-arm`` passes."""
    group = parser.getgroup("emulation")
    group.addoption("--emulated", action="store_true", help="fit the suite to emulation")


def ignore(path: Path, config: pytest.Config) -> bool | None:
    """Leave out a room, or a file that another emulated CPU runs, before it is imported."""
    if config.getoption("emulated") and path.parent == _HERE and path.name in ROOMS:
        _counter(config)[f"tests/{path.name}: {ROOMS[path.name]}"] += 0
        return True
    reason = shares.ignore(path, config)
    if reason:
        _counter(config)[reason] += 1
    return bool(reason) or None


def use_profile(config: pytest.Config) -> None:
    """Draw fewer random problems in tests that do not set a number of their own."""
    if config.getoption("emulated"):
        _state["emulated"] = True
        settings.register_profile("emulated", settings.get_profile("ci"), max_examples=EXAMPLES)
        settings.load_profile("emulated")


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that cannot run here, and tests of other shares."""
    if config.getoption("emulated"):
        kept, left = [], []
        for item in items:
            mark = item.get_closest_marker("unemulated")
            if mark:
                _counter(config)[f"unemulated: {mark.args[0]}"] += 1
            (left if mark else kept).append(item)
        items[:] = kept
        config.hook.pytest_deselected(items=left)
    reason, left_out = shares.select(config, items)
    if left_out:
        _counter(config)[reason] += left_out


def _counter(config: pytest.Config) -> Counter:
    return config.stash.setdefault(LEFT_OUT, Counter())


def report(config: pytest.Config, reporter: Any) -> None:
    """Print how many tests were left out, and why."""
    if not _counter(config):
        return
    reporter.section("left out")
    for reason, count in sorted(_counter(config).items()):
        reporter.line(f"{count or 'all':>6}  {reason}")

"""Shared by all test modules: Hypothesis profiles, markers, seeded random numbers."""

from __future__ import annotations

import gc
import os
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

# The helpers (`tests`) and ``asm`` are found in the root of the repository. It goes last: it has
# the sources of the package, which must not stand before an installed one.
_ROOT = str(Path(__file__).resolve().parents[1])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)

from tests import absent  # noqa: E402

# Before any module executes CPUID.
absent.install()

from tests import caps, cases, emulation, instruction_sets, shares, tiers  # noqa: E402
from tests.network import forced_bands  # noqa: E402

# The user's own plans must not decide a test, and no test may write to them. Tests of wisdom name
# files of their own.
os.environ["PPLCONV_WISDOM"] = "off"
# Nor may compiled networks of an earlier run.
os.environ["PPLCONV_CACHE"] = "off"

# Measurements at the start differ from run to run, and would change the plans that tests expect.
os.environ.setdefault("PPLCONV_TEAM_START_US", "1")

# Teams of several test processes share the cores: threads that wait should not spin there.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

_COMMON = {
    "deadline": None,
    "derandomize": False,
    "database": None,
    "print_blob": True,
    # Hypothesis draws a few integers and a seed; arrays made from them are large on purpose.
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("ci", max_examples=200, **_COMMON)
settings.register_profile("quick", max_examples=30, **_COMMON)
settings.register_profile("thorough", max_examples=5000, **_COMMON)
settings.load_profile("ci")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, so that they exist under ``--strict-markers`` too."""
    config.addinivalue_line("markers", "slow: builds the package or takes many seconds")
    config.addinivalue_line(
        "markers", "narrow: about 8-bit integers or bfloat16, whose instruction sets are caps"
    )
    config.addinivalue_line(
        "markers", "unsanitized(reason): cannot run under `make asan`, which leaves it out"
    )
    config.addinivalue_line(
        "markers", "unemulated(reason): cannot run under `make test-arm`, which leaves it out"
    )
    config.addinivalue_line(
        "markers", "unbanded(reason): is about whole images, so that `--bands` leaves it out"
    )
    instruction_sets.configure(config)
    emulation.use_profile(config)
    tiers.configure(config)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of cases, of caps, of tiers, of shares and of ``make test-arm``."""
    caps.add_options(parser)
    cases.add_options(parser)
    instruction_sets.add_options(parser)
    tiers.add_options(parser)
    shares.add_options(parser)
    emulation.add_options(parser)
    forced_bands.add_options(parser)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out rooms that say nothing about an emulated CPU or a cap, and files of other parts."""
    return caps.ignore(collection_path, config) or emulation.ignore(collection_path, config)


# Last: when all cases are known.
@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Drop cases that cannot run here, or that belong to another tier or share."""
    instruction_sets.thin(metafunc)
    tiers.thin(metafunc)
    shares.thin(metafunc)


# Last: a share is taken of the tests that the command line selects.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that this CPU cannot run, or that belong to another tier or share."""
    instruction_sets.deselect(config, items)
    tiers.deselect(config, items)
    forced_bands.deselect(config, items)
    emulation.deselect(config, items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Keep the garbage collector from looking at tens of thousands of tests again and again.

    Tests ask for collections themselves, and each would look at all of them.

    The collector stays enabled, and a threshold of zero stops it: libraries that are
    imported here, such as dask, keep the state that they find and restore it after their calls.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(0)
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*thresholds)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests under each cap, if that was asked for."""
    return caps.run(session)


# Counts of tests that are printed at the end of a run.
COUNTED = {
    "isas left out": instruction_sets.LEFT_OUT, "left out": emulation.LEFT_OUT, "able": shares.ABLE,
}  # fmt: skip


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send a worker's counts to the process that prints them; all workers collect the same."""
    if hasattr(session.config, "workeroutput"):
        for name, key in COUNTED.items():
            session.config.workeroutput[name] = dict(session.config.stash.get(key, {}))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Send a worker the seed of the run's draw."""
    tiers.tell_worker(node)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take a worker's counts."""
    for name, key in COUNTED.items():
        node.config.stash[key] = Counter(getattr(node, "workeroutput", {}).get(name, {}))


def pytest_terminal_summary(terminalreporter: object, config: pytest.Config) -> None:
    """Print which tests were left out, and which instruction sets were tested."""
    tiers.report(config, terminalreporter)
    emulation.report(config, terminalreporter)
    levels = caps if config.option.caps else instruction_sets
    lines = levels.report(config, terminalreporter)
    shares.write_account(config, terminalreporter, lines)


@pytest.fixture(scope="session", autouse=True)
def _one_blas_thread():
    """Keep the reference's matrix products off the cores that the workers share."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Give random numbers that depend on the test's name alone, not on the order of tests."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))

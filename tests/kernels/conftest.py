"""Fixtures of the kernel tests: the checker, and a seed that is told when a test fails."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

# The helpers beside the tests, and ``asm`` in the root of the repository. They go last, so that
# nothing here can stand before an installed package.
_HERE = Path(__file__).resolve().parent
sys.path += [str(room) for room in (_HERE, _HERE.parents[1]) if str(room) not in sys.path]

from kernel_checker import Checker  # noqa: E402
from kernel_table import MACHINE  # noqa: E402
from tile_case import Silicon  # noqa: E402


@pytest.fixture(scope="session")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Checker:
    """Build the native half of the checker, once per test process."""
    return Checker(tmp_path_factory.mktemp("kernel_checker"), MACHINE)


@pytest.fixture
def silicon(checker: Checker) -> Iterator[Silicon]:
    """Give the tiles of this thread, which has none behind the test."""
    with Silicon(checker) as tiles:
        yield tiles


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Give random numbers from a seed that changes with the run's and is printed.

    pytest-randomly names the run's seed in the header (``--randomly-seed`` repeats it).
    """
    run = request.config.getoption("randomly_seed", 0)
    seed = [zlib.crc32(request.node.nodeid.encode()), run if isinstance(run, int) else 0]
    print(f"numpy.random.default_rng({seed})")
    return np.random.default_rng(seed)

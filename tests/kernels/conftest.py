"""Fixtures of the kernel tests: the checker, and a seed that is printed when a test fails."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import pytest

from tests.kernels.kernel_checker import Checker
from tests.kernels.kernel_table import MACHINE
from tests.kernels.tile_case import Silicon


@pytest.fixture(scope="session")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Checker:
    """Build the native half of the checker, once per test process."""
    return Checker(tmp_path_factory.mktemp("kernel_checker"), MACHINE)


@pytest.fixture
def silicon(checker: Checker) -> Iterator[Silicon]:
    """Give the tile registers of this thread; they are released after the test."""
    with Silicon(checker) as tiles:
        yield tiles


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Give random numbers; the seed depends on the test and on the run's seed, and is printed.

    pytest-randomly names the run's seed in the header (``--randomly-seed`` repeats it).
    """
    run = request.config.getoption("randomly_seed", 0)
    seed = [zlib.crc32(request.node.nodeid.encode()), run if isinstance(run, int) else 0]
    print(f"numpy.random.default_rng({seed})")
    return np.random.default_rng(seed)

"""All networks of these tests run on memory that is filled before (`poisoning`)."""

from __future__ import annotations

import numpy as np
import pytest

from tests import poisoning
from tests.network import forced_bands
from tests.network.graphs import Graph

poisoning.install()


@pytest.fixture
def g(request: pytest.FixtureRequest) -> Graph:
    """An empty model, of the test's `dtype` if it has one."""
    typed = "dtype" in request.fixturenames
    return Graph(dtype=request.getfixturevalue("dtype") if typed else np.float32)


@pytest.fixture(autouse=True)
def _bands(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run networks band by band if ``--bands`` says so."""
    unit = request.config.getoption("--bands")
    if unit:
        forced_bands.force(monkeypatch, unit, request.config.getoption("--columns"))

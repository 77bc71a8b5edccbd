"""All networks of these tests run on memory that is filled before (`poisoning`)."""

from __future__ import annotations

import numpy as np
import pytest

from tests import poisoning
from tests.network.graphs import Graph

poisoning.install()


@pytest.fixture
def g(request: pytest.FixtureRequest) -> Graph:
    """An empty model, of the test's `dtype` if it has one."""
    typed = "dtype" in request.fixturenames
    return Graph(dtype=request.getfixturevalue("dtype") if typed else np.float32)

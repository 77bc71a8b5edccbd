"""All networks of these tests run on memory that is filled before (`poisoning`)."""

from __future__ import annotations

import pytest

from tests import poisoning
from tests.network.graphs import Graph

poisoning.install()


@pytest.fixture
def g() -> Graph:
    """An empty model; modules of other models have a fixture of this name of their own."""
    return Graph()

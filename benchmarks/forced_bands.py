"""Bands of given heights, or none, in place of the choice: for measurements and for tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

from pplconv.network.bands.gains import Costs

__all__ = ["COSTS", "forced", "forced_costs", "layer_by_layer", "no_costs"]

COSTS = "pplconv.network.bands.groups.costs_here"
"""What these replace."""


def forced_costs(units: Sequence[int]) -> Costs:
    """Give costs by which all pays, in bands of the first of these heights that is possible.

    Parameters
    ----------
    units : sequence of int
        Heights, as multiples of the fewest whole rows.
    """
    return Costs([1 << 60], lambda size, level: 1e18, lambda most: units)


def no_costs() -> Costs:
    """Give costs by which nothing pays."""
    return Costs([], lambda size, level: 0.0, lambda most: [])


@contextmanager
def layer_by_layer() -> Iterator[None]:
    """Compile networks without groups, meanwhile."""
    with mock.patch(COSTS, no_costs):
        yield


@contextmanager
def forced(unit: int) -> Iterator[None]:
    """Compile networks in bands of `unit` times the fewest whole rows, whatever they cost."""
    with mock.patch(COSTS, lambda: forced_costs([unit])):
        yield

"""Bands of a given height wherever steps can be cut, whatever they cost.

``pytest tests/network --bands=N`` runs all networks so. Tests marked ``unbanded(reason)`` are left
out: those that say where the steps or the scratch of whole images stand.
"""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.forced_bands import COSTS, forced_costs
from pplconv.network.bands import groups, lowering, members
from tests.emulation import LEFT_OUT


def add_options(parser: pytest.Parser) -> None:
    """Declare ``--bands``."""
    parser.addoption(
        "--bands", type=int, default=0, metavar="ROWS",
        help="networks run in bands of so many rows, wherever they can be cut",
    )  # fmt: skip
    parser.addoption(
        "--columns", action="store_true", help="with --bands: bands of columns instead of rows"
    )


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of whole images, if networks run band by band."""
    if not config.getoption("--bands"):
        return
    marks = [item.get_closest_marker("unbanded") for item in items]
    counted = config.stash.setdefault(LEFT_OUT, Counter())
    counted.update(f"unbanded: {mark.args[0]}" for mark in marks if mark)
    config.hook.pytest_deselected(items=[i for i, m in zip(items, marks, strict=True) if m])
    items[:] = [item for item, mark in zip(items, marks, strict=True) if not mark]


def force(monkeypatch: pytest.MonkeyPatch, unit: int, columns: bool = False) -> None:
    """Make bands of `unit` times the fewest whole rows; where that is no height, of another.

    Of columns instead, if `columns` says so, whether or not images are wide.
    """
    heights = [unit, unit + 1, *range(unit - 1, 0, -1)]
    monkeypatch.setattr(COSTS, lambda: forced_costs(heights))
    if columns:
        monkeypatch.setattr(groups, "AXES", (3,))
        monkeypatch.setattr(members, "WIDE", 0)
        monkeypatch.setattr(lowering, "_copied", lambda steps, places: 0.0)

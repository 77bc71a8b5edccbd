"""Bands of a given height wherever steps can be cut, whatever they cost."""

from __future__ import annotations

import pytest

from pplconv import planner
from pplconv.network.bands import groups


def add_options(parser: pytest.Parser) -> None:
    """Declare ``--bands``."""
    parser.addoption(
        "--bands", type=int, default=0, metavar="ROWS",
        help="networks run in bands of so many rows, wherever they can be cut",
    )  # fmt: skip


def force(monkeypatch: pytest.MonkeyPatch, unit: int) -> None:
    """Make bands of `unit` times the fewest whole rows; where that is no height, of another."""
    heights = [unit, unit + 1, *range(unit - 1, 0, -1)]
    monkeypatch.setattr(planner, "staying_cycles", lambda size: 1e18)
    monkeypatch.setattr(groups, "_units", lambda sizes, room: heights)

"""Columns of text."""

from __future__ import annotations

import pytest

from pplconv.drawing.columns import columns


def test_cells_are_aligned_and_nothing_trails():
    rows = [("name", "ms", ""), ("a", "12.5", "slow"), ("longest", "3", "")]
    assert columns(rows, {1}) == ["name       ms", "a        12.5  slow", "longest     3"]


def test_rows_have_as_many_cells():
    with pytest.raises(ValueError):
        columns([("a", "b"), ("c",)], ())

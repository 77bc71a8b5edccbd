"""Rows of words as columns of text."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def columns(rows: Sequence[Sequence[str]], right: Collection[int]) -> list[str]:
    """Lay rows out in columns; without trailing spaces.

    Parameters
    ----------
    rows : sequence of sequence of str
        The cells, as many in each row.
    right : collection of int
        Columns whose cells end at the same place; the others begin there.
    """
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]

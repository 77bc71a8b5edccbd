"""``border=``: values of the pixels around an image."""

from __future__ import annotations

from .._checks import one_of

__all__ = ["BORDERS", "check_border"]

BORDERS = ("reflect101", "reflect", "replicate", "wrap", "constant")
"""Its values; docs/imaging.md has their names in other libraries."""


def check_border(border: object) -> str:
    """Return `border` if it is a known border.

    Raises
    ------
    ValueError
        Otherwise.
    """
    return one_of("border", border, BORDERS)

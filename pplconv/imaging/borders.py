"""``border=``: what lies around an image."""

from __future__ import annotations

from .._checks import one_of

__all__ = ["BORDERS", "check_border"]

BORDERS = ("reflect101", "reflect", "replicate", "wrap", "constant")
"""What it may be; docs/imaging.md has the names that other libraries give to them."""


def check_border(border: object) -> str:
    """Return `border` if it is one.

    Raises
    ------
    ValueError
        Otherwise.
    """
    return one_of("border", border, BORDERS)

"""``border=``: what lies around an image."""

from __future__ import annotations

from .._checks import shown

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
    if not isinstance(border, str) or border not in BORDERS:
        raise ValueError(f"border must be one of {', '.join(BORDERS)}, got {shown(border)}")
    return border

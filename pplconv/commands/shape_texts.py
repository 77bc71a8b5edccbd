"""Shapes of inputs on command lines: ``x=1x3x64x64`` and ``x=1,3,64,64``, one or several."""

from __future__ import annotations

import argparse
import re

__all__ = ["shapes_of"]

# Sizes beyond it are mistakes.
_LARGEST = (1 << 31) - 1


def shapes_of(text: str) -> dict[str, tuple[int, ...]]:
    """Read shapes by name.

    Parameters
    ----------
    text : str
        Names and sizes, ``x=1x3x64x64,mask=1x64`` or ``x=1,3,64,64,mask=1,64``; no size is a
        scalar. Names may hold "=", but no comma.

    Raises
    ------
    argparse.ArgumentTypeError
        If it is something else.
    """
    found: dict[str, tuple[int, ...]] = {}
    # A comma may end a shape or a size.
    for part in re.split(",(?=[^,]*=)", text):
        name, equals, sizes = part.rpartition("=")
        numbers = [size.strip() for size in re.split("[x,]", sizes)] if sizes.strip() else []
        right = all(number.isascii() and number.isdigit() for number in numbers)
        if not equals or not name.strip() or name in found or not right:
            raise argparse.ArgumentTypeError(
                f"{text!r}: expected names and sizes, x=1x3x640x640 or x=1,3,640,640"
            )
        found[name] = tuple(map(int, numbers))
        if max(found[name], default=0) > _LARGEST:
            raise argparse.ArgumentTypeError(f"{text!r}: a size is beyond {_LARGEST}")
    return found

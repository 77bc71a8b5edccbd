"""Keeps remembered plans out of a run: every plan is one that *this* run chose.

pplconv consults wisdom before it plans, so plans measured yesterday, or a moment ago for another
team, would replace the estimate's own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

_VARIABLE = "PPLCONV_WISDOM"


@contextlib.contextmanager
def private() -> Iterator[None]:
    """Keep wisdom in memory only: the user's own is neither read nor written."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = "off"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_VARIABLE, None)
        else:
            os.environ[_VARIABLE] = before


def forget() -> None:
    """Clear the wisdom of this process, inside `private`; files are never touched."""
    import pplconv

    if os.environ.get(_VARIABLE) == "off":
        # Older versions have no wisdom to clear.
        clear = getattr(getattr(pplconv, "wisdom", None), "clear", None)
        if clear is not None:
            clear()

"""Keeps what pplconv remembers out of a run: a plan is what *this* run chose.

pplconv's estimate consults wisdom first, so plans measured yesterday, or a moment ago for another
team, would stand where the estimate's own ought to.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

_VARIABLE = "PPLCONV_WISDOM"
# Files of runs under way; empty outside `private`, where nothing may be forgotten.
_own: list[Path] = []


@contextlib.contextmanager
def private() -> Iterator[Path]:
    """Give pplconv a wisdom file of this run's own, empty at first and gone afterwards."""
    before = os.environ.get(_VARIABLE)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "wisdom"
        os.environ[_VARIABLE] = str(path)
        _own.append(path)
        try:
            yield path
        finally:
            _own.remove(path)
            if before is None:
                os.environ.pop(_VARIABLE, None)
            else:
                os.environ[_VARIABLE] = before


def forget() -> None:
    """Forget what this run has measured so far; outside `private`, nothing happens.

    A user's own wisdom is never touched, nor missed where pplconv has none yet.
    """
    import pplconv

    if _own and os.environ.get(_VARIABLE) == str(_own[-1]):
        clear = getattr(getattr(pplconv, "wisdom", None), "clear", None)
        if clear is not None:
            clear()

"""What to install where a package is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["told"]


@contextmanager
def told(module: str, requirement: str) -> Iterator[None]:
    """Have errors of imports say what a module needs.

    Parameters
    ----------
    module : str
        Module of this room.
    requirement : str
        For pip.
    """
    try:
        yield
    except ImportError as error:
        name = (error.name or "").partition(".")[0]
        if name in ("", "pplconv"):
            raise  # a broken installation; no package mends that
        raise ImportError(
            f"pplconv.integrations.{module} needs {name}: pip install '{requirement}'", name=name
        ) from error

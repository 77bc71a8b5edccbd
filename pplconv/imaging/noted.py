"""Calls of filters that are noted instead of run: `Compose` learns from them what its steps do.

Functions of this package make their kernels and check their arguments in many ways, and most of
them end in one direct filter. A noted call stops there: it says which filter, and gives an array
that is not written, and that nobody can write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .banded import Rounding, Short
from .bands import Region
from .operators import Operator

__all__ = ["Noted", "is_noting", "note", "noted", "refuse_note"]

Array = npt.NDArray[Any]


class Noted(NamedTuple):
    """A direct filter of an image.

    Parameters
    ----------
    image : ndarray, shape (H, W, C)
        Of the form of the images to come.
    operator, region, rounding
        As in `bands.prepared`.
    planes : ndarray, shape (n, rows, columns, C)
        Of the form of the results.
    result : ndarray
        The same as the caller of the filter gets it.
    """

    image: Array
    operator: Operator
    region: Region
    rounding: Rounding | Short | None
    planes: Array
    result: Array


class _NotOneFilter(ValueError):
    """A noted call does more than one direct filter."""


_notes: ContextVar[list[Noted] | None] = ContextVar("pplconv_notes", default=None)


@contextmanager
def _noting() -> Iterator[list[Noted]]:
    notes: list[Noted] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def is_noting() -> bool:
    """Whether calls are noted now, and do not run."""
    return _notes.get() is not None


def refuse_note() -> None:
    """Say that what follows is no direct filter.

    Raises
    ------
    ValueError
        If the call is noted.
    """
    if is_noting():
        raise _NotOneFilter("the call is no direct filter")


def note(filter: Noted) -> None:
    """Note a filter in place of running it.

    Raises
    ------
    ValueError
        If it is the second one of a call.
    """
    notes = _notes.get()
    assert notes is not None
    if notes:
        raise _NotOneFilter("the call is several filters")
    filter.result.flags.writeable = False
    notes.append(filter)


def noted(call: Callable[[Array], object], image: Array) -> Noted | None:
    """Give the direct filter that a call of an image is; None for any other call.

    Parameters
    ----------
    call : callable
        A function of this package, or one with some of its arguments.
    image : ndarray
        Whose form counts.
    """
    with _noting() as notes:
        try:
            result = call(image)
        except (TypeError, ValueError):
            # Bad arguments raise the same error when the call is run.
            return None
    if len(notes) != 1 or result is not notes[0].result:
        return None
    seen = notes[0].image
    # What follows reads the pixels where the caller's array has them.
    same = seen.shape[:2] == image.shape[:2] and np.shares_memory(seen[:1, :1], image[:1, :1])
    return notes[0] if same and seen.dtype == image.dtype else None

"""Calls of filters that are noted instead of run: `Compose` learns from them what its steps do.

Functions of this package make their kernels and check their arguments in many ways, and most of
them end in one direct filter. A noted call stops there: it says which filter, and gives an array
that is not written, and that nobody can write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import planner
from .._records import NamedTuple
from .bands import AnyRounding, Filter, Region, Store, prepared
from .operators import Operator

__all__ = ["NOTES", "Noted", "filter_of", "is_noting", "note", "noted", "refuse_note"]

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
    store : callable, optional
        As in `bands.prepared`.
    by_pixels : bool
        Whether other pixels may make it another filter.
    """

    image: Array
    operator: Operator
    region: Region
    rounding: AnyRounding | None
    planes: Array
    result: Array
    store: Store | None = None
    by_pixels: bool = False


class _NotOneFilter(ValueError):
    """A noted call does more than one direct filter."""


NOTES: ContextVar[list[Noted] | None] = ContextVar("pplconv_notes", default=None)
"""Where calls are noted; None where they run."""
# What a filter takes besides its kernels and the places of its rows: plans, mostly.
_FIXED_BYTES = 1 << 13


@contextmanager
def _noting() -> Iterator[list[Noted]]:
    notes: list[Noted] = []
    token = NOTES.set(notes)
    try:
        yield notes
    finally:
        NOTES.reset(token)


def is_noting() -> bool:
    """Whether calls are noted now, and do not run."""
    return NOTES.get() is not None


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
    notes = NOTES.get()
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


def filter_of(
    call: Callable[[Array], object], image: Array, threads: int | None
) -> tuple[Filter, tuple[int, ...], tuple[int, ...], np.dtype[Any], int] | None:
    """Prepare the direct filter that a call of an image is; None for any other call.

    Parameters
    ----------
    call, image
        As in `noted`.
    threads : int, optional
        Of the call.

    Returns
    -------
    filter : callable
        Filters images of the same form.
    shape, planes : tuple of int
        Of the result as the caller gets it, and as the filter takes it.
    dtype : dtype
        Of the result.
    size : int
        Bytes that the filter takes, roughly.
    """
    one = noted(call, image)
    if one is None or one.by_pixels or one.image.strides[:2] != image.strides[:2]:
        return None
    try:
        made = prepared(
            one.image, one.operator, one.region, one.planes, one.rounding,
            planner.team_size(threads), one.store,
        )  # fmt: skip
    except (TypeError, ValueError):
        # The call itself raises the same error, with the names of its arguments.
        return None
    size = _FIXED_BYTES + 16 * (one.region.shape[1] + max(one.region.shape))
    size += 32 * one.operator.products * len(one.planes)
    return made, one.result.shape, one.planes.shape, one.result.dtype, size

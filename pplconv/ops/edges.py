"""Padding made of an image's own pixels: the choice of pixels, and padded copies."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Gather", "Index", "runs_of", "source_index"]

Array = npt.NDArray[Any]
Index = npt.NDArray[np.int64]


def source_index(edge: str, first: int, count: int, size: int) -> Index:
    """Map positions `first`, `first` + 1, ... of an axis to its `size` pixels.

    Parameters
    ----------
    edge : {"constant", "replicate", "wrap", "reflect", "reflect101"}
        ``"reflect"`` repeats the pixel at the edge, ``"reflect101"`` does not.
    first, count : int
        Positions; they may be any number of pixels outside the image.
    size : int
        Pixels of the axis, at least one.

    Returns
    -------
    ndarray of int64, shape (count,)
        Indices of pixels; -1 for the constant.
    """
    at = np.arange(first, first + count, dtype=np.int64)
    if edge == "constant":
        return np.where((at >= 0) & (at < size), at, -1)
    if edge == "replicate":
        return np.clip(at, 0, size - 1)
    if edge == "wrap":
        return at % size
    # Reflections have a period of there and back.
    twice = edge == "reflect"
    period = 2 * size if twice else max(2 * size - 2, 1)
    at %= period
    return np.minimum(at, period - twice - at)


def runs_of(index: Index) -> Index:
    """Divide indices from `source_index` into runs of neighbours.

    Returns
    -------
    ndarray of int64, shape (m, 3)
        Of each run: beginning, first pixel or -1, and length.
    """
    # Within a run, pixels increase by one, and constants stay -1.
    breaks = np.flatnonzero(np.diff(index) != (index[:-1] >= 0)) + 1
    starts, ends = np.append(0, breaks), np.append(breaks, len(index))
    return np.stack([starts, index[starts], ends - starts], axis=1).astype(np.int64)


class Gather:
    """Copies images, or parts of them, with their padding.

    Parameters
    ----------
    rows, columns : ndarray of int64
        Source of each row and column of the copy, from `source_index`.
    axis : int
        Axis of the rows; the columns' axis follows.
    value : float, optional
        Value where rows or columns are -1.
    """

    def __init__(self, rows: Index, columns: Index, axis: int, value: float = 0.0) -> None:
        self._rows, self._value = rows, value
        self._before = (slice(None),) * axis
        self._axis = axis
        # The longest run of neighbours is copied as a block, columns on either side one by one.
        breaks = np.flatnonzero((np.diff(columns) != 1) | (columns[:-1] < 0)) + 1
        starts, ends = np.append(0, breaks), np.append(breaks, len(columns))
        longest = int(np.argmax(ends - starts))
        self._own = slice(int(starts[longest]), int(ends[longest]))
        first = int(columns[self._own.start])
        self._seen = slice(first, first + self._own.stop - self._own.start)
        sides = slice(0, self._own.start), slice(self._own.stop, len(columns))
        self._sides = [(side, columns[side]) for side in sides if side.start < side.stop]
        if first < 0:  # the copy has padding only
            self._sides, self._own = [(slice(0, len(columns)), columns)], slice(0, 0)
            self._seen = slice(0, 0)

    def __call__(self, image: Array, copy: Array, first: int = 0) -> None:
        """Fill a copy that begins at row `first`; elements are converted."""
        before = self._before
        rows = self._rows[first : first + copy.shape[self._axis]]
        # Consecutive rows are copied together.
        breaks = np.flatnonzero((np.diff(rows) != 1) | (rows[:-1] < 0)) + 1
        for at, end in itertools.pairwise([0, *breaks.tolist(), len(rows)]):
            some = copy[(*before, slice(at, end))]
            if rows[at] < 0:
                some[...] = self._value
            else:
                own = image[(*before, slice(rows[at], rows[end - 1] + 1))]
                self._copy_columns(own, some)

    def _copy_columns(self, image: Array, copy: Array) -> None:
        before = (*self._before, slice(None))
        np.copyto(copy[(*before, self._own)], image[(*before, self._seen)], casting="unsafe")
        for side, index in self._sides:
            copy[(*before, side)] = image.take(index, axis=self._axis + 1)
            if (index < 0).any():
                np.moveaxis(copy[(*before, side)], self._axis + 1, 0)[index < 0] = self._value

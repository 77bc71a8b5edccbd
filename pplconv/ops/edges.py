"""Pixels outside of an image: which of its own stand for them, and copies that have them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Gather", "runs_of", "source_index"]

Array = npt.NDArray[Any]
Index = npt.NDArray[np.int64]


def source_index(edge: str, first: int, count: int, size: int) -> Index:
    """Say which of an axis' `size` pixels stand at `first`, `first` + 1 and so on.

    Parameters
    ----------
    edge : {"constant", "replicate", "wrap", "reflect", "reflect101"}
        ``"reflect"`` has the pixel of the edge twice, ``"reflect101"`` once.
    first, count : int
        Places, which may lie outside of the image by any number of pixels.
    size : int
        Pixels of the axis, at least one.

    Returns
    -------
    ndarray of int64, shape (count,)
        -1 where the constant stands.
    """
    at = np.arange(first, first + count, dtype=np.int64)
    if edge == "constant":
        return np.where((at >= 0) & (at < size), at, -1)
    if edge == "replicate":
        return np.clip(at, 0, size - 1)
    if edge == "wrap":
        return at % size
    # Reflections repeat themselves after there and back.
    twice = edge == "reflect"
    period = 2 * size if twice else max(2 * size - 2, 1)
    at %= period
    return np.minimum(at, period - twice - at)


def runs_of(index: Index) -> Index:
    """Divide places, as from `source_index`, into runs of neighbours.

    Returns
    -------
    ndarray of int64, shape (m, 3)
        Where each run begins, which pixel stands there or -1, and how long it is.
    """
    # Pixels follow one another, constants are all -1.
    breaks = np.flatnonzero(np.diff(index) != (index[:-1] >= 0)) + 1
    starts, ends = np.append(0, breaks), np.append(breaks, len(index))
    return np.stack([starts, index[starts], ends - starts], axis=1).astype(np.int64)


class Gather:
    """Copies images, or parts of them, together with what stands for pixels outside.

    Parameters
    ----------
    rows, columns : ndarray of int64
        Which of the image's stand at each row and column of the copy, as from `source_index`.
    axis : int
        Of the rows; that of the columns follows.
    value : float, optional
        Where rows or columns are -1.
    """

    def __init__(self, rows: Index, columns: Index, axis: int, value: float = 0.0) -> None:
        self._rows, self._value = rows, value
        self._before = (slice(None),) * axis
        self._axis = axis
        # The longest run of neighbours is copied as it lies, what is on either side one by one.
        breaks = np.flatnonzero((np.diff(columns) != 1) | (columns[:-1] < 0)) + 1
        starts, ends = np.append(0, breaks), np.append(breaks, len(columns))
        longest = int(np.argmax(ends - starts))
        self._own = slice(int(starts[longest]), int(ends[longest]))
        first = int(columns[self._own.start])
        self._seen = slice(first, first + self._own.stop - self._own.start)
        sides = slice(0, self._own.start), slice(self._own.stop, len(columns))
        self._sides = [(side, columns[side]) for side in sides if side.start < side.stop]
        if first < 0:  # nothing of the image is seen
            self._sides, self._own = [(slice(0, len(columns)), columns)], slice(0, 0)
            self._seen = slice(0, 0)

    def __call__(self, image: Array, copy: Array, first: int = 0) -> None:
        """Fill a copy, of which row 0 is row `first` of all; elements are converted."""
        before = self._before
        rows = self._rows[first : first + copy.shape[self._axis]]
        # Rows that follow one another are copied together.
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

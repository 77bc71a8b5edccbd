"""Weights and places of taps that are summed up row by row, as `banded` gives them to the loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._records import NamedTuple

__all__ = ["RUNNING", "Taken", "neighbours_of", "taken_by_rows"]

Array = npt.NDArray[Any]

# Rows of a kernel from which on moving sums is less work than adding up.
RUNNING = 6
# Longest row or column that is built of sums: the loops have places for so many taps.
MOST_NEIGHBOURS = 1024
# Rows of a kernel up to which the loops take the whole column first, where rows lie in the image;
# if its taps are equal, the loops share sums, of up to so many rows.
MOST_COLUMN = 24
MOST_BOX_ROWS = 128


def neighbours_of(taps: Array, *, even: bool = False) -> tuple[int, int]:
    """How many neighbours of equal taps are summed up first, so that fewest additions are left.

    A sum of n taps is then one of n // m sums and of n % m single taps.

    Parameters
    ----------
    taps : ndarray
        Of a row or a column.
    even : bool
        Whether no single taps may be left.

    Returns
    -------
    many : int
        0 if taps differ, or the sums would be stored in vain.
    additions : int
        Taps of all sums.
    """
    count = len(taps)
    found = 0, count
    if count > MOST_NEIGHBOURS or (taps != taps[0]).any():
        return found
    # A store and its loads count as two.
    least = count - 2
    for many in range(2, count):
        left = count % many
        additions = many + count // many + left
        if additions < least and not (even and left):
            found, least = (many, additions), additions
    return found


def _split(taps: Array, many: int) -> tuple[Array, Array]:
    """Give weights of neighbours that are summed up first, and of single taps and these sums."""
    if not many:
        return taps[:0], taps
    sums = np.ones(len(taps) // many, taps.dtype)
    return taps[:many], np.concatenate([taps[: len(taps) % many], sums])


def _places_of(
    extent: tuple[int, int],
    passes: int,
    pitch: int,
    step: int,
    many: int,
    wide: int,
    wide_step: int,
) -> Array:
    """Give the places of taps: of a row and a column in sums of rows, or of a kernel in pixels.

    Rows lie in a ring, so the table goes round twice: the taps of a result are a part of it.

    Parameters
    ----------
    extent : (int, int)
        Rows and columns of the kernel.
    passes : int
        2 for a row and a column, else 1.
    pitch, step : int
        Bytes from row to row, and from column to column.
    many, wide, wide_step : int
        Neighbours of a row that are summed up first, or 0; where their sums begin behind the
        pixels, and bytes from one to the next.
    """
    height, across = extent[0], np.arange(extent[1]) * step
    down = np.arange(2 * height - 1) % height * pitch
    if passes == 1:
        return (down[:, None] + across).ravel()
    if not many:
        return np.concatenate([across, down])
    left = extent[1] % many
    sums = wide + np.arange(left, extent[1], many) * wide_step
    return np.concatenate([across[:many], across[:left], sums, down])


def _pitch_of(line: int) -> int:
    """Bytes from row to row: whole cache lines, in another set of the cache for each row."""
    lines = -(-line // 64)
    return 64 * (lines + (lines % 16 == 0))


class Taken(NamedTuple):
    """What the loops take.

    Parameters
    ----------
    places, weights : ndarray
        Of taps, in the order of the passes.
    pitch : int
        Bytes from row to row of what the last pass reads.
    first : (int, int)
        Neighbours of a row and of a column that are summed up first, or 0.
    wide : int
        Bytes of pixels before such sums of a row.
    running : bool
        Whether sums of columns are moved.
    box : (bool, bool)
        Whether the taps of the row, and those of the column, are equal, so that their sums are
        shared.
    column_first : bool
        Whether the column may come before the row: it is short, and rows lie in the image.
    """

    places: Array
    weights: Array
    pitch: int
    first: tuple[int, int]
    wide: int
    running: bool
    box: tuple[bool, bool]
    column_first: bool


def taken_by_rows(
    extent: tuple[int, int], passes: int, weights: Array, words: bool, *, running: bool | None,
    is_open: bool, in_place: bool, width: int, columns: int, channels: int, pixel: int,
) -> Taken:  # fmt: skip
    """Lay out the taps of one kernel.

    Parameters
    ----------
    extent : (int, int)
        Rows and columns of the kernel.
    passes : int
        2 for a row and a column, else 1.
    weights : ndarray
        Of the row and the column, or of all taps row by row.
    words : bool
        Whether pixels are bytes and sums of 16 bits.
    running : bool, optional
        Whether sums of columns are to be moved; None where they are if they can be.
    is_open : bool
        Whether sums may leave a rounding open.
    in_place : bool
        Whether the image and the results are of the type of sums.
    width : int
        Numbers of a row of results.
    columns, channels, pixel : int
        Pixels of a row of a band, their channels, and bytes of a number of these.

    Raises
    ------
    ValueError
        If they do not go together.
    """
    two, size = passes == 2, weights.itemsize
    row, column = weights[: extent[1]], weights[extent[1] :]
    can = two and extent[0] >= RUNNING and bool((column == column[0]).all())
    if running and not can:
        raise ValueError("sums are moved along a long column of equal taps")
    running = can if running is None else running
    step = channels * pixel
    pitch = _pitch_of(width * size if two else columns * step)
    first = 0, 0
    shares = can and in_place and not running and extent[0] <= MOST_BOX_ROWS
    column_first = two and in_place and extent[0] <= MOST_COLUMN
    box = shares and bool((row == row[0]).all()), shares
    if two and not is_open:
        first = (
            neighbours_of(row, even=words)[0],
            0 if running or words else neighbours_of(column)[0],
        )
        if shares or (first[0] and column_first):
            first = first[0], 0
    if two:
        parts = *_split(row, first[0]), *_split(column, first[1])[::-1]
        one = column[: 1 if running else 0]
        weights = np.concatenate([*parts, np.ones(len(one), weights.dtype), -one, one])
    wide = -(-columns * step // 64) * 64
    places = _places_of(extent, passes, pitch, step, first[0], wide, channels * size)
    return Taken(places, weights, pitch, first, wide, running, box, column_first)

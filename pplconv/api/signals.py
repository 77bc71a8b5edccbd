"""What `conv1d` and `conv_transpose1d` share: signals as images of one row."""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from .._checks import one_of, shown
from .._literals import Layout
from .._records import NamedTuple
from ..arguments import checks
from ..memory.array_like import array_of

__all__ = ["LAYOUTS", "Number", "Rows", "number", "row_padding", "rows_of"]

Array = npt.NDArray[Any]
Number = SupportsIndex | tuple[SupportsIndex] | list[int]


class Rows(NamedTuple):
    """A layout of signals in terms of images of one row.

    Parameters
    ----------
    layout : str
        Of signals.
    images : str
        Of images.
    samples, row, channels : int
        Axes: of samples and channels in signals, and of the row in images.
    as_images, as_signals : tuple
        Indices that give signals a row, and that take it away.
    """

    layout: str
    images: Layout
    samples: int
    row: int
    channels: int
    as_images: tuple[Any, ...]
    as_signals: tuple[Any, ...]

    def check_input(self, x: Array, channels: int, groups: int) -> None:
        """Check the shape of an input.

        Raises
        ------
        ValueError
            If it is not one of signals of so many channels.
        """
        if x.ndim not in (2, 3):
            wanted = "(N, C, W) or (C, W)" if self.layout == "NCW" else "(N, W, C) or (W, C)"
            raise ValueError(
                f"input must have shape {wanted} with layout {self.layout}, got {x.shape}"
            )
        if x.shape[self.channels] != channels:
            raise ValueError(
                f"input must have {channels} channels (weight has {channels // groups} for "
                f"each of {groups} groups), got {x.shape[self.channels]} in shape {x.shape} with "
                f"layout {self.layout}"
            )
        if not x.shape[self.samples]:
            raise ValueError(
                f"input must not be empty, got shape {x.shape} with layout {self.layout}"
            )

    def result_shape(self, x: Array, channels: int, samples: int) -> tuple[int, ...]:
        """Give the shape of signals like those of an input."""
        shape = list(x.shape)
        shape[self.samples], shape[self.channels] = max(samples, 0), channels
        return tuple(shape)

    def as_row(self, name: str, value: Any, shape: tuple[int, ...]) -> Any:
        """Give an array of the output's shape a row; the message for others has 1-D shapes."""
        if value is None or not issubclass(type(value), np.ndarray):
            return value  # others than None are refused
        array = array_of(value, name)
        if array.shape != shape and shape[self.samples] > 0:
            raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
        return np.expand_dims(array, self.row)


_ALL = slice(None)
_ROWS = {
    rows.layout: rows
    for rows in (
        Rows("NCW", "NCHW", -1, -2, -2, (..., None, _ALL), (..., 0, _ALL)),
        Rows("NWC", "NHWC", -2, -3, -1, (..., None, _ALL, _ALL), (..., 0, _ALL, _ALL)),
    )
}
LAYOUTS = tuple(_ROWS)


def rows_of(layout: object) -> Rows:
    """Return a layout of signals.

    Raises
    ------
    ValueError
        If it is none.
    """
    return _ROWS[one_of("layout", layout, LAYOUTS)]


def number(name: str, value: Any, minimum: int = 1) -> int:
    """Return an int, or the one in a tuple.

    Raises
    ------
    TypeError, ValueError
        If it is no integer of at least `minimum`.
    """
    if isinstance(value, (tuple, list)) and len(value) == 1:
        value = value[0]
    return checks.integer(name, value, minimum)


def row_padding(value: Any) -> Any:
    """Turn padding of a signal into padding of an image of one row.

    Raises
    ------
    TypeError, ValueError
        If it is of no known form; words are checked for the image.
    """
    if isinstance(value, str):
        return value
    sides = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(sides) not in (1, 2):
        raise ValueError(f"padding must be {checks.PADDING_FORMS[1]} or a word, got {shown(value)}")
    left, right = (checks.integer("padding", side, 0) for side in (sides[0], sides[-1]))
    return (0, 0), (left, right)

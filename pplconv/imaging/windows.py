"""What single outputs of a filter see: pixels, and what stands for those beyond the border."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Windows"]

Array = npt.NDArray[Any]
Index = npt.NDArray[np.int64]

# Numbers that are looked at together.
TOGETHER = 1 << 18


class Windows:
    """The windows of all outputs.

    Parameters
    ----------
    image : ndarray, shape (H, W, C)
        In any strides.
    rows, columns : ndarray of int64
        Which rows and columns of the image the outputs see, -1 where `value` stands.
    value : number
        Beyond the image.
    extent : (int, int)
        Rows and columns of a window.
    """

    def __init__(
        self, image: Array, rows: Index, columns: Index, value: float, extent: tuple[int, int]
    ) -> None:
        self.rows, self.columns = rows, columns
        self._image, self._value = image, value
        down, across = np.indices(extent)
        self._down, self._across = down.ravel(), across.ravel()

    def of(
        self, rows: Index, columns: Index, channels: Index
    ) -> Iterator[tuple[slice, npt.NDArray[np.float64]]]:
        """Give the windows of some outputs, (m, taps), part by part."""
        step = max(TOGETHER // len(self._down), 1)
        for first in range(0, len(rows), step):
            some = slice(first, first + step)
            at = self.rows[rows[some, None] + self._down]
            beside = self.columns[columns[some, None] + self._across]
            pixels = self._image[at, beside, channels[some, None]].astype(np.float64)
            pixels[(at < 0) | (beside < 0)] = self._value
            yield some, pixels

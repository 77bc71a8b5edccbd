"""What makes sums of a band: a bank of kernels, or two vectors one after the other."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..api.conv import Conv2d
from ..runtime import ForkableLock

__all__ = ["Bank", "Operator", "Separable"]

Array = npt.NDArray[Any]

# Prepared convolutions that are kept, the latest used last.
KEPT = 32
_kept: OrderedDict[Any, Conv2d] = OrderedDict()
_lock = ForkableLock()


def _prepared(bank: Array, channels: int) -> Conv2d:
    """Give the convolution of one plane by a bank (n, kh, kw); its taps are `channels` apart."""
    key = bank.tobytes(), bank.shape, bank.dtype.char, channels
    with _lock:
        found = _kept.get(key)
        if found is not None:
            _kept.move_to_end(key)
            return found
    # Threads have bands of their own. Sums are direct: the same for every band.
    made = Conv2d(bank[:, None], dilation=(1, channels), tolerance=0, precision=None, threads=1)
    with _lock:
        _kept[key] = made
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return made


class Operator(Protocol):
    """Makes sums of a band."""

    dtype: np.dtype[Any]
    """Of band and sums, float32 or float64."""

    extent: tuple[int, int]
    """Rows and columns of the kernel."""

    def __call__(self, band: Array, sums: Array) -> None:
        """Sum up.

        Parameters
        ----------
        band : ndarray, shape (rows + kh - 1, (columns + kw - 1) * C)
            Contiguous.
        sums : ndarray, shape (n, rows, columns * C)
            Contiguous; written.
        """


class Bank:
    """Correlation with each of a bank of kernels.

    Parameters
    ----------
    bank : ndarray, shape (n, kh, kw)
        float32 or float64.
    channels : int
        Channels of a pixel.
    """

    def __init__(self, bank: Array, channels: int) -> None:
        self.dtype = bank.dtype
        self.extent: tuple[int, int] = bank.shape[1:]
        self._conv = _prepared(bank, channels)

    def __call__(self, band: Array, sums: Array) -> None:
        """Sum up."""
        self._conv(band[None], out=sums)


class Separable:
    """Correlation with a row, then with a column.

    Parameters
    ----------
    down, across : ndarray, shape (kh,) and (kw,)
        float32 or float64.
    channels : int
        Channels of a pixel.
    """

    def __init__(self, down: Array, across: Array, channels: int) -> None:
        self.dtype = down.dtype
        self.extent = len(down), len(across)
        self._across = _prepared(across[None, None], channels)
        self._down = _prepared(down[None, :, None], 1)

    def __call__(self, band: Array, sums: Array) -> None:
        """Sum up."""
        self._down(self._across(band[None]), out=sums)

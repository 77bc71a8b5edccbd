"""Operators that make the sums of a band: a bank of kernels, or two vectors in turn."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .. import planner
from ..api.conv import Conv2d
from ..numerics import numerics_of
from .banded import RowSums
from .tap_places import RUNNING, neighbours_of

__all__ = ["Bank", "Operator", "Separable"]

Array = npt.NDArray[Any]
# Rows above and below, numbers to the left and to the right.
Padding = tuple[tuple[int, int], tuple[int, int]]

# Taps of a kernel, and of a row and a column together, up to which sums are made row by row.
MOST_TAPS = 16
MOST_VECTORS = 12
# The same where sums are results of float32, which are made in blocks of rows. With AVX2 these take
# 0.7 to 0.9 of the time of two convolutions, whose kernels share nothing along a row, for a row and
# a column of up to some 128 taps (AMD EPYC 25-1); with others, that was measured for some 24.
MOST_BLOCK_TAPS = 121
MOST_BLOCK_VECTORS = {"avx2": 256}
MOST_OTHER_VECTORS = 48
# Rows of taps of such sums that are rounded.
MOST_ROWS = 32
# Taps of a row of a box whose columns are moved.
MOST_ACROSS = 24


def _most_vectors() -> int:
    """Most taps of a row and a column whose sums are made in blocks of rows."""
    isa = planner.best_isa(numerics_of("f32", "f32"))
    return MOST_BLOCK_VECTORS.get(isa or "", MOST_OTHER_VECTORS)


def _prepared(
    bank: Array, channels: int, padding: Padding = ((0, 0), (0, 0)), threads: int = 1
) -> Conv2d:
    """Prepare a convolution of one plane by a bank (n, kh, kw), with taps `channels` apart."""
    # Sums are direct: the same for every band, and for the image as a whole.
    return Conv2d(
        bank[:, None], dilation=(1, channels), padding=padding, tolerance=0, precision=None,
        threads=threads, sparse=False,  # zero taps must let NaN through
    )  # fmt: skip


class Operator(Protocol):
    """Makes the sums of a band."""

    dtype: np.dtype[Any]
    """Type of band and sums, float32 or float64."""

    extent: tuple[int, int]
    """Rows and columns of the kernel."""

    products: int
    """Of each sum."""

    @property
    def row_sums(self) -> RowSums | None:
        """Taps of sums that may be made row by row."""

    @property
    def block_sums(self) -> RowSums | None:
        """Taps of sums that may be made in blocks of rows: results of float32."""

    def rounded_sums(self, *, exact: bool, paired: bool) -> RowSums | None:
        """Taps of results of integers, in blocks of rows or, where `paired`, by pairs."""

    @property
    def convolutions(self) -> tuple[Conv2d, ...]:
        """Of a plane of (rows + kh - 1, (columns + kw - 1) * C) numbers, one after the other."""


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
        self.products = self.extent[0] * self.extent[1]
        self._bank, self._channels = bank, channels
        self._whole: tuple[Any, Conv2d] | None = None

    @cached_property
    def convolutions(self) -> tuple[Conv2d, ...]:
        """The convolution that each band runs."""
        return (_prepared(self._bank, self._channels),)

    @property
    def row_sums(self) -> RowSums | None:
        """Taps of one small kernel."""
        if len(self._bank) > 1 or self.products > MOST_TAPS:
            return None
        return RowSums(self._bank.ravel(), 1)

    @property
    def block_sums(self) -> RowSums | None:
        """Taps of one kernel."""
        if len(self._bank) > 1 or self.products > MOST_BLOCK_TAPS:
            return None
        return RowSums(self._bank.ravel(), 1)

    def rounded_sums(self, *, exact: bool, paired: bool) -> RowSums | None:
        """Taps of one kernel of few rows; blocks of rows would share nothing in float64."""
        if self.extent[0] > MOST_ROWS or not (paired or self.dtype == np.float32):
            return None
        return self.block_sums

    @property
    def is_finite(self) -> bool:
        """Whether all taps are finite, so that zeros times taps are zeros."""
        return bool(np.isfinite(self._bank).all())

    def on_image(self, plane: Array, sums: Array, padding: Padding, team: int) -> None:
        """Make the sums of an image where it lies, with zeros around it.

        Parameters
        ----------
        plane : ndarray, shape (H, W * C)
            Contiguous.
        sums : ndarray, shape (n, rows, columns * C)
            Contiguous; written.
        padding : pair of pairs of int
            Zeros on the four sides.
        team : int
            Threads, at most.
        """
        made = self._whole
        if made is None or made[0] != (padding, team):
            conv = _prepared(self._bank, self._channels, padding, team)
            made = self._whole = (padding, team), conv
        made[1](plane[None], out=sums)


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
        self.products = len(down) + len(across)
        self._down, self._across, self._channels = down, across, channels
        # Of a column and a row.
        self._additions = neighbours_of(down)[1], neighbours_of(across)[1]

    @property
    def row_sums(self) -> RowSums | None:
        """Taps of a short row and a short column, or of equal ones."""
        if self._additions[0] + self._additions[1] > max(MOST_VECTORS, 2 * self.products // 3):
            return None
        return RowSums(np.concatenate([self._across, self._down]), 2)

    @property
    def block_sums(self) -> RowSums | None:
        """Taps of a row and a column that are not long; those of `row_sums` of equal ones."""
        if sum(self._additions) < self.products or self.products > _most_vectors():
            return self.row_sums
        return RowSums(np.concatenate([self._across, self._down]), 2)

    def rounded_sums(self, *, exact: bool, paired: bool) -> RowSums | None:
        """Taps of a row and a column; exact ones of equal taps have fewer additions otherwise."""
        if self.extent[0] > MOST_ROWS or self.products > _most_vectors():
            return None
        if exact and sum(self._additions) < self.products:
            return None
        return RowSums(np.concatenate([self._across, self._down]), 2)

    @property
    def running_sums(self) -> RowSums | None:
        """Taps of a short row and of a column of equal taps, for exact sums."""
        down, across = self._down, self._across
        if self._additions[1] > MOST_ACROSS or len(down) < RUNNING or not (down == down[0]).all():
            return None
        return RowSums(np.concatenate([across, down]), 2, running=True)

    @cached_property
    def convolutions(self) -> tuple[Conv2d, ...]:
        """The convolutions that each band runs."""
        return (
            _prepared(self._across[None, None], self._channels),
            _prepared(self._down[None, :, None], 1),
        )

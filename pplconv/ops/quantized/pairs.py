"""Which kinds of product given weights permit: whether pairs of products fit 16 bits.

x86 machines without VNNI have ``vpmaddubsw``, which adds up two products of unsigned and signed
bytes in 16 bits, and saturates where the sum does not fit. It fits, whatever
the unsigned bytes are, if the positive ones of both weights add up to no more than 128, and the
negative ones to no less than -128: 255 * 128 is 32640. Weights of seven bits always do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import planner
from ...numerics import integer_permission, numerics_of

__all__ = ["pairs_fit", "product_permission"]

LARGEST = 128  # of the sum of a pair of weights, and of the negative one

# Weights checked together: most weights that do not fit show it in the first piece.
_PIECE = 1 << 16


def pairs_fit(weight: NDArray[np.int8]) -> bool:
    """Say whether no two products that kernels add up first pass 16 bits.

    Kernels take four k at a time, and the first and the last two of these as pairs. k runs over the
    channels of a tap, anew from group to group or on from tap to tap: where channels are even the
    pairs are the same. Where they are odd all neighbours count, as pairs that run on begin at
    either parity.

    Parameters
    ----------
    weight : ndarray of int8, shape (oc, ic / groups, kh, kw)
        Weights, zero points taken away.

    Returns
    -------
    bool
    """
    oc, ic, kh, kw = weight.shape
    taps = kh * kw
    rows = weight.reshape(oc, ic, taps)
    step = max(1, _PIECE // max(1, ic * taps))
    return all(_rows_fit(rows[first : first + step]) for first in range(0, oc, step))


def _rows_fit(rows: NDArray[np.int8]) -> bool:
    """Whether all pairs of some output channels, (oc, ic, taps), fit."""
    if not rows.size or (rows.max() <= LARGEST // 2 and rows.min() >= -LARGEST // 2):
        return True
    _, ic, taps = rows.shape
    # Two weights of different signs never add up beyond the limits, so checking sums suffices.
    if ic % 2 == 0 or taps == 1:
        pairs = rows[:, : ic - 1 : 2].astype(np.int16) + rows[:, 1::2]
    else:
        along = rows.transpose(0, 2, 1).reshape(len(rows), -1)
        pairs = along[:, :-1].astype(np.int16) + along[:, 1:]
    return not pairs.size or bool(pairs.max() <= LARGEST and pairs.min() >= -LARGEST)


def product_permission(storage: str, weight: NDArray[Any], groups: int) -> tuple[str, ...]:
    """Kinds of product that compute convolution of bytes by these weights.

    Weights are checked only on machines that have products by pairs and no faster products of
    bytes. Elsewhere problems do not depend on their values.

    Parameters
    ----------
    storage : str
        Of the input, ``"u8"`` or ``"s8"``.
    weight : ndarray of int8 or int16, shape (oc, ic / groups, kh, kw)
        Weights, zero points taken away.
    groups : int

    Returns
    -------
    tuple of str
        As `ConvProblem.permitted`.
    """
    bytes_alone = weight.dtype == np.int8
    depthwise = weight.shape[1] == 1 < groups
    pairs = bytes_alone and _counts_pairs(storage) and pairs_fit(weight)
    return integer_permission(storage, "s8" if bytes_alone else "s16", depthwise, pairs)


def _counts_pairs(storage: str) -> bool:
    """Whether the machine has products by pairs, and none of four bytes but portable ones."""
    if planner.best_isa(numerics_of(storage, "u8")) != "portable":
        return False
    return planner.best_isa(numerics_of(storage, "u8p")) is not None

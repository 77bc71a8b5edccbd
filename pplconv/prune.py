"""Weights pruned by magnitude, to try how much speed sparse weights would gain.

=============  ===================================================================================
``magnitude``  the smallest weights, or blocks of them, become zeros
=============  ===================================================================================

Networks that are pruned like this lose accuracy: prune a network for use while it is trained.
``python -m pplconv prune`` prunes all layers of an ONNX network, and shows what each would gain;
docs/sparse.md has more.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._checks import integer, shown
from .memory.array_like import array_of, is_bfloat16, renewed
from .sparsity import checked_block

__all__ = ["magnitude"]

Array = NDArray[Any]

# Weights processed at a time.
_PIECE = 1 << 20


def magnitude(
    weight: Any, density: float, block: tuple[int, int] = (1, 4), *, groups: int = 1
) -> NDArray[Any]:
    """Make the weights of the smallest magnitude zeros.

    Parameters
    ----------
    weight : array_like, shape (oc, ...)
        float16, bfloat16, float32 or float64, of two dimensions or more, as `pplconv.Conv2d` and
        `pplconv.Linear` take them. Not written to.
    density : float
        Share of the blocks that stay, from 0 to 1.
    block : (1, N), optional
        N neighbouring output channels stay or go together: 1, 4, 8 or 16. The remaining channels
        of a group, beyond whole blocks, are pruned one by one.
    groups : int, optional
        Groups of output channels, which blocks do not cross.

    Returns
    -------
    ndarray
        Of the shape and type of `weight`. Of n blocks ``floor(density * n + 0.5)`` stay: the blocks
        with the largest L2 norm, and among equal blocks the first ones in memory. Weights outside
        blocks are counted separately by the same rule. NaN counts as infinite.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> weight = np.arange(24, dtype=np.float32).reshape(8, 3)
    >>> pplconv.prune.magnitude(weight, 0.5).nonzero()[0].tolist()
    [4, 4, 4, 5, 5, 5, 6, 6, 6, 7, 7, 7]
    """
    array = array_of(weight, "weight")
    if array.dtype.kind != "f" and not is_bfloat16(array):
        raise TypeError(f"weight must be of floating point, got dtype {array.dtype}")
    share = _share(density)
    _, width = checked_block(block)
    groups = integer("groups", groups, 1)
    array = renewed(weight, array)
    if array.ndim < 2 or not array.size:
        raise ValueError(f"weight must be (oc, ...) and not empty, got shape {array.shape}")
    if array.shape[0] % groups:
        raise ValueError(f"groups must divide the {array.shape[0]} output channels, got {groups}")
    pruned = np.array(array, array.dtype.newbyteorder("="), order="C")
    rows = pruned.reshape(groups, array.shape[0] // groups, -1)
    whole = rows.shape[1] // width * width
    for part, together in ((rows[:, :whole], width), (rows[:, whole:], 1)):
        if part.size:
            _prune(part, together, share)
    return pruned


def _prune(rows: Array, width: int, share: float) -> None:
    """Prune (groups, output channels, k) in place, in blocks of `width` channels."""
    groups, channels, k = rows.shape
    sizes = _sizes(rows.reshape(groups, channels // width, width, k))
    keep = math.floor(share * sizes.size + 0.5)
    stay = _largest(sizes.reshape(-1), keep).reshape(sizes.shape)
    rows[~np.repeat(stay, width, axis=1)] = 0


def _sizes(blocks: Array) -> NDArray[np.float64]:
    """Sums of squares of (groups, blocks, width, k) over the width, up to a common factor."""
    groups, count, width, k = blocks.shape
    sums = np.empty((groups, count, k))
    step = max(1, _PIECE // (groups * width * k))
    parts = [slice(first, first + step) for first in range(0, count, step)]
    # Scaled, so that squares of very large and very small numbers are not lost.
    largest = max(_largest_finite(_magnitudes(blocks[:, part])) for part in parts)
    for part in parts:
        sums[:, part] = np.square(_magnitudes(blocks[:, part]) / (largest or 1.0)).sum(2)
    return sums


def _magnitudes(values: Array) -> NDArray[np.float64]:
    """Absolute values; that of NaN is infinite."""
    with np.errstate(invalid="ignore"):
        found: NDArray[np.float64] = np.abs(values.astype(np.float64))
    found[np.isnan(found)] = np.inf
    return found


def _largest_finite(values: NDArray[np.float64]) -> float:
    return float(values.max(initial=0.0, where=np.isfinite(values)))


def _largest(sizes: NDArray[np.float64], keep: int) -> NDArray[np.bool_]:
    """Mark the `keep` largest numbers; among equal numbers, the first ones."""
    if keep == 0:
        return np.zeros(sizes.shape, np.bool_)
    least = np.partition(sizes, sizes.size - keep)[sizes.size - keep]
    stay: NDArray[np.bool_] = np.greater(sizes, least)
    equal = np.flatnonzero(sizes == least)
    stay[equal[: keep - np.count_nonzero(stay)]] = True
    return stay


def _share(density: object) -> float:
    complaint = f"density must be a number from 0 to 1, got {shown(density)}"
    if isinstance(density, (bool, str)):
        raise TypeError(complaint)
    try:
        share = float(density)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TypeError(complaint) from None
    if not 0 <= share <= 1:
        raise ValueError(complaint)
    return share

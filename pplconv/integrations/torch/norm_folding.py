"""A batch normalization in the weights of the convolution before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def folded(
    weight: Array,
    bias: Array | None,
    numbers: Sequence[Array | None],
    eps: float,
    axis: int,
) -> tuple[Array, Array]:
    """Fold a normalization with constant statistics into a convolution.

    Parameters
    ----------
    weight : ndarray
        Weights of the convolution.
    bias : ndarray, optional
        Bias of the convolution.
    numbers : sequence of 4 ndarray
        Scale, shift, mean and variance for each output channel; scale and shift may be None.
    eps : float
        Added to the variance.
    axis : int
        Axis of the output channels in `weight`.

    Returns
    -------
    weight, bias : ndarray
        New arrays of the type of `weight`, computed in float64.
    """
    scale, shift, mean, variance = numbers
    assert mean is not None and variance is not None
    factor = 1 / np.sqrt(variance.astype(np.float64) + eps)
    if scale is not None:
        factor = factor * scale
    moved = -mean * factor if bias is None else (bias - mean.astype(np.float64)) * factor
    if shift is not None:
        moved = moved + shift
    shape = [1] * weight.ndim
    shape[axis] = -1
    return (weight * factor.reshape(shape)).astype(weight.dtype), moved.astype(weight.dtype)

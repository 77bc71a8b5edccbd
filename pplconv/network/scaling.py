"""Weights times factors of channels, computed at each request and not kept.

The weights are needed when they are packed, and again for other shapes of the inputs.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ..memory.mapping import blocks, fresh_pages, release
from .values import wide

__all__ = ["ScaledTensor", "scaled", "stays_finite"]

Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.float64]

# Smaller tensors are scaled at once.
_LEAST_BYTES = 1 << 16


class ScaledTensor(ir.LazyTensor):
    """A tensor times factors, in the tensor's own type.

    Products are made in float64 and rounded once; they are finite (`stays_finite`).

    Parameters
    ----------
    tensor : ir.TensorProtocol
        Tensor to scale, of two dimensions or more.
    factors : ndarray of float64
        Shape (G, 1) or (G, columns): for each group of rows one number, or one for each column.

    Attributes
    ----------
    source : ir.TensorProtocol
        Tensor to scale.
    """

    __slots__ = ("_factors", "_found", "source")

    def __init__(self, tensor: ir.TensorProtocol, factors: Numbers) -> None:
        super().__init__(lambda: ir.Tensor(self.numpy()), tensor.dtype, ir.Shape(tensor.shape))
        self.source = tensor
        self._factors = factors
        self._found: Any = None

    def numpy(self) -> Array:
        """Compute the array, or give an earlier result that is still alive."""
        found: Array | None = None if self._found is None else self._found()
        if found is None:
            source: Array = self.source.numpy()
            found = fresh_pages(source.shape, source.dtype)
            for rows, part in _products(source, self._factors):
                found[rows] = part
            found.flags.writeable = False
            self._found = weakref.ref(found)
        return found


def scaled(tensor: ir.TensorProtocol, factors: Numbers) -> ir.TensorProtocol:
    """Scale a tensor: at once if it is small, else at each request.

    Parameters
    ----------
    tensor, factors
        As for `ScaledTensor`.

    Returns
    -------
    ir.TensorProtocol
    """
    lazy = ScaledTensor(tensor, factors)
    return lazy if lazy.nbytes >= _LEAST_BYTES else ir.Tensor(lazy.numpy())


def stays_finite(tensor: ir.TensorProtocol, factors: Numbers) -> bool:
    """Tell whether all numbers of a scaled tensor are finite.

    Parameters
    ----------
    tensor, factors
        As for `ScaledTensor`.

    Returns
    -------
    bool
    """
    source = tensor.numpy()
    if _are_small(source, factors):
        return True
    return all(bool(np.isfinite(part).all()) for _, part in _products(source, factors))


def _are_small(source: Array, factors: Numbers) -> bool:
    """Tell whether the largest weight times the largest factor is far from infinite.

    Nearly all weights are that small, and need no products to be found finite.
    """
    if source.dtype.kind != "f" or not source.size or not source.ndim or not factors.size:
        return False
    largest = 0.0
    for rows in blocks(source):
        # `maximum` keeps NaN, which is not less than any bound.
        largest = np.maximum(largest, np.abs([source[rows].max(), source[rows].min()]).max())
        release(source[rows])
    with np.errstate(all="ignore"):
        return bool(float(largest) * np.abs(factors).max() < np.finfo(source.dtype).max / 2)


def _products(source: Array, factors: Numbers) -> Iterator[tuple[slice, Array]]:
    """Yield scaled rows in blocks; pages of mapped files are released."""
    of_a_group = max(1, len(source) // len(factors))
    tail = (1,) * (source.ndim - 2)
    for rows in blocks(source):
        groups = np.arange(rows.start, rows.stop) // of_a_group
        factor = factors[groups].reshape(len(groups), -1, *tail)
        with np.errstate(all="ignore"):
            product = (wide(source[rows]) * factor).astype(source.dtype)
        release(source[rows])
        yield rows, product

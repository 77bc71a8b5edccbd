"""Weights times factors of channels, computed at each request and not kept.

The weights are needed when they are packed, and again for other shapes of the inputs.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..memory.mapping import blocks, fresh_pages, release
from .onnx_later import ir
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
    factors : ndarray of float64
        The factors.
    """

    __slots__ = ("_found", "_largest", "factors", "source")

    def __init__(self, tensor: ir.TensorProtocol, factors: Numbers) -> None:
        super().__init__(lambda: ir.Tensor(self.numpy()), tensor.dtype, ir.Shape(tensor.shape))
        self.source = tensor
        self.factors = factors
        self._found: Any = None
        self._largest: float | None = None

    @property
    def largest(self) -> float:
        """A bound of the magnitudes, without a look at the products; NaN if it is not known."""
        if self._largest is None:
            factor = float(np.abs(self.factors).max()) if self.factors.size else math.nan
            self._largest = _largest(self.source) * factor
        return self._largest

    def numpy(self) -> Array:
        """Compute the array, or give an earlier result that is still alive."""
        found: Array | None = None if self._found is None else self._found()
        if found is None:
            source: Array = self.source.numpy()
            found = fresh_pages(source.shape, source.dtype)
            for rows, part in _products(source, self.factors):
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
        The tensor itself, if all factors are 1: of an offset.
    """
    if (factors == 1).all():
        return tensor
    if isinstance(tensor, ScaledTensor):
        # One product for each weight, rounded once.
        with np.errstate(all="ignore"):
            both = _joined(tensor.factors, factors)
        if both is not None and np.isfinite(both).all():
            tensor, factors = tensor.source, both
    lazy = ScaledTensor(tensor, factors)
    return lazy if lazy.nbytes >= _LEAST_BYTES else ir.Tensor(lazy.numpy())


def _joined(first: Numbers, second: Numbers) -> Numbers | None:
    """Give the products of two factors of each row and column; None if groups overlap."""
    few, many = sorted((first, second), key=len)
    if len(many) % len(few):
        return None
    each: Numbers = np.repeat(few, len(many) // len(few), axis=0)
    return each * many


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
    # Nearly all weights are far from infinite, and need no products to be found finite.
    with np.errstate(all="ignore"):
        most = _largest(tensor) * float(np.abs(factors).max()) if factors.size else math.nan
    if most < float(np.finfo(tensor.dtype.numpy()).max) / 2:
        return True
    return all(bool(np.isfinite(part).all()) for _, part in _products(tensor.numpy(), factors))


def _largest(tensor: ir.TensorProtocol) -> float:
    """Give the largest magnitude of a tensor, or a bound of it; NaN if it is not known."""
    if isinstance(tensor, ScaledTensor):
        return tensor.largest
    source: Array = tensor.numpy()
    if source.dtype.kind != "f" or not source.size or not source.ndim:
        return math.nan
    largest = 0.0
    for rows in blocks(source):
        # `maximum` keeps NaN, which is not less than any bound.
        largest = np.maximum(largest, np.abs([source[rows].max(), source[rows].min()]).max())
        release(source[rows])
    return float(largest)


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

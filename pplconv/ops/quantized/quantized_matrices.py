"""Quantized products: scales and zero points of rows and columns, and their outputs.

Kernels take one zero point of the left matrices, and numbers for each column. ONNX also allows
numbers for each row of the left matrix: then kernels compute exact sums, and NumPy the outputs, by
the same contract.
"""

from __future__ import annotations

import numpy as np

from ..._records import record
from . import quantization
from .quantization import Array

Shape = tuple[int, ...]


@record(frozen=True)
class Side:
    """Scales and zero points of one operand or of the result, ready for broadcasting.

    Parameters
    ----------
    zeros : ndarray of int64
        Zero points.
    scale : ndarray of float32, optional
        Scales; None if there are none.
    """

    zeros: Array
    scale: Array | None

    @property
    def single(self) -> bool:
        """Whether one scale and zero point hold for all elements."""
        return self.zeros.size == 1 and (self.scale is None or self.scale.size == 1)


def rows_of(shape: Shape) -> tuple[Shape, ...]:
    """Shapes of one number for each row: of one matrix (M,), else (..., M, 1)."""
    return _shapes(shape, shape[-2], (*shape[:-1], 1))


def columns_of(shape: Shape) -> tuple[Shape, ...]:
    """Shapes of one number for each column: of one matrix (N,), else (..., 1, N)."""
    return _shapes(shape, shape[-1], (*shape[:-2], 1, shape[-1]))


def _shapes(shape: Shape, size: int, full: Shape) -> tuple[Shape, ...]:
    return ((size,), full) if len(shape) == 2 else (full,)


def by_rows(values: Array) -> Array:
    """View numbers of rows as a column."""
    return values.reshape(-1, 1) if values.ndim == 1 else values


def side(
    prefix: str, kind: str, zeros: object, scale: object, shapes: tuple[Shape, ...], *, rows: bool
) -> Side:
    """Check scales and zero points of one matrix.

    Parameters
    ----------
    prefix : str
        Name of the matrix, the prefix of the arguments' names.
    kind : {"u8", "s8"}
        Type of its elements.
    zeros, scale : object
        The caller's arguments; a scale of ``...`` means that the operator has none.
    shapes : tuple of tuple of int
        As `rows_of` and `columns_of` give them.
    rows : bool
        Whether they are those of rows.

    Raises
    ------
    TypeError, ValueError
        If one is wrong; the message names it.
    """

    def each(values: Array) -> Array:
        if values.size == 1:
            return values.reshape(())
        return by_rows(values) if rows else values

    found = quantization.zero_points(f"{prefix}_zero_point", zeros, kind, *shapes)
    if scale is ...:
        return Side(each(found), None)
    return Side(each(found), each(quantization.scales(f"{prefix}_scale", scale, *shapes)))


def check_sums(a_kind: str, a_zeros: Array, b: Array, offset: Array) -> None:
    """Refuse matrices with which a sum could leave int32 for some left matrix.

    Raises
    ------
    ValueError
        If some sum could be too large.
    """
    zeros = (int(a_zeros.min()), int(a_zeros.max())) if a_zeros.size else (0, 0)
    quantization.check_sums("b", b, -2, a_kind, zeros, offset)


def moved_by_rows(sums: Array, a_zeros: Array, b: Array, offset: Array) -> Array:
    """Give sums with the zero points of each row of the left matrices subtracted.

    Parameters
    ----------
    sums : ndarray of int32
        Of the left matrices as they are, in integers modulo 2**32.
    a_zeros : ndarray of int64
        Zero points of rows.
    b : ndarray
        Right matrices without their zero points.
    offset : ndarray of int32
        The bias.

    Returns
    -------
    ndarray of int32
        Exact, although computed modulo 2**32, because `check_sums` has shown that they fit.
    """
    correction = offset - a_zeros * b.sum(-2, dtype=np.int64, keepdims=True)
    return sums + np.broadcast_to(correction, sums.shape).astype(np.int32)


def requantized(
    sums: Array, multiplier: Array, zeros: Array, bounds: tuple[Array, Array], kind: str
) -> Array:
    """Compute outputs from int32 sums in NumPy, with scales of any shape that broadcasts.

    Parameters
    ----------
    sums : ndarray of int32
        With the bias.
    multiplier : ndarray of float32
        ``a_scale * b_scale / y_scale``.
    zeros : ndarray of int64
        Zero points of outputs.
    bounds : (ndarray of float32, ndarray of float32)
        Of the clamp, as `quantized_output.clamp` gives them.
    kind : {"u8", "s8", "f32"}
        Type of outputs.
    """
    y = sums.astype(np.float32) * multiplier
    y = np.minimum(np.maximum(y, bounds[0]), bounds[1])
    if kind == "f32":
        return y
    moved = np.rint(y).astype(np.int64) + zeros
    return moved.astype(np.uint8 if kind == "u8" else np.int8)

"""Merges neighbouring dimensions over which all arrays step evenly."""

from __future__ import annotations

from collections.abc import Sequence

from .._records import record
from ..geometry import walk_dims
from .storage import Shape, Value


@record(frozen=True)
class Collapsed:
    """Arrays of one shape, broadcasts included, over the fewest common dimensions.

    Parameters
    ----------
    dims : tuple of int
        All dimensions but the innermost.
    columns : int
        The innermost.
    strides : tuple of tuple of int
        Of each array: one number for each of `dims`.
    steps : tuple of int
        Of each array: 1 if it has an element for each column, 0 if one for all.
    """

    dims: Shape
    columns: int
    strides: tuple[Shape, ...]
    steps: Shape


def broadcast_strides(value: Value, shape: Shape) -> Shape:
    """Strides of a value broadcast to a larger shape; 0 where it is repeated."""
    missing = len(shape) - len(value.shape)
    own = (1,) * missing + value.shape
    strides = (0,) * missing + value.strides
    return tuple(0 if n == 1 else s for n, s in zip(own, strides, strict=True))


def collapse(shape: Shape, element: int, strides: Sequence[Shape]) -> Collapsed:
    """Find the fewest dimensions over which element-wise loops can walk arrays.

    Parameters
    ----------
    shape : tuple of int
        Shape of all arrays.
    element : int
        Bytes of an element.
    strides : sequence of tuple of int
        Of each array; the smallest strides of the first array become the innermost.
    """
    dims, walks = walk_dims(shape, strides)
    inner = [walk[-1] for walk in walks]
    if any(s not in (0, element) for s in inner) or inner[:1] != [element]:
        # No dimension is contiguous in all arrays: one element at a time.
        return Collapsed(tuple(dims), 1, tuple(map(tuple, walks)), (1,) * len(walks))
    return Collapsed(
        tuple(dims[:-1]), dims[-1], tuple(tuple(walk[:-1]) for walk in walks),
        tuple(int(s != 0) for s in inner),
    )  # fmt: skip

"""Weights as sparse matrices of SciPy or PyTorch, converted to dense arrays once.

Matrices are recognised by their attributes, so that neither library is needed. Their index arrays
are not trusted: contradictions are refused before an index is used. Duplicate entries are added up,
as in both libraries; entries that are not stored are zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._checks import integer, shown
from ..._records import NamedTuple
from ...arguments import input_shapes
from ...memory.array_like import array_of, is_bfloat16
from ...problem import LARGEST_PRODUCT

__all__ = ["weight_array"]

Array = NDArray[Any]
Shape = tuple[int, ...]

_TORCH = "torch.sparse_"
_WIDEST_ELEMENT = 8
# By the dimensions of weights: their shape, the layer, and the arguments of torch's layer.
_LAYERS = {
    4: ("(oc, ic / groups, kh, kw)", "Conv2d", "numbers of channels"),
    2: ("(out_features, in_features)", "Linear", "numbers of features"),
}


class _Entries(NamedTuple):
    """Entries of a matrix: an index for each dimension, and values."""

    indices: tuple[Array, ...]
    values: Array


def weight_array(weight: object, weight_shape: object = None, dimensions: int = 4) -> NDArray[Any]:
    """Convert weights to a dense array.

    Parameters
    ----------
    weight : array_like or sparse matrix
        Anything that `array_of` takes, a matrix of ``scipy.sparse`` in the format CSR, CSC, BSR or
        COO, or a tensor of ``torch.sparse`` in one of these layouts. Matrices have a row for each
        output channel.
    weight_shape : sequence of int, optional
        Shape of the weights, if a matrix does not define it: (oc, ic / groups, kh, kw).
    dimensions : {4, 2}, optional
        Of weights: 4 of a convolution, for which matrices get kernels of 1x1.

    Returns
    -------
    ndarray
        A new array, if `weight` was sparse.

    Raises
    ------
    TypeError, ValueError
        If it is neither, has another shape, or contradicts itself; the message names it.
    MemoryError
        If there is no memory for a dense array of its shape.
    """
    input_shapes.check_weight_is_no_size(weight, *_LAYERS[dimensions])
    shape = None if weight_shape is None else _checked_shape(weight_shape, dimensions)
    found = _read(weight)
    array = array_of(weight, "weight") if found is None else _dense(*found)
    if array.ndim == 2 < dimensions and found is not None:
        rows, columns = array.shape
        if shape is None:
            shape = (rows, columns, *(1,) * (dimensions - 2))
        if (shape[0], math.prod(shape[1:])) != array.shape:
            raise ValueError(f"weight of shape {array.shape} is no matrix of weight_shape {shape}")
        return array.reshape(shape)
    if shape is not None and array.shape != shape:
        raise ValueError(f"weight of shape {array.shape} has not weight_shape {shape}")
    return array


def _checked_shape(shape: object, dimensions: int) -> Shape:
    complaint = f"weight_shape must be a tuple of {dimensions} ints, got {shown(shape)}"
    if not isinstance(shape, (tuple, list)):
        raise TypeError(complaint)
    if len(shape) != dimensions:
        raise ValueError(complaint)
    return tuple(integer("weight_shape", size, 1) for size in shape)


def _read(weight: object) -> tuple[Shape, _Entries] | None:
    """Shape and entries of a sparse matrix; None for other objects."""
    layout = str(getattr(weight, "layout", ""))
    if layout.startswith(_TORCH):
        name, text = layout.removeprefix(_TORCH), f"layout {layout}"
        readers, advice = _TENSORS, ".to_dense()"
    elif isinstance(kind := getattr(weight, "format", None), str) and hasattr(weight, "tocsr"):
        name, text = kind, f"format {kind!r}"
        readers, advice = _MATRICES, ".tocsr()"
    else:
        return None
    if name not in readers:
        raise TypeError(f"weight is sparse in {text}, which is not read: use {advice}")
    try:
        shape = _shape_of(weight)
        entries = readers[name](weight, shape)
    except (AttributeError, NotImplementedError) as error:
        raise TypeError(f"weight is sparse in {text}, but {error}: use {advice}") from error
    return shape, entries


def _shape_of(weight: Any) -> Shape:
    shape = tuple(integer("weight: a size of its shape", size, 0) for size in weight.shape)
    if len(shape) < 2 or min(shape) < 1:
        raise ValueError(f"weight must be a matrix that is not empty, got shape {shape}")
    if math.prod(shape) * _WIDEST_ELEMENT >= LARGEST_PRODUCT:
        raise ValueError(f"weight is too large: its size overflows 64 bits, shape {shape}")
    return shape


# Readers of formats ------------------------------------------------------------------------------


def _compressed(
    pointers: object, indices: object, values: object, shape: Shape, names: tuple[str, str],
    by_rows: bool,
) -> _Entries:  # fmt: skip
    """Rows (or columns) that are compressed; values may be blocks, of which these are rows."""
    data = _values(values)
    if data.ndim not in (1, 3):
        raise ValueError(f"weight: values must have 1 dimension, or 3 in blocks, not {data.ndim}")
    block: Shape = data.shape[1:] if data.ndim == 3 else (1, 1)
    if min(block) < 1 or any(size % b for size, b in zip(shape, block, strict=True)):
        raise ValueError(f"weight: blocks of shape {block} do not divide shape {shape}")
    rows, columns = (size // b for size, b in zip(shape, block, strict=True))
    major, minor = (rows, columns) if by_rows else (columns, rows)
    starts = _integers(names[0], pointers)
    found = _integers(names[1], indices)
    if len(starts) != major + 1:
        raise ValueError(f"weight: {names[0]} must have {major + 1} elements, got {len(starts)}")
    if (
        starts[0] != 0
        or starts[-1] > min(len(found), len(data))
        or (starts[1:] < starts[:-1]).any()
    ):
        raise ValueError(
            f"weight: {names[0]} must rise from 0 to at most the number of entries, "
            f"{min(len(found), len(data))}"
        )
    starts = starts.astype(np.int64)
    # Values after the end of the last row are not entries.
    found, data = found[: starts[-1]], data[: starts[-1]]
    across = _bounded(names[1], found, minor)
    down = np.repeat(np.arange(major), np.diff(starts))
    at = (down, across) if by_rows else (across, down)
    if data.ndim == 1:
        return _Entries(at, data)
    return _Entries(
        tuple(
            np.broadcast_to(
                (first * b).reshape(-1, 1, 1) + np.arange(b).reshape(within), data.shape
            ).ravel()
            for first, b, within in zip(at, block, ((-1, 1), (1, -1)), strict=True)
        ),
        data.ravel(),
    )


def _coordinates(indices: Sequence[object], values: object, shape: Shape) -> _Entries:
    """Entries with an index for each dimension."""
    data = _values(values)
    if data.ndim != 1:
        raise ValueError(f"weight: values must have 1 dimension, not {data.ndim}")
    if len(indices) != len(shape):
        raise ValueError(f"weight has {len(indices)} indices for each entry, and shape {shape}")
    found = []
    for index, size in zip(indices, shape, strict=True):
        along = _bounded("indices", _integers("indices", index), size)
        if len(along) != len(data):
            raise ValueError(f"weight has {len(along)} indices for {len(data)} values")
        found.append(along)
    return _Entries(tuple(found), data)


def _matrix_rows(matrix: Any, shape: Shape) -> _Entries:
    return _compressed(
        matrix.indptr, matrix.indices, matrix.data, _two(shape), ("indptr", "indices"), True
    )


def _matrix_columns(matrix: Any, shape: Shape) -> _Entries:
    return _compressed(
        matrix.indptr, matrix.indices, matrix.data, _two(shape), ("indptr", "indices"), False
    )


def _matrix_coordinates(matrix: Any, shape: Shape) -> _Entries:
    return _coordinates((matrix.row, matrix.col), matrix.data, _two(shape))


def _tensor_rows(tensor: Any, shape: Shape) -> _Entries:
    return _compressed(
        tensor.crow_indices(), tensor.col_indices(), tensor.values(), _two(shape),
        ("crow_indices", "col_indices"), True,
    )  # fmt: skip


def _tensor_columns(tensor: Any, shape: Shape) -> _Entries:
    return _compressed(
        tensor.ccol_indices(), tensor.row_indices(), tensor.values(), _two(shape),
        ("ccol_indices", "row_indices"), False,
    )  # fmt: skip


def _tensor_coordinates(tensor: Any, shape: Shape) -> _Entries:
    # A tensor that may hold duplicates does not show its indices.
    if not tensor.is_coalesced():
        tensor = tensor.coalesce()
    indices = array_of(tensor.indices(), "weight: indices")
    if indices.ndim != 2:
        raise ValueError(f"weight: indices must have 2 dimensions, not {indices.ndim}")
    return _coordinates(tuple(indices), tensor.values(), shape)


_Reader = Callable[[Any, Shape], _Entries]
_MATRICES: dict[str, _Reader] = {
    "csr": _matrix_rows, "bsr": _matrix_rows, "csc": _matrix_columns, "coo": _matrix_coordinates,
}  # fmt: skip
_TENSORS: dict[str, _Reader] = {
    "csr": _tensor_rows, "bsr": _tensor_rows, "csc": _tensor_columns, "coo": _tensor_coordinates,
}  # fmt: skip


# Checks ------------------------------------------------------------------------------------------


def _two(shape: Shape) -> Shape:
    if len(shape) != 2:
        raise ValueError(f"weight must have 2 dimensions in this format, got shape {shape}")
    return shape


def _integers(name: str, value: object) -> Array:
    """A copied row of integers, so that nobody changes it after the checks."""
    array = array_of(value, f"weight: {name}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"weight: {name} must be integers, got dtype {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"weight: {name} must have 1 dimension, not {array.ndim}")
    return np.array(array)


def _bounded(name: str, indices: Array, size: int) -> Array:
    """Indices below a size."""
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < size:
        raise ValueError(
            f"weight: {name} must be 0 to {size - 1}, got {indices.min()} to {indices.max()}"
        )
    return indices.astype(np.int64)


def _values(value: object) -> Array:
    array = array_of(value, "weight: values")
    if array.dtype.kind not in "fiu" and not is_bfloat16(array):
        raise TypeError(f"weight must hold real numbers, got dtype {array.dtype}")
    return np.array(array, array.dtype.newbyteorder("="))


def _dense(shape: Shape, entries: _Entries) -> Array:
    """Make the array; duplicate entries are added up, and the sum is rounded once."""
    index, values = np.ravel_multi_index(entries.indices, shape), entries.values
    dense = np.zeros(shape, values.dtype)
    there = np.zeros(dense.size, np.bool_)
    there[index] = True
    if np.count_nonzero(there) == len(values):
        dense.reshape(-1)[index] = values
        return dense
    whole = values.dtype.kind in "iu"
    sums = np.zeros(dense.size, np.int64 if whole else np.float64)
    with np.errstate(all="ignore"):
        np.add.at(sums, index, values.astype(sums.dtype))
        dense.reshape(-1)[...] = sums.astype(values.dtype)
    if whole and not np.array_equal(dense.reshape(-1), sums):
        raise ValueError(f"weight has entries that add up to more than {values.dtype} holds")
    return dense

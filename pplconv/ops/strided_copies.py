"""Describes copies between arrays of different strides for the loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..geometry import walk_dims
from ..memory.dtypes import DTYPES

# Types by size of element: copies only move bits.
BY_SIZE = {1: "u8", 2: "s16", 4: "f32", 8: "f64"}
# Bytes of a task: small enough to share among a team, large enough to make its overhead small.
TASK_BYTES = 1 << 16
# Bytes of the source that are contiguous along the rows of a transposition: tasks take whole cache
# lines of them.
LINE_BYTES = 64
# Columns of a row that is worth a task of its own.
LEAST_COLUMNS = 256
MOST_DIMS = 6


def copy_fields(
    shape: Sequence[int],
    element: int,
    destination: Sequence[int],
    source: Sequence[int],
    sizes: Mapping[int, str] = BY_SIZE,
) -> dict[str, Any] | None:
    """Describe a copy for ``schedules.copying.Copy``.

    Parameters
    ----------
    shape : sequence of int
        Shape of the copy; no dimension is 0.
    element : int
        Bytes of an element.
    destination, source : sequence of int
        Strides in bytes; those of the source are 0 where it is repeated, and negative where it is
        walked down.
    sizes : mapping of int to str, optional
        Types with kernels, by size of element.

    Returns
    -------
    dict or None
        None if no kernel moves such elements, or the arrays have more dimensions than the loops.
    """
    dims, (dst, src) = walk_dims(shape, (destination, source))
    if element not in sizes or len(dims) > MOST_DIMS:
        return None
    if len(dims) == 1:
        _divide(dims, dst, src, element)
    if len(dims) > 2:
        # Rows are the contiguous elements of the source.
        inner = len(dims) - 1
        steps = [abs(stride) for stride in src]
        strided = steps[inner] > element
        row = min(range(inner), key=lambda d: (steps[d] == 0, steps[d] if strided else -d))
        for numbers in (dims, dst, src):
            numbers.insert(inner - 1, numbers.pop(row))
    if src[-2] == element < src[-1] and len(dims) < MOST_DIMS:
        _divide_columns(dims, dst, src, element)
    return _fields(sizes[element], dims, dst, src, element)


def convert_fields(
    shape: Sequence[int], types: tuple[str, str], destination: Sequence[int], source: Sequence[int]
) -> dict[str, Any] | None:
    """Describe a copy that converts elements.

    Parameters
    ----------
    shape : sequence of int
        Shape of the conversion; no dimension is 0.
    types : (str, str)
        Of the destination and of the source: ``"f32"``, and ``"f16"`` or ``"bf16"``, in either
        order.
    destination, source : sequence of int
        Strides in bytes, as for `copy_fields`.

    Returns
    -------
    dict or None
        None if the arrays have more dimensions than the loops.
    """
    dims, (dst, src) = walk_dims(shape, (destination, source))
    sizes = [DTYPES[name].itemsize for name in types]
    if [dst[-1], src[-1]] != sizes:
        # Strided elements: each is a row of its own.
        for numbers, inner in zip((dims, dst, src), (1, *sizes), strict=True):
            numbers.append(inner)
    if len(dims) > MOST_DIMS:
        return None
    if len(dims) == 1:
        _divide(dims, dst, src, max(sizes))
    return {**_fields(types[0], dims, dst, src, max(sizes)), "source": types[1]}


def shared_columns(count: int, element: int) -> int:
    """Give the columns of equal rows that one long row is split into, to share it among a team.

    Parameters
    ----------
    count : int
        Elements of the long row.
    element : int
        Bytes of an element.

    Returns
    -------
    int
        A divisor of `count`; `count` itself if all others make rows that are long or very short.
    """
    most = min(count, TASK_BYTES // element)
    columns = next((c for c in range(most, 0, -1) if count % c == 0), count)
    return count if columns < LEAST_COLUMNS else columns


def _divide(dims: list[int], dst: list[int], src: list[int], element: int) -> None:
    """Split one long row into shorter ones, to share them among a team."""
    columns = shared_columns(dims[0], element)
    dims[:] = dims[0] // columns, columns
    for strides in (dst, src):
        strides.insert(0, columns * strides[0])


def _divide_columns(dims: list[int], dst: list[int], src: list[int], element: int) -> None:
    """Split the columns of a transposition so that tasks can take whole lines of its source."""
    rows = min(dims[-2], LINE_BYTES // element)
    columns = shared_columns(dims[-1], element * rows)
    if columns == dims[-1]:
        return
    for strides in (dst, src):
        strides.insert(-2, columns * strides[-1])
    dims.insert(-2, dims[-1] // columns)
    dims[-1] = columns


def _fields(
    dtype: str, dims: list[int], dst: list[int], src: list[int], element: int
) -> dict[str, Any]:
    rows, columns = dims[-2:]
    line = LINE_BYTES // element
    return {
        "dtype": dtype, "dims": dims, "src": src, "dst": dst,
        "row_segment": min(max(TASK_BYTES // (element * columns * line), 1) * line, rows),
        "lines": max(TASK_BYTES // (element * columns * rows), 1),
    }  # fmt: skip

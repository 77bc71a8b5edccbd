"""Copies between arrays that lie differently, as the loops take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..geometry import walk_dims

# Types whose elements have a kernel's size: only bits are moved.
BY_SIZE = {4: "f32", 8: "f64"}
# Bytes that a task works on, so that a team shares the work and tasks cost little.
TASK_BYTES = 1 << 16
# Rows of a task: whole lines of cache where a transposition writes columns.
LEAST_ROWS = 16
MOST_DIMS = 6


def copy_fields(
    shape: Sequence[int], element: int, destination: Sequence[int], source: Sequence[int]
) -> dict[str, Any] | None:
    """Describe a copy for ``schedules.copying.Copy``.

    Parameters
    ----------
    shape : sequence of int
        Of what is copied; no dimension is 0.
    element : int
        Bytes of an element.
    destination, source : sequence of int
        Strides in bytes; those of the source are 0 where it is repeated.

    Returns
    -------
    dict or None
        None if no kernel moves such elements, or the arrays lie in more dimensions than the loops
        have.
    """
    dims, (dst, src) = walk_dims(shape, (destination, source))
    if element not in BY_SIZE or len(dims) > MOST_DIMS:
        return None
    if len(dims) == 1:
        # One long row: as many shorter ones, so that a team shares them.
        n = dims[0]
        columns = next((c for c in range(min(n, TASK_BYTES // element), 0, -1) if n % c == 0), n)
        if columns < 256:
            columns = n
        dims = [n // columns, columns]
        dst, src = [columns * dst[0], dst[0]], [columns * src[0], src[0]]
    if len(dims) > 2:
        # Rows are what lies next to one another in the source.
        inner = len(dims) - 1
        row = min(range(inner), key=lambda d: (src[d] == 0, src[d] if src[inner] > element else -d))
        for numbers in (dims, dst, src):
            numbers.insert(inner - 1, numbers.pop(row))
    rows, columns = dims[-2:]
    segment = min(max(LEAST_ROWS, TASK_BYTES // (element * columns)), rows)
    return {
        "dtype": BY_SIZE[element], "dims": dims, "src": src, "dst": dst, "row_segment": segment,
        "lines": max(TASK_BYTES // (element * columns * rows), 1),
    }  # fmt: skip

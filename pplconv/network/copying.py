"""Copies between values that lie differently."""

from __future__ import annotations

import math

from ..schedules.copying import Copy
from .collapse import broadcast_strides, walk_dims
from .host import host_step
from .storage import Step, Value

# Types whose elements have a kernel's size: only bits are moved.
BY_SIZE = {4: "f32", 8: "f64"}
# Bytes that a task works on, so that a team shares the work and tasks cost little.
TASK_BYTES = 1 << 16
# Rows of a task: whole lines of cache where a transposition writes columns.
LEAST_ROWS = 16
MOST_DIMS = 6


def copy_step(source: Value, destination: Value, isa: str, nodes: list[str]) -> Step:
    """Make a step that copies a value to another place, repeated where that is larger.

    Parameters
    ----------
    source, destination : Value
        Of one type; there is something to copy.
    isa : str
        Level of the kernel.
    nodes : list of str
        What it stands for.
    """
    element = destination.dtype.itemsize
    strides = broadcast_strides(source, destination.shape)
    dims, (dst, src) = walk_dims(destination.shape, (destination.strides, strides))
    if element not in BY_SIZE or len(dims) > MOST_DIMS:
        return host_step("Copy", lambda x: [x], [source], [destination], nodes)
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
    segment = max(LEAST_ROWS, TASK_BYTES // (element * columns))
    fields = {
        "dtype": BY_SIZE[element], "dims": dims, "src": src, "dst": dst,
        "row_segment": min(segment, rows),
    }  # fmt: skip
    return Step(
        Copy(fields, isa),
        [source],
        [destination],
        {"arrays": [destination, source]},
        "Copy",
        nodes,
        f"{'x'.join(map(str, dims))}, {math.prod(dims) * element} bytes",
    )

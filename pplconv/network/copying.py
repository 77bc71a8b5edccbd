"""Copies between values that lie differently."""

from __future__ import annotations

import math

from ..api.copying import copy_fields
from ..schedules.copying import Copy
from .collapse import broadcast_strides
from .host import host_step
from .storage import Step, Value


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
    fields = copy_fields(destination.shape, element, destination.strides, strides)
    if fields is None:
        return host_step("Copy", lambda x: [x], [source], [destination], nodes)
    dims = fields["dims"]
    return Step(
        Copy(fields, isa),
        [source],
        [destination],
        {"arrays": [destination, source]},
        "Copy",
        nodes,
        f"{'x'.join(map(str, dims))}, {math.prod(dims) * element} bytes",
    )

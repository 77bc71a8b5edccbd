"""Copies between values of different strides or types."""

from __future__ import annotations

import functools
import math

from .._kernels import serving
from ..memory.dtypes import name_of
from ..ops.strided_copies import BY_SIZE, convert_fields, copy_fields
from ..schedules.copy_loops import Copy
from .collapse import broadcast_strides
from .host_steps import Same, host_step
from .storage import Step, Value


def copy_step(source: Value, destination: Value, isa: str, nodes: list[str]) -> Step:
    """Make a step that copies a value, and repeats it along larger dimensions.

    Parameters
    ----------
    source, destination : Value
        Of one type, and not empty. Strides of the source may be negative.
    isa : str
        Level of the kernel.
    nodes : list of str
        What it stands for.
    """
    element = destination.dtype.itemsize
    strides = broadcast_strides(source, destination.shape)
    sizes = {**BY_SIZE, 2: "f16"} if _moves_halves(isa) else BY_SIZE
    fields = copy_fields(destination.shape, element, destination.strides, strides, sizes)
    if fields is None:
        return host_step("Copy", Same(), [source], [destination], nodes)
    dims = fields["dims"]
    return Step(
        Copy(fields, isa),
        [source],
        [destination],
        {"arrays": [destination, _from_lowest(source)]},
        "Copy",
        nodes,
        f"{'x'.join(map(str, dims))}, {math.prod(dims) * element} bytes",
    )


def convert_step(source: Value, destination: Value, isa: str, nodes: list[str]) -> Step:
    """Make a step that converts a value from float16 or bfloat16 to float32, or back.

    Parameters
    ----------
    source, destination : Value
        Of one shape, and not empty.
    isa : str
        Level of the kernel.
    nodes : list of str
        What it stands for.
    """
    types = name_of(destination.dtype), name_of(source.dtype)
    fields = convert_fields(destination.shape, types, destination.strides, source.strides)
    detail = f"{source.dtype} to {destination.dtype}"
    if fields is None:
        return host_step("Reformat", Same(), [source], [destination], nodes)
    return Step(
        Copy(fields, isa),
        [source],
        [destination],
        {"arrays": [destination, _from_lowest(source)]},
        "Reformat",
        nodes,
        f"{detail}, {'x'.join(map(str, fields['dims']))}",
    )


def _from_lowest(value: Value) -> Value:
    """The same elements from the lowest one on, as loops of copies take them."""
    pairs = list(zip(value.shape, value.strides, strict=True))
    below = sum((n - 1) * -stride for n, stride in pairs if stride < 0)
    return value.viewed(value.shape, tuple(abs(stride) for _, stride in pairs), -below)


@functools.cache
def _moves_halves(isa: str) -> bool:
    """Whether a level has copies of half precision, which 32-bit Arm has in vectors alone."""
    try:
        return bool(serving("copy_strided", "f16", isa))
    except LookupError:
        return False

"""MaxUnpool as a scatter: each element goes to its place among zeros."""

from __future__ import annotations

import math
from typing import Any

from ..onnx_later import ir
from ..values import FLOATS, attribute_ints, constant, static_shape
from .decompositions import Numbers

__all__ = ["max_unpool"]


def max_unpool(op: Any, node: ir.Node) -> Any:
    """MaxUnpool; with an output shape, zeros follow the images of the usual size, as in ONNX.

    Raises
    ------
    ValueError
        If attributes and shapes contradict one another.
    """
    x, places, wanted = [*node.inputs, None][:3]
    assert x is not None and places is not None
    shape, indices, given = static_shape(x), static_shape(places), constant(wanted)
    if shape is None or indices is None or x.dtype not in FLOATS:
        return None
    if wanted is not None and given is None:
        return None
    if indices != shape:
        raise ValueError(f"the indices have the shape {indices}, the input has {shape}")
    usual = _usual(node, shape)
    numbers = Numbers(op, node, x.dtype)
    count = math.prod(usual)
    flat = op.Reshape(places, numbers.integers(-1))
    # A place below zero is none; a scatter would count it from the end.
    below = op.Less(flat, numbers.integer(0))
    kept = op.Where(below, numbers.integer(count), flat)
    zeros = op.Expand(numbers.number(0), numbers.integers(count))
    spread = op.ScatterElements(zeros, kept, op.Reshape(x, numbers.integers(-1)), axis=0)
    images = op.Reshape(spread, numbers.integers(*usual))
    if given is None or tuple(given.reshape(-1).tolist()) == usual:
        return images
    more = [int(n) - m for n, m in zip(given.reshape(-1), usual, strict=False)]
    if given.size != len(usual) or min(more) < 0:
        raise ValueError(f"output_shape is {given.tolist()}, expected at least {list(usual)}")
    return op.Pad(images, numbers.integers(*[0] * len(usual), *more))


def _usual(node: ir.Node, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Give the shape of the images that windows without overlap were taken from."""
    axes = len(shape) - 2
    kernel = attribute_ints(node, "kernel_shape", ())
    strides = attribute_ints(node, "strides", ()) or (1,) * axes
    pads = attribute_ints(node, "pads", ()) or (0,) * (2 * axes)
    if axes < 1 or (len(kernel), len(strides), len(pads)) != (axes, axes, 2 * axes):
        raise ValueError(
            f"kernel_shape, strides and pads are {list(kernel)}, {list(strides)} and {list(pads)}, "
            f"the input has the shape {shape}"
        )
    sizes = [
        (n - 1) * stride + k - before - after
        for n, stride, k, before, after in zip(
            shape[2:], strides, kernel, pads, pads[axes:], strict=False
        )
    ]
    if min(sizes) < 0 or min(strides) < 1 or min(kernel) < 1 or math.prod(sizes) >> 48:
        raise ValueError(
            f"kernel_shape {list(kernel)}, strides {list(strides)} and pads {list(pads)} make "
            f"images of {sizes}"
        )
    return (*shape[:2], *sizes)

"""Convolutions of quantized volumes as those of images, whose channels are those of all depths.

A window of kd x kh x kw places is one of kh x kw pixels with kd times the channels, so the sum of
all products stays one sum of integers, and what follows it goes into its store. The depths are
joined by copies of bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ..integer_nodes import dequantized
from ..quantized_values import quantization_of
from ..values import attribute_int, constant, rank
from .driver import Rule
from .volume_pieces import (
    BYTES,
    OfVolume,
    Window,
    Writer,
    images_of,
    made_images,
    shape_of,
)

__all__ = ["RULES"]


def _channels(
    write: Writer, x: ir.Value, window: Window, group: int, fill: ir.Value | None
) -> ir.Value:
    """Give images with the channels of all depths of their windows, those of a group together."""
    depths = shape_of(write.y)[2]
    volume = write.padded(write.depth_first(x), window.before, window.after, fill)
    # Batch and depths are joined last, where nothing has to be copied for it.
    pixels = write.transpose(volume, 0, 1, 3, 4, 2)
    parts = []
    for t in range(window.size):
        seen = write.depths(pixels, t * window.dilation, depths, window.stride)
        n, _, h, w, c = shape_of(seen)
        parts.append(write.reshape(seen, n, depths, h, w, group, c // group))
    joined = parts[0]
    if len(parts) > 1:
        joined = write.op.Concat(*parts, axis=5)
        write.shaped(joined, (n, depths, h, w, group, window.size * c // group), x)
    images = write.reshape(joined, n * depths, h, w, window.size * c)
    return write.transpose(images, 0, 3, 1, 2)


def _weights(array: Any) -> Any:
    """Give weights (oc, ic / groups, kd, kh, kw) with the channels of all depths."""
    oc, ic, kd, kh, kw = array.shape
    return array.transpose(0, 2, 1, 3, 4).reshape(oc, kd * ic, kh, kw)


class Convolution(OfVolume):
    """A Conv of dequantized volumes and known dequantized weights."""

    def __init__(self) -> None:
        super().__init__("Conv", above="DequantizeLinear")

    def images(self, write: Writer, x: ir.Value, node: ir.Node) -> ir.Value | None:
        """See `OfVolume`."""
        found, weight = dequantized(x), node.inputs[1]
        old = None if weight is None else weight.producer()
        if found is None or old is None or (old.domain, old.op_type) != ("", "DequantizeLinear"):
            return None
        integers, own = constant(old.inputs[0]), quantization_of(old)
        if integers is None or integers.ndim != 5 or own is None or own.axis not in (None, 0):
            return None
        window = Window(node, integers.shape[2:])
        group = attribute_int(node, "group", 1)
        zero = np.asarray(found[1].one_zero, found[1].dtype)
        images = _channels(write, found[0], window, group, write.constant(zero))
        before = x.producer()
        assert before is not None
        wide = write.op.DequantizeLinear(images, *before.inputs[1:], **before.attributes)
        write.shaped(wide, shape_of(images), x)
        flat = write.constant(_weights(integers))
        flat.type = old.inputs[0].type
        weights = write.op.DequantizeLinear(flat, *old.inputs[1:], **old.attributes)
        write.shaped(weights, _weights(integers).shape, weight)
        n, c, d, h, w = shape_of(write.y)
        result = write.op.Conv(wide, weights, *node.inputs[2:], group=group, **window.flat)
        return write.shaped(result, (n * d, c, h, w))


class ConvInteger(OfVolume):
    """A ConvInteger of known weights; the zero point of the input may be computed."""

    def __init__(self) -> None:
        super().__init__("ConvInteger")

    def takes(self, x: ir.Value, y: ir.Value) -> bool:
        """See `OfVolume`."""
        return x.dtype in BYTES and y.dtype == ir.DataType.INT32

    def images(self, write: Writer, x: ir.Value, node: ir.Node) -> ir.Value | None:
        """See `OfVolume`."""
        _, weight, x_zero, *rest = [*node.inputs, None][: max(len(node.inputs), 3)]
        integers = constant(weight)
        if integers is None or integers.ndim != 5:
            return None
        fill = x_zero
        if x_zero is not None and rank(x_zero) != 0:
            fill = write.reshape(x_zero)
        window = Window(node, integers.shape[2:])
        group = attribute_int(node, "group", 1)
        images = _channels(write, x, window, group, fill)
        flat = write.constant(_weights(integers))
        n, c, d, h, w = shape_of(write.y)
        operands = (images, flat, x_zero, *rest)
        result = write.op.ConvInteger(*operands, group=group, **window.flat)
        return write.shaped(result, (n * d, c, h, w))


class Scaled(OfVolume):
    """QuantizeLinear and DequantizeLinear, of one scale or one for each channel."""

    def __init__(self, operator: str) -> None:
        super().__init__(operator, above="Transpose")

    def check(self, context: Any, x: ir.Value, y: ir.Value) -> bool:
        """See `OfVolume`."""
        node = y.producer()
        several = rank(node.inputs[1]) != 0
        kept = attribute_int(node, "axis", 1) % 5 == 1 or not several
        return images_of(x) is not None and kept and not attribute_int(node, "block_size", 0)

    def images(self, write: Writer, x: ir.Value, node: ir.Node) -> ir.Value | None:
        """See `OfVolume`."""
        images = made_images(write, x)
        result = write.op.op(self.operator, images, *node.inputs[1:], **node.attributes)
        return write.shaped(result, shape_of(images))


RULES: tuple[Rule, ...] = (
    Convolution(),
    ConvInteger(),
    Scaled("QuantizeLinear"),
    Scaled("DequantizeLinear"),
)
"""Rules of this module, in the order in which they are tried; before those of `volumes`."""

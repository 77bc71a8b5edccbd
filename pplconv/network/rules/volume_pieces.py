"""What the rules of volumes have in common: images of a volume, and how nodes of them are written.

A volume (N, C, D, H, W) is N x D images (N D, C, H, W).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ..values import (
    FLOATS,
    attribute_int,
    attribute_ints,
    attribute_string,
    constant,
    only_first_used,
    rank,
    static_shape,
)
from .driver import OperatorRule

__all__ = [
    "BYTES",
    "OfVolume",
    "Window",
    "Writer",
    "dequantizes",
    "images_of",
    "made_images",
    "shape_of",
]

# From (N, C, D, H, W) to (N, D, C, H, W), and back.
DEPTH_FIRST = [0, 2, 1, 3, 4]
_NAME = "volumes as images"
BYTES = (ir.DataType.INT8, ir.DataType.UINT8)

Shape = tuple[int, ...]


class Writer:
    """Writes nodes with known shapes for the replacement of a node.

    Parameters
    ----------
    op : object
        For the new nodes.
    y : ir.Value
        The result that is replaced: its type is the type of all values.
    """

    def __init__(self, op: Any, y: ir.Value) -> None:
        self.op, self.y = op, y

    def constant(self, array: Any) -> ir.Value:
        """Add a constant."""
        name = f"{self.y.name}_volume"
        made: ir.Value = self.op.initializer(ir.tensor(np.asarray(array, order="C")), name=name)
        return made

    def ints(self, *numbers: int) -> ir.Value:
        """Add a list of integers."""
        return self.constant(np.array(numbers, np.int64))

    def shaped(
        self, value: ir.Value, shape: Sequence[int], like: ir.Value | None = None
    ) -> ir.Value:
        """Note the shape of a new value, and its type: that of the result, or of another value."""
        value.type, value.shape = (like or self.y).type, ir.Shape(shape)
        return value

    def reshape(self, value: ir.Value, *shape: int) -> ir.Value:
        """Give a value another shape."""
        return self.shaped(self.op.Reshape(value, self.ints(*shape), allowzero=1), shape, value)

    def transpose(self, value: ir.Value, *order: int) -> ir.Value:
        """Give a value with its dimensions in another order."""
        shape = shape_of(value)
        turned = self.op.Transpose(value, perm=list(order))
        return self.shaped(turned, [shape[d] for d in order], value)

    def depth_first(self, x: ir.Value) -> ir.Value:
        """Give a volume as (N, D, C, H, W)."""
        if images_of(x) is not None:
            found = x.producer()
            assert found is not None and found.inputs[0] is not None
            return found.inputs[0]
        return self.transpose(x, *DEPTH_FIRST)

    def images(self, volume: ir.Value) -> ir.Value:
        """Give (N, D, C, H, W) as N x D images."""
        n, d, *image = shape_of(volume)
        return self.reshape(volume, n * d, *image)

    def padded(
        self, volume: ir.Value, before: int, after: int, fill: ir.Value | None = None
    ) -> ir.Value:
        """Add depths of zeros, or of a number, to (N, D, C, H, W)."""
        if not before and not after:
            return volume
        n, d, *image = shape_of(volume)
        pads = self.ints(0, before, 0, 0, 0, 0, after, 0, 0, 0)
        operands = [volume, pads] if fill is None else [volume, pads, fill]
        return self.shaped(self.op.Pad(*operands), (n, before + d + after, *image), volume)

    def depths(self, volume: ir.Value, first: int, count: int, step: int = 1) -> ir.Value:
        """Give some depths of (N, D, C, H, W)."""
        n, d, *image = shape_of(volume)
        if first == 0 and count == d and step == 1:
            return volume
        last = first + (count - 1) * step + 1
        numbers = (self.ints(number) for number in (first, last, 1, step))
        return self.shaped(self.op.Slice(volume, *numbers), (n, count, *image), volume)

    def column(self, images: ir.Value, n: int) -> ir.Value:
        """Give images of n volumes as (n, H W C, D, 1): as pixels, each depth has one."""
        count, c, h, w = shape_of(images)
        pixels = self.reshape(self.transpose(images, 0, 2, 3, 1), n, count // n, h * w * c, 1)
        return self.transpose(pixels, 0, 2, 1, 3)

    def from_column(self, column: ir.Value, c: int, h: int, w: int) -> ir.Value:
        """Give what `column` gave as images of c channels again."""
        n, _, d, _ = shape_of(column)
        pixels = self.reshape(self.transpose(column, 0, 2, 1, 3), n * d, h, w, c)
        return self.transpose(pixels, 0, 3, 1, 2)

    def volume(self, images: ir.Value) -> ir.Value:
        """Give images as the volume that is replaced: the last node of a replacement."""
        n, c, d, h, w = shape_of(self.y)
        back: ir.Value = self.op.Transpose(self.reshape(images, n, d, c, h, w), perm=DEPTH_FIRST)
        return back


def shape_of(value: ir.Value) -> Shape:
    """Give the known shape of a value."""
    shape = static_shape(value)
    assert shape is not None
    return shape


def images_of(value: ir.Value | None) -> ir.Value | None:
    """Give the N x D images that a volume was made of; None if it was made otherwise."""
    node = None if value is None else value.producer()
    if node is None or node.domain or node.op_type != "Transpose":
        return None
    if list(attribute_ints(node, "perm", ())) != DEPTH_FIRST:
        return None
    inner = node.inputs[0].producer() if node.inputs[0] is not None else None
    if inner is None or inner.domain or inner.op_type != "Reshape":
        return None
    before, after = static_shape(inner.inputs[0]), static_shape(node.inputs[0])
    if before is None or after is None or len(before) != 4 or len(after) != 5:
        return None
    return inner.inputs[0] if before == (after[0] * after[1], *after[2:]) else None


class OfVolume(OperatorRule):
    """A node of one operator on a volume, whose first output alone is used."""

    def __init__(self, operator: str, above: str | None = None) -> None:
        super().__init__(_NAME, operator, above=above)

    def may_fire(self, node: ir.Node) -> bool:
        """See `Rule`."""
        return rank(node.outputs[0]) == 5

    def check(self, context: Any, x: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        node, before, after = y.producer(), static_shape(x), static_shape(y)
        if before is None or after is None or not len(before) == len(after) == 5:
            return False
        if 0 in (*before, *after) or not self.takes(x, y):
            return False
        if attribute_string(node, "auto_pad", "NOTSET") != "NOTSET":
            return False
        return only_first_used(node)

    def takes(self, x: ir.Value, y: ir.Value) -> bool:
        """Whether the operator is rewritten for the types of its input and its result."""
        return y.dtype in FLOATS and x.dtype == y.dtype

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        write = Writer(op, y)
        images = self.images(write, x, y.producer())
        return None if images is None else write.volume(images)

    def images(self, write: Writer, x: ir.Value, node: ir.Node) -> ir.Value | None:
        """Write the images of the result; None if there are none."""
        raise NotImplementedError


class Window:
    """The window of a node: its depth, and the attributes of images and of columns."""

    def __init__(self, node: ir.Node, kernel: Sequence[int]) -> None:
        strides = attribute_ints(node, "strides", ()) or (1, 1, 1)
        dilations = attribute_ints(node, "dilations", ()) or (1, 1, 1)
        pads = attribute_ints(node, "pads", ()) or (0,) * 6
        self.size, self.stride, self.dilation = kernel[0], strides[0], dilations[0]
        self.before, self.after = pads[0], pads[3]
        self.flat: dict[str, Any] = {
            "kernel_shape": list(kernel[1:]), "strides": list(strides[1:]),
            "dilations": list(dilations[1:]), "pads": [*pads[1:3], *pads[4:]],
        }  # fmt: skip
        # Of a column whose rows are the depths.
        self.deep: dict[str, Any] = {
            "kernel_shape": [self.size, 1], "strides": [self.stride, 1],
            "dilations": [self.dilation, 1], "pads": [self.before, 0, self.after, 0],
        }  # fmt: skip

    @property
    def is_single(self) -> bool:
        """Whether each depth of the result sees the same depth of the input alone."""
        return (self.size, self.stride, self.before, self.after) == (1, 1, 0, 0)


def made_images(write: Writer, volume: ir.Value) -> ir.Value:
    """Give the images of a volume."""
    images = images_of(volume)
    if images is not None:
        return images
    n, c, d, h, w = shape_of(volume)
    array = constant(volume)
    if array is not None:
        return write.constant(array.transpose(DEPTH_FIRST).reshape(n * d, c, h, w))
    turned = write.op.Transpose(volume, perm=DEPTH_FIRST)
    turned.type, turned.shape = volume.type, ir.Shape((n, d, c, h, w))
    flat: ir.Value = write.op.Reshape(turned, write.ints(n * d, c, h, w), allowzero=1)
    flat.type, flat.shape = volume.type, ir.Shape((n * d, c, h, w))
    return flat


def dequantizes(node: ir.Node | None) -> bool:
    """Whether a node is a DequantizeLinear, of one scale or of one for each index of an axis."""
    if node is None or node.domain or node.op_type != "DequantizeLinear":
        return False
    return not attribute_int(node, "block_size", 0)

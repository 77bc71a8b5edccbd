"""Volumes as images, one for each depth: operators with three spatial axes become those with two.

A window of kd x kh x kw places is a sum, or a maximum, over the depth of windows of kh x kw pixels.
So (N, C, D, H, W) becomes (N, D, C, H, W), whose N x D images are convolved and pooled by the loops
of images; as these keep channels last, that change copies nothing between two of them. Element-wise
operators between them work on these images, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from .. import resizing
from ..operators.table import EXPRESSIONS
from ..values import (
    FLOATS,
    attribute_int,
    attribute_ints,
    attribute_string,
    constant,
    is_constant,
    only_first_used,
    static_shape,
)
from .driver import OperatorRule, Rule

__all__ = ["RULES"]

# From (N, C, D, H, W) to (N, D, C, H, W), and back.
_DEPTH_FIRST = [0, 2, 1, 3, 4]
_NAME = "volumes as images"
BYTES = (ir.DataType.INT8, ir.DataType.UINT8)

Shape = tuple[int, ...]


class _Writer:
    """Writes nodes with known shapes for the replacement of a node.

    Parameters
    ----------
    op : object
        onnxscript's builder.
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
        shape = _shape(value)
        turned = self.op.Transpose(value, perm=list(order))
        return self.shaped(turned, [shape[d] for d in order], value)

    def depth_first(self, x: ir.Value) -> ir.Value:
        """Give a volume as (N, D, C, H, W)."""
        if _images_of(x) is not None:
            found = x.producer()
            assert found is not None and found.inputs[0] is not None
            return found.inputs[0]
        return self.transpose(x, *_DEPTH_FIRST)

    def images(self, volume: ir.Value) -> ir.Value:
        """Give (N, D, C, H, W) as N x D images."""
        n, d, *image = _shape(volume)
        return self.reshape(volume, n * d, *image)

    def padded(
        self, volume: ir.Value, before: int, after: int, fill: ir.Value | None = None
    ) -> ir.Value:
        """Add depths of zeros, or of a number, to (N, D, C, H, W)."""
        if not before and not after:
            return volume
        n, d, *image = _shape(volume)
        pads = self.ints(0, before, 0, 0, 0, 0, after, 0, 0, 0)
        operands = [volume, pads] if fill is None else [volume, pads, fill]
        return self.shaped(self.op.Pad(*operands), (n, before + d + after, *image), volume)

    def depths(self, volume: ir.Value, first: int, count: int, step: int = 1) -> ir.Value:
        """Give some depths of (N, D, C, H, W)."""
        n, d, *image = _shape(volume)
        if first == 0 and count == d and step == 1:
            return volume
        last = first + (count - 1) * step + 1
        numbers = (self.ints(number) for number in (first, last, 1, step))
        return self.shaped(self.op.Slice(volume, *numbers), (n, count, *image), volume)

    def column(self, images: ir.Value, n: int) -> ir.Value:
        """Give images of n volumes as (n, H W C, D, 1): as pixels, each depth has one."""
        count, c, h, w = _shape(images)
        pixels = self.reshape(self.transpose(images, 0, 2, 3, 1), n, count // n, h * w * c, 1)
        return self.transpose(pixels, 0, 2, 1, 3)

    def from_column(self, column: ir.Value, c: int, h: int, w: int) -> ir.Value:
        """Give what `column` gave as images of c channels again."""
        n, _, d, _ = _shape(column)
        pixels = self.reshape(self.transpose(column, 0, 2, 1, 3), n * d, h, w, c)
        return self.transpose(pixels, 0, 3, 1, 2)

    def volume(self, images: ir.Value) -> ir.Value:
        """Give images as the volume that is replaced: the last node of a replacement."""
        n, c, d, h, w = _shape(self.y)
        back: ir.Value = self.op.Transpose(self.reshape(images, n, d, c, h, w), perm=_DEPTH_FIRST)
        return back


def _shape(value: ir.Value) -> Shape:
    shape = static_shape(value)
    assert shape is not None
    return shape


def _images_of(value: ir.Value | None) -> ir.Value | None:
    """Give the N x D images that a volume was made of; None if it was made otherwise."""
    node = None if value is None else value.producer()
    if node is None or node.domain or node.op_type != "Transpose":
        return None
    if list(attribute_ints(node, "perm", ())) != _DEPTH_FIRST:
        return None
    inner = node.inputs[0].producer() if node.inputs[0] is not None else None
    if inner is None or inner.domain or inner.op_type != "Reshape":
        return None
    before, after = static_shape(inner.inputs[0]), static_shape(node.inputs[0])
    if before is None or after is None or len(before) != 4 or len(after) != 5:
        return None
    return inner.inputs[0] if before == (after[0] * after[1], *after[2:]) else None


class _OfVolume(OperatorRule):
    """A node of one operator on a volume, whose first output alone is used."""

    def __init__(self, operator: str, above: str | None = None) -> None:
        super().__init__(_NAME, operator, above=above)

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
        write = _Writer(op, y)
        images = self.images(write, x, y.producer())
        return None if images is None else write.volume(images)

    def images(self, write: _Writer, x: ir.Value, node: ir.Node) -> ir.Value | None:
        """Write the images of the result; None if there are none."""
        raise NotImplementedError


class _Window:
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


def _kernel(write: _Writer, weight: ir.Value, t: int) -> ir.Value:
    """Give the weights (., ., H, W) of one depth of (., ., D, H, W), known ones as known ones."""
    shape = _shape(weight)
    flat = (*shape[:2], *shape[3:])
    array = constant(weight)
    if array is not None:
        return write.constant(array[:, :, t])
    node = weight.producer()
    integers = constant(node.inputs[0]) if _dequantizes(node) else None
    if node is None or integers is None or attribute_int(node, "axis", 1) % 5 > 1:
        part = write.op.Gather(weight, write.constant(np.array(t, np.int64)), axis=2)
        return write.shaped(part, flat, weight)
    part = write.constant(integers[:, :, t])
    return write.shaped(
        write.op.DequantizeLinear(part, *node.inputs[1:], **node.attributes), flat, weight
    )


def _dequantizes(node: ir.Node | None) -> bool:
    """Whether a node is a DequantizeLinear, of one scale or of one for each index of an axis."""
    if node is None or node.domain or node.op_type != "DequantizeLinear":
        return False
    return not attribute_int(node, "block_size", 0)


class Convolved(_OfVolume):
    """Conv: a sum over the depth of the kernel."""

    def __init__(self) -> None:
        super().__init__("Conv")

    def images(self, write: _Writer, x: ir.Value, node: ir.Node) -> ir.Value | None:
        """See `_OfVolume`."""
        weight = node.inputs[1]
        kernel = static_shape(weight)
        if weight is None or kernel is None or len(kernel) != 5 or 0 in kernel:
            return None
        window = _Window(node, kernel[2:])
        outputs = _shape(write.y)
        volume = write.padded(write.depth_first(x), window.before, window.after)
        shape = (outputs[0] * outputs[2], outputs[1], *outputs[3:])
        total: ir.Value | None = None
        for t in range(window.size):
            seen = write.depths(volume, t * window.dilation, outputs[2], window.stride)
            operands = [write.images(seen), _kernel(write, weight, t)]
            operands += node.inputs[2:] if total is None else ()
            group = attribute_int(node, "group", 1)
            part = write.shaped(write.op.Conv(*operands, group=group, **window.flat), shape)
            total = part if total is None else write.shaped(write.op.Add(part, total), shape)
        return total


class Transposed(_OfVolume):
    """ConvTranspose: each depth modulo the stride is a sum over some depths of the kernel."""

    def __init__(self) -> None:
        super().__init__("ConvTranspose")

    def images(self, write: _Writer, x: ir.Value, node: ir.Node) -> ir.Value | None:
        """See `_OfVolume`."""
        weight = node.inputs[1]
        kernel = static_shape(weight)
        if weight is None or kernel is None or len(kernel) != 5 or 0 in kernel:
            return None
        if attribute_ints(node, "output_shape", ()):
            return None
        volume = write.depth_first(x)
        window = _Window(node, kernel[2:])
        n, channels, depths, *size = _shape(write.y)
        count = -(-depths // window.stride)
        more = attribute_ints(node, "output_padding", ())
        window.flat["group"] = attribute_int(node, "group", 1)
        if more:
            window.flat["output_padding"] = list(more[1:])
        phases = [
            write.reshape(
                self._phase(write, volume, node, weight, window, phase, count),
                n, count, 1, channels, *size,
            )
            for phase in range(window.stride)
        ]  # fmt: skip
        joined = phases[0]
        if len(phases) > 1:
            shape = (n, count, window.stride, channels, *size)
            joined = write.shaped(write.op.Concat(*phases, axis=2), shape)
        whole = write.reshape(joined, n, count * window.stride, channels, *size)
        return write.images(write.depths(whole, 0, depths))

    @staticmethod
    def _phase(
        write: _Writer, volume: ir.Value, node: ir.Node, weight: ir.Value, window: _Window,
        phase: int, count: int,
    ) -> ir.Value:  # fmt: skip
        """Sum `count` depths of the result, `window.stride` apart, from `phase` on."""
        n, channels, _, *size = _shape(write.y)
        shape = (n * count, channels, *size)
        depths = _shape(volume)[1]
        total: ir.Value | None = None
        for t in range(window.size):
            shift, rest = divmod(phase + window.before - t * window.dilation, window.stride)
            first, end = max(shift, 0), min(shift + count, depths)
            if rest or first >= end:
                continue
            seen = write.depths(volume, first, end - first)
            seen = write.padded(seen, first - shift, shift + count - end)
            operands = [write.images(seen), _kernel(write, weight, t)]
            operands += node.inputs[2:] if total is None else ()
            part = write.shaped(write.op.ConvTranspose(*operands, **window.flat), shape)
            total = part if total is None else write.shaped(write.op.Add(part, total), shape)
        if total is None:
            # No depth of the kernel reaches these depths.
            bias = [*node.inputs, None][2]
            assert write.y.dtype is not None
            if bias is None:
                bias = write.constant(np.zeros(1, write.y.dtype.numpy()))
            row = write.reshape(bias, -1, 1, 1)
            row.shape = ir.Shape((*_shape(bias), 1, 1))
            total = write.shaped(write.op.Expand(row, write.ints(*shape)), shape)
        return total


class Pooled(_OfVolume):
    """MaxPool and AveragePool: of images, and then of the depths of each place."""

    def takes(self, x: ir.Value, y: ir.Value) -> bool:
        """See `_OfVolume`: a MaxPool may be of bytes."""
        return super().takes(x, y) or (self.operator == "MaxPool" and x.dtype in BYTES)

    def images(self, write: _Writer, x: ir.Value, node: ir.Node) -> ir.Value | None:
        """See `_OfVolume`."""
        window = _Window(node, attribute_ints(node, "kernel_shape", ()))
        names = ("ceil_mode", "count_include_pad")
        common = {name: node.attributes[name] for name in names if name in node.attributes}
        n, channels, depths, *size = _shape(write.y)
        images = write.images(write.depth_first(x))
        pool = getattr(write.op, self.operator)
        flat = pool(images, **window.flat, **common)
        images = write.shaped(flat, (_shape(images)[0], channels, *size))
        if window.is_single:
            return images
        column = write.column(images, n)
        deep = pool(column, **window.deep, **common)
        deep = write.shaped(deep, (n, _shape(column)[1], depths, 1))
        return write.from_column(deep, channels, *size)


class Resized(_OfVolume):
    """Resize: of images, and then of the depths of each place."""

    def __init__(self) -> None:
        super().__init__("Resize")

    def takes(self, x: ir.Value, y: ir.Value) -> bool:
        """See `_OfVolume`: pixels of bytes may be repeated."""
        nearest = attribute_string(y.producer(), "mode", "nearest") == "nearest"
        return super().takes(x, y) or (nearest and x.dtype in BYTES)

    def images(self, write: _Writer, x: ir.Value, node: ir.Node) -> ir.Value | None:
        """See `_OfVolume`."""
        _, _, *numbers = [*node.inputs, None, None, None][:4]
        attributes = {name: each.value for name, each in node.attributes.items()}
        policy = resizing.word(attributes, "keep_aspect_ratio_policy")
        mode = resizing.word(attributes, "coordinate_transformation_mode")
        if policy != "stretch" or mode == "tf_crop_and_resize":
            return None
        if any(value is not None and not is_constant(value) for value in numbers):
            return None
        given = [None if value is None else constant(value) for value in numbers]
        axes = resizing.axes_resized(_shape(x), given[0], given[1], attributes)
        kept = [axis.inputs == axis.outputs for axis in axes]
        # An axis that keeps its size is not always copied.
        if any(axis.scale != 1 for axis, same in zip(axes, kept, strict=True) if same):
            return None
        if not all(kept[:2]):
            return None
        own = {name: each for name, each in node.attributes.items() if name != "axes"}
        by_scales = given[0] is not None and given[0].size > 0

        def resize(images: ir.Value, *of: resizing.Axis) -> ir.Value:
            shape = (*_shape(images)[:2], *(axis.outputs for axis in of))
            if shape == _shape(images):
                return images
            scales = np.array([1, 1, *(axis.scale for axis in of)], np.float32)
            last = [write.constant(scales)] if by_scales else [None, write.ints(*shape)]
            return write.shaped(write.op.Resize(images, None, *last, **own), shape)

        images = resize(write.images(write.depth_first(x)), *axes[3:])
        if kept[2]:
            return images
        row = resizing.Axis(1, 1, np.float32(1))
        column = resize(write.column(images, axes[0].inputs), axes[2], row)
        return write.from_column(column, *_shape(images)[1:])


class Below(_OfVolume):
    """Element-wise operators of volumes that were made of images."""

    def __init__(self, operator: str) -> None:
        super().__init__(operator, above="Transpose")

    def check(self, context: Any, x: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        shape = static_shape(y)
        return shape is not None and len(shape) == 5 and len(y.producer().outputs) == 1

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        node = y.producer()
        if not any(_images_of(value) is not None for value in node.inputs):
            return None
        write = _Writer(op, y)
        n, c, d, h, w = _shape(y)
        operands: list[ir.Value | None] = []
        for value in node.inputs:
            operand = None if value is None else self._operand(write, value)
            if operand is None and value is not None:
                return None
            operands.append(operand)
        result = op.op(self.operator, *operands, **node.attributes)
        return write.volume(write.shaped(result, (n * d, c, h, w)))

    @staticmethod
    def _operand(write: _Writer, value: ir.Value) -> ir.Value | None:
        """Give an operand that broadcasts with the images; None if there is none."""
        shape = static_shape(value)
        if shape is None:
            return None
        if shape == _shape(write.y):
            return _made_images(write, value)
        if len(shape) < 3:
            return value
        # The depth is the last but two; one that is longer varies from image to image.
        outer, depth, inner = shape[:-3], shape[-3], shape[-2:]
        if depth != 1 or (len(outer) == 2 and outer[0] != 1):
            return None
        array = constant(value)
        target = (*outer[-1:], *inner)
        if array is not None:
            return write.constant(array.reshape(target))
        made = write.op.Reshape(value, write.ints(*target), allowzero=1)
        made.type, made.shape = value.type, ir.Shape(target)
        return made


class Joined(_OfVolume):
    """Concat of volumes along channels, rows or columns."""

    def __init__(self) -> None:
        super().__init__("Concat", above="Transpose")

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        node = y.producer()
        axis = attribute_int(node, "axis", 1) % 5
        known = [value is not None and static_shape(value) is not None for value in node.inputs]
        if axis in (0, 2) or not all(known):
            return None
        if not any(_images_of(value) is not None for value in node.inputs):
            return None
        write = _Writer(op, y)
        images = [_made_images(write, value) for value in node.inputs if value is not None]
        n, c, d, h, w = _shape(y)
        joined = op.Concat(*images, axis=1 if axis == 1 else axis - 1)
        return write.volume(write.shaped(joined, (n * d, c, h, w)))


def _made_images(write: _Writer, volume: ir.Value) -> ir.Value:
    """Give the images of a volume."""
    images = _images_of(volume)
    if images is not None:
        return images
    n, c, d, h, w = _shape(volume)
    array = constant(volume)
    if array is not None:
        return write.constant(array.transpose(_DEPTH_FIRST).reshape(n * d, c, h, w))
    turned = write.op.Transpose(volume, perm=_DEPTH_FIRST)
    turned.type, turned.shape = volume.type, ir.Shape((n, d, c, h, w))
    flat: ir.Value = write.op.Reshape(turned, write.ints(n * d, c, h, w), allowzero=1)
    flat.type, flat.shape = volume.type, ir.Shape((n * d, c, h, w))
    return flat


RULES: tuple[Rule, ...] = (
    Joined(),
    Convolved(),
    Transposed(),
    Resized(),
    *(Pooled(operator) for operator in ("AveragePool", "MaxPool")),
    *(Below(operator) for operator in EXPRESSIONS),
)
"""Rules of this module, in the order in which they are tried."""

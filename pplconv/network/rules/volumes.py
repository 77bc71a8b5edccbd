"""Volumes as images, one for each depth: operators with three spatial axes become those with two.

A window of kd x kh x kw places is a sum, or a maximum, over the depth of windows of kh x kw pixels.
So (N, C, D, H, W) becomes (N, D, C, H, W), whose N x D images are convolved and pooled by the loops
of images; as these keep channels last, that change copies nothing between two of them. Pools and
Resize then go over the depths of each place, which are a column of pixels. Element-wise operators
between them work on these images, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from .. import resizing
from ..operators.table import EXPRESSIONS
from ..values import (
    attribute_int,
    attribute_ints,
    attribute_string,
    constant,
    is_constant,
    static_shape,
)
from .driver import Rule
from .volume_pieces import (
    BYTES,
    OfVolume,
    Window,
    Writer,
    dequantizes,
    images_of,
    made_images,
    shape_of,
)

__all__ = ["RULES"]


def _kernel(write: Writer, weight: ir.Value, t: int) -> ir.Value:
    """Give the weights (., ., H, W) of one depth of (., ., D, H, W), known ones as known ones."""
    shape = shape_of(weight)
    flat = (*shape[:2], *shape[3:])
    array = constant(weight)
    if array is not None:
        return write.constant(array[:, :, t])
    node = weight.producer()
    integers = constant(node.inputs[0]) if dequantizes(node) else None
    if node is None or integers is None or attribute_int(node, "axis", 1) % 5 > 1:
        part = write.op.Gather(weight, write.constant(np.array(t, np.int64)), axis=2)
        return write.shaped(part, flat, weight)
    part = write.constant(integers[:, :, t])
    return write.shaped(
        write.op.DequantizeLinear(part, *node.inputs[1:], **node.attributes), flat, weight
    )


class Convolved(OfVolume):
    """Conv: a sum over the depth of the kernel."""

    def __init__(self) -> None:
        super().__init__("Conv")

    def images(self, write: Writer, x: ir.Value, node: ir.Node) -> ir.Value | None:
        """See `OfVolume`."""
        weight = node.inputs[1]
        kernel = static_shape(weight)
        if weight is None or kernel is None or len(kernel) != 5 or 0 in kernel:
            return None
        window = Window(node, kernel[2:])
        outputs = shape_of(write.y)
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


class Transposed(OfVolume):
    """ConvTranspose: each depth modulo the stride is a sum over some depths of the kernel."""

    def __init__(self) -> None:
        super().__init__("ConvTranspose")

    def images(self, write: Writer, x: ir.Value, node: ir.Node) -> ir.Value | None:
        """See `OfVolume`."""
        weight = node.inputs[1]
        kernel = static_shape(weight)
        if weight is None or kernel is None or len(kernel) != 5 or 0 in kernel:
            return None
        if attribute_ints(node, "output_shape", ()):
            return None
        volume = write.depth_first(x)
        window = Window(node, kernel[2:])
        n, channels, depths, *size = shape_of(write.y)
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
        write: Writer, volume: ir.Value, node: ir.Node, weight: ir.Value, window: Window,
        phase: int, count: int,
    ) -> ir.Value:  # fmt: skip
        """Sum `count` depths of the result, `window.stride` apart, from `phase` on."""
        n, channels, _, *size = shape_of(write.y)
        shape = (n * count, channels, *size)
        depths = shape_of(volume)[1]
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
            row.shape = ir.Shape((*shape_of(bias), 1, 1))
            total = write.shaped(write.op.Expand(row, write.ints(*shape)), shape)
        return total


class Pooled(OfVolume):
    """MaxPool and AveragePool: of images, and then of the depths of each place."""

    def takes(self, x: ir.Value, y: ir.Value) -> bool:
        """See `OfVolume`: a MaxPool may be of bytes."""
        return super().takes(x, y) or (self.operator == "MaxPool" and x.dtype in BYTES)

    def images(self, write: Writer, x: ir.Value, node: ir.Node) -> ir.Value | None:
        """See `OfVolume`."""
        window = Window(node, attribute_ints(node, "kernel_shape", ()))
        names = ("ceil_mode", "count_include_pad")
        common = {name: node.attributes[name] for name in names if name in node.attributes}
        n, channels, depths, *size = shape_of(write.y)
        images = write.images(write.depth_first(x))
        pool = getattr(write.op, self.operator)
        flat = pool(images, **window.flat, **common)
        images = write.shaped(flat, (shape_of(images)[0], channels, *size))
        if window.is_single:
            return images
        column = write.column(images, n)
        deep = pool(column, **window.deep, **common)
        deep = write.shaped(deep, (n, shape_of(column)[1], depths, 1))
        return write.from_column(deep, channels, *size)


class Resized(OfVolume):
    """Resize: of images, and then of the depths of each place."""

    def __init__(self) -> None:
        super().__init__("Resize")

    def takes(self, x: ir.Value, y: ir.Value) -> bool:
        """See `OfVolume`: pixels of bytes may be repeated."""
        nearest = attribute_string(y.producer(), "mode", "nearest") == "nearest"
        return super().takes(x, y) or (nearest and x.dtype in BYTES)

    def images(self, write: Writer, x: ir.Value, node: ir.Node) -> ir.Value | None:
        """See `OfVolume`."""
        _, _, *numbers = [*node.inputs, None, None, None][:4]
        attributes = {name: each.value for name, each in node.attributes.items()}
        policy = resizing.word(attributes, "keep_aspect_ratio_policy")
        mode = resizing.word(attributes, "coordinate_transformation_mode")
        if policy != "stretch" or mode == "tf_crop_and_resize":
            return None
        if any(value is not None and not is_constant(value) for value in numbers):
            return None
        given = [None if value is None else constant(value) for value in numbers]
        axes = resizing.axes_resized(shape_of(x), given[0], given[1], attributes)
        kept = [axis.inputs == axis.outputs for axis in axes]
        # An axis that keeps its size is not always copied.
        if any(axis.scale != 1 for axis, same in zip(axes, kept, strict=True) if same):
            return None
        if not all(kept[:2]):
            return None
        own = {name: each for name, each in node.attributes.items() if name != "axes"}
        by_scales = given[0] is not None and given[0].size > 0

        def resize(images: ir.Value, *of: resizing.Axis) -> ir.Value:
            shape = (*shape_of(images)[:2], *(axis.outputs for axis in of))
            if shape == shape_of(images):
                return images
            scales = np.array([1, 1, *(axis.scale for axis in of)], np.float32)
            last = [write.constant(scales)] if by_scales else [None, write.ints(*shape)]
            return write.shaped(write.op.Resize(images, None, *last, **own), shape)

        images = resize(write.images(write.depth_first(x)), *axes[3:])
        if kept[2]:
            return images
        row = resizing.Axis(1, 1, np.float32(1))
        column = resize(write.column(images, axes[0].inputs), axes[2], row)
        return write.from_column(column, *shape_of(images)[1:])


class Below(OfVolume):
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
        if not any(images_of(value) is not None for value in node.inputs):
            return None
        write = Writer(op, y)
        n, c, d, h, w = shape_of(y)
        operands: list[ir.Value | None] = []
        for value in node.inputs:
            operand = None if value is None else self._operand(write, value)
            if operand is None and value is not None:
                return None
            operands.append(operand)
        result = op.op(self.operator, *operands, **node.attributes)
        return write.volume(write.shaped(result, (n * d, c, h, w)))

    @staticmethod
    def _operand(write: Writer, value: ir.Value) -> ir.Value | None:
        """Give an operand that broadcasts with the images; None if there is none."""
        shape = static_shape(value)
        if shape is None:
            return None
        if shape == shape_of(write.y):
            return made_images(write, value)
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


class Joined(OfVolume):
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
        if not any(images_of(value) is not None for value in node.inputs):
            return None
        write = Writer(op, y)
        images = [made_images(write, value) for value in node.inputs if value is not None]
        n, c, d, h, w = shape_of(y)
        joined = op.Concat(*images, axis=1 if axis == 1 else axis - 1)
        return write.volume(write.shaped(joined, (n * d, c, h, w)))


RULES: tuple[Rule, ...] = (
    Joined(),
    Convolved(),
    Transposed(),
    Resized(),
    *(Pooled(operator) for operator in ("AveragePool", "MaxPool")),
    *(Below(operator) for operator in EXPRESSIONS),
)
"""Rules of this module, in the order in which they are tried."""

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

from ..operators.table import EXPRESSIONS
from ..values import (
    FLOATS,
    attribute_int,
    attribute_ints,
    attribute_string,
    constant,
    only_first_used,
    static_shape,
)
from .driver import OperatorRule, Rule

__all__ = ["RULES"]

# From (N, C, D, H, W) to (N, D, C, H, W), and back.
_DEPTH_FIRST = [0, 2, 1, 3, 4]
_NAME = "volumes as images"

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
        made: ir.Value = self.op.initializer(ir.tensor(np.ascontiguousarray(array)), name=name)
        return made

    def ints(self, *numbers: int) -> ir.Value:
        """Add a list of integers."""
        return self.constant(np.array(numbers, np.int64))

    def shaped(self, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        """Note the shape of a new value."""
        value.type, value.shape = self.y.type, ir.Shape(shape)
        return value

    def reshape(self, value: ir.Value, *shape: int) -> ir.Value:
        """Give a value another shape."""
        return self.shaped(self.op.Reshape(value, self.ints(*shape), allowzero=1), shape)

    def depth_first(self, x: ir.Value, shape: Shape) -> ir.Value:
        """Give a volume as (N, D, C, H, W)."""
        if _images_of(x) is not None:
            found = x.producer()
            assert found is not None and found.inputs[0] is not None
            return found.inputs[0]
        n, c, d, h, w = shape
        return self.shaped(self.op.Transpose(x, perm=_DEPTH_FIRST), (n, d, c, h, w))

    def images(self, volume: ir.Value) -> ir.Value:
        """Give (N, D, C, H, W) as N x D images."""
        n, d, *image = _shape(volume)
        return self.reshape(volume, n * d, *image)

    def padded(self, volume: ir.Value, before: int, after: int, fill: float = 0.0) -> ir.Value:
        """Add depths to (N, D, C, H, W)."""
        if not before and not after:
            return volume
        n, d, *image = _shape(volume)
        assert self.y.dtype is not None
        pads = self.ints(0, before, 0, 0, 0, 0, after, 0, 0, 0)
        value = self.constant(np.array(fill).astype(self.y.dtype.numpy()))
        added = self.op.Pad(volume, pads, value)
        return self.shaped(added, (n, before + d + after, *image))

    def depths(self, volume: ir.Value, first: int, count: int, step: int = 1) -> ir.Value:
        """Give some depths of (N, D, C, H, W)."""
        n, d, *image = _shape(volume)
        if first == 0 and count == d and step == 1:
            return volume
        last = first + (count - 1) * step + 1
        numbers = (self.ints(number) for number in (first, last, 1, step))
        return self.shaped(self.op.Slice(volume, *numbers), (n, count, *image))

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
        if 0 in (*before, *after) or y.dtype not in FLOATS or x.dtype != y.dtype:
            return False
        if attribute_string(node, "auto_pad", "NOTSET") != "NOTSET":
            return False
        return only_first_used(node)

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        write = _Writer(op, y)
        images = self.images(write, write.depth_first(x, _shape(x)), y.producer())
        return None if images is None else write.volume(images)

    def images(self, write: _Writer, volume: ir.Value, node: ir.Node) -> ir.Value | None:
        """Write the images of the result, from (N, D, C, H, W); None if there are none."""
        raise NotImplementedError


class _Window:
    """The window of a node: its depth, and the attributes of its two other axes."""

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

    def missing(self, depths: int, outputs: int) -> int:
        """Depths that the last window lacks, if sizes are rounded up."""
        end = (outputs - 1) * self.stride + (self.size - 1) * self.dilation + 1
        return max(end - depths - self.before - self.after, 0)


class Convolved(_OfVolume):
    """Conv: a sum over the depth of the kernel."""

    def __init__(self) -> None:
        super().__init__("Conv")

    def images(self, write: _Writer, volume: ir.Value, node: ir.Node) -> ir.Value | None:
        """See `_OfVolume`."""
        weight = constant(node.inputs[1])
        if weight is None or weight.ndim != 5 or weight.dtype.kind != "f":
            return None
        window = _Window(node, weight.shape[2:])
        outputs = _shape(write.y)
        volume = write.padded(volume, window.before, window.after)
        shape = (outputs[0] * outputs[2], outputs[1], *outputs[3:])
        total: ir.Value | None = None
        for t in range(window.size):
            seen = write.depths(volume, t * window.dilation, outputs[2], window.stride)
            operands = [write.images(seen), write.constant(weight[:, :, t])]
            operands += node.inputs[2:] if total is None else ()
            group = attribute_int(node, "group", 1)
            part = write.shaped(write.op.Conv(*operands, group=group, **window.flat), shape)
            total = part if total is None else write.shaped(write.op.Add(part, total), shape)
        return total


class Transposed(_OfVolume):
    """ConvTranspose: each depth modulo the stride is a sum over some depths of the kernel."""

    def __init__(self) -> None:
        super().__init__("ConvTranspose")

    def images(self, write: _Writer, volume: ir.Value, node: ir.Node) -> ir.Value | None:
        """See `_OfVolume`."""
        weight = constant(node.inputs[1])
        if weight is None or weight.ndim != 5 or weight.dtype.kind != "f":
            return None
        if attribute_ints(node, "output_shape", ()):
            return None
        window = _Window(node, weight.shape[2:])
        n, channels, depths, *size = _shape(write.y)
        count = -(-depths // window.stride)
        more = attribute_ints(node, "output_padding", ())
        window.flat["group"] = attribute_int(node, "group", 1)
        if more:
            window.flat["output_padding"] = list(more[1:])
        phases: list[ir.Value] = []
        for phase in range(window.stride):
            total = self._phase(write, volume, node, weight, window, phase, count)
            if total is None:
                return None
            phases.append(write.reshape(total, n, count, 1, channels, *size))
        joined = phases[0]
        if len(phases) > 1:
            shape = (n, count, window.stride, channels, *size)
            joined = write.shaped(write.op.Concat(*phases, axis=2), shape)
        whole = write.reshape(joined, n, count * window.stride, channels, *size)
        return write.images(write.depths(whole, 0, depths))

    @staticmethod
    def _phase(
        write: _Writer, volume: ir.Value, node: ir.Node, weight: Any, window: _Window, phase: int,
        count: int,
    ) -> ir.Value | None:  # fmt: skip
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
            operands = [write.images(seen), write.constant(weight[:, :, t])]
            operands += node.inputs[2:] if total is None else ()
            part = write.shaped(write.op.ConvTranspose(*operands, **window.flat), shape)
            total = part if total is None else write.shaped(write.op.Add(part, total), shape)
        return total


class Pooled(_OfVolume):
    """MaxPool and AveragePool: of images, and then over the depth."""

    def images(self, write: _Writer, volume: ir.Value, node: ir.Node) -> ir.Value | None:
        """See `_OfVolume`."""
        window = _Window(node, attribute_ints(node, "kernel_shape", ()))
        n, channels, depths, *size = _shape(write.y)
        before = _shape(volume)[1]
        average = self.operator == "AveragePool"
        flat = {**window.flat, "ceil_mode": attribute_int(node, "ceil_mode", 0)}
        padded = bool(attribute_int(node, "count_include_pad", 0))
        if average:
            flat["count_include_pad"] = int(padded)
        flatly = getattr(write.op, self.operator)(write.images(volume), **flat)
        pooled = write.reshape(
            write.shaped(flatly, (n * before, channels, *size)), n, before, channels, *size
        )
        missing = window.missing(before, depths)
        fill = 0.0 if average else -np.inf
        pooled = write.padded(pooled, window.before, window.after + missing, fill)
        shape = (n * depths, channels, *size)
        total: ir.Value | None = None
        for t in range(window.size):
            seen = write.images(write.depths(pooled, t * window.dilation, depths, window.stride))
            if total is None:
                total = seen
            else:
                join = write.op.Add if average else write.op.Max
                total = write.shaped(join(seen, total), shape)
        if not average or total is None:
            return total
        factors = self._factors(window, before, depths, padded)
        assert write.y.dtype is not None
        factors = np.tile(factors, n).astype(write.y.dtype.numpy())
        scale = write.constant(factors.reshape(-1, 1, 1, 1))
        return write.shaped(write.op.Mul(total, scale), shape)

    @staticmethod
    def _factors(window: _Window, depths: int, outputs: int, padded: bool) -> Any:
        """Give one over the depths that each window counts."""
        start = np.arange(outputs) * window.stride - window.before
        taps = start[:, np.newaxis] + np.arange(window.size) * window.dilation
        end = depths + (window.after if padded else 0)
        counted = (taps < end) & (taps >= (-window.before if padded else 0))
        return 1 / np.maximum(counted.sum(1), 1)


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
    *(Pooled(operator) for operator in ("AveragePool", "MaxPool")),
    *(Below(operator) for operator in EXPRESSIONS),
)
"""Rules of this module, in the order in which they are tried."""

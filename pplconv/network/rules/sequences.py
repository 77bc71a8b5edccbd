"""Sequences as images of one row: operators with one spatial axis become those with two.

A window of k places becomes one of 1 x k pixels between an Unsqueeze and a Squeeze, which copy
nothing. Then the Squeeze moves down through operators that work on images as well: so activations
still follow their convolution, and an Unsqueeze and a Squeeze that meet cancel out.
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
    rank,
)
from .driver import OperatorRule, Rule
from .pads import amounts_of

__all__ = ["RULES"]

_NAME = "sequences as images of one row"
# The axis of the single row, of images (N, C, 1, L).
_ROW = 2
_WINDOWS = ("AveragePool", "Conv", "ConvInteger", "ConvTranspose", "LpPool", "MaxPool")
_GLOBAL = ("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool")
# Attributes of windows with a number for each spatial axis, and the number for the row.
_OF_AXES = {"dilations": 1, "kernel_shape": 1, "output_padding": 0, "strides": 1}
# Operators whose further operands belong to channels, or are single numbers.
_OF_CHANNELS = ("BatchNormalization", "InstanceNormalization", "LRN")
_SCALED = ("QuantizeLinear", "DequantizeLinear")


def _with_row(shape: ir.Shape | None) -> ir.Shape | None:
    """Insert the row into the shape of a sequence."""
    return None if shape is None else ir.Shape([*shape[:_ROW], 1, *shape[_ROW:]])


def _axes(op: Any, value: ir.Value, axis: int) -> ir.Value:
    axes: ir.Value = op.initializer(ir.Tensor(np.array([axis], np.int64)), name=f"{value.name}_row")
    return axes


def _unsqueeze(op: Any, value: ir.Value, axis: int, shape: ir.Shape | None) -> ir.Value:
    image: ir.Value = op.Unsqueeze(value, _axes(op, value, axis))
    image.type, image.shape = value.type, shape
    return image


def _squeezed(value: ir.Value | None) -> ir.Value | None:
    """Give the image whose only row a value is; None if it is no such sequence."""
    node = None if value is None else value.producer()
    if node is None or node.domain or node.op_type != "Squeeze" or len(node.inputs) < 2:
        return None
    axes, image = constant(node.inputs[1]), node.inputs[0]
    if axes is None or rank(image) != 4 or [int(a) % 4 for a in axes.reshape(-1)] != [_ROW]:
        return None
    return image


def _below(op: Any, y: ir.Value, image: ir.Value) -> ir.Value:
    """Squeeze an image, to replace the sequence `y`."""
    image.type, image.shape = y.type, _with_row(y.shape)
    sequence: ir.Value = op.Squeeze(image, _axes(op, y, _ROW))
    return sequence


def _counted(axis: int) -> int:
    """Give the axis of an image that is this axis of its sequence."""
    axis %= 3
    return axis + 1 if axis >= _ROW else axis


class _OneOperator(OperatorRule):
    """A node of one operator whose first output alone is used."""

    def __init__(self, operator: str, above: str | None = None) -> None:
        super().__init__(_NAME, operator, above)

    def may_fire(self, node: ir.Node) -> bool:
        """See `Rule`."""
        return rank(node.outputs[0]) == 3

    def check(self, context: Any, x: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        return rank(y) == 3 and only_first_used(y.producer())

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        node = y.producer()
        inputs, attributes = self.operands(op, node), self.attributes(node)
        if inputs is None or attributes is None:
            return None
        return _below(op, y, op.op(self.operator, *inputs, **attributes))

    def operands(self, op: Any, node: ir.Node) -> list[ir.Value | None] | None:
        """Give the operands of the node of images; None if there is none."""
        raise NotImplementedError

    def attributes(self, node: ir.Node) -> dict[str, Any] | None:
        """Give its attributes; None if they are not known."""
        return dict(node.attributes)


class Windows(_OneOperator):
    """Convolutions and pools along one axis, and pools of all of it."""

    def check(self, context: Any, x: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        return rank(x) == 3 and super().check(context, x, y)

    def operands(self, op: Any, node: ir.Node) -> list[ir.Value | None] | None:
        """The input, and weights, with a row; a bias as it is."""
        x, *others = node.inputs
        images: list[ir.Value | None] = [_unsqueeze(op, x, _ROW, _with_row(x.shape))]
        if others:
            weight = _weights_with_row(op, others[0])
            if weight is None:
                return None
            images.append(weight)
        return [*images, *others[1:]]

    def attributes(self, node: ir.Node) -> dict[str, Any] | None:
        """Those of windows with a number for the row."""
        wide = dict(node.attributes)
        for name, number in _OF_AXES.items():
            given = attribute_ints(node, name, ())
            if given:
                wide[name] = [number, *given]
        pads = attribute_ints(node, "pads", ())
        if pads:
            wide["pads"] = [0, pads[0], 0, pads[1]]
        wanted = attribute_ints(node, "output_shape", ())
        if wanted:
            wide["output_shape"] = [1, wanted[-1]]
        return wide


class Resized(_OneOperator):
    """Resize of a sequence, by constant scales or sizes."""

    def check(self, context: Any, x: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        node = y.producer()
        mode = attribute_string(node, "coordinate_transformation_mode", "half_pixel")
        policy = attribute_string(node, "keep_aspect_ratio_policy", "stretch")
        usual = mode != "tf_crop_and_resize" and policy == "stretch"
        # onnxruntime rounds bytes of images otherwise than those of sequences.
        moved = attribute_string(node, "mode", "nearest") == "nearest"
        fits = rank(x) == 3 and (moved or x.dtype in FLOATS)
        return usual and fits and super().check(context, x, y)

    def operands(self, op: Any, node: ir.Node) -> list[ir.Value | None] | None:
        """The image; scales and sizes have a 1 inserted for the row."""
        x, _, *numbers = [*node.inputs, None, None, None][:4]
        assert x is not None
        axes = attribute_ints(node, "axes", ())
        image = _unsqueeze(op, x, _ROW, _with_row(x.shape))
        inserted: list[ir.Value | None] = [image, None]
        for value in numbers:
            array = constant(value)
            if value is None or axes or (array is not None and not array.size):
                inserted.append(value)
            elif array is None or array.size != 3:
                return None
            else:
                wide = np.insert(array.reshape(-1), _ROW, 1)
                inserted.append(op.initializer(ir.Tensor(wide), name=f"{value.name}_row"))
        return inserted

    def attributes(self, node: ir.Node) -> dict[str, Any] | None:
        """The axes, counted with the row."""
        axes = [_counted(axis) for axis in attribute_ints(node, "axes", ())]
        return {**node.attributes, **({"axes": axes} if axes else {})}


class Below(_OneOperator):
    """Element-wise operators and those of channels, of images in place of their rows."""

    def __init__(self, operator: str) -> None:
        super().__init__(operator, above="Squeeze")

    def operands(self, op: Any, node: ir.Node) -> list[ir.Value | None] | None:
        """Images in place of sequences; the row is the last but one axis of other operands."""
        if not any(_squeezed(value) is not None for value in node.inputs):
            return None
        if self.operator in (*_OF_CHANNELS, *_SCALED):
            image = _squeezed(node.inputs[0])
            return None if image is None else [image, *node.inputs[1:]]
        return _all_images(op, node.inputs)


class Joined(Below):
    """Concat of sequences."""

    def attributes(self, node: ir.Node) -> dict[str, Any] | None:
        """The axis, counted with the row."""
        return {"axis": _counted(attribute_int(node, "axis", 0))}


class Padded(Below):
    """Pad of a sequence, by constant amounts."""

    def operands(self, op: Any, node: ir.Node) -> list[ir.Value | None] | None:
        """The amounts of all axes, none for the row."""
        image, amounts = _squeezed(node.inputs[0]), amounts_of(node, 3)
        if image is None or amounts is None:
            return None
        wide = np.insert(np.array(amounts, np.int64), _ROW, 0, axis=1).reshape(-1)
        pads = op.initializer(ir.Tensor(wide), name=f"{node.outputs[0].name}_pads")
        return [image, pads, *node.inputs[2:3]]


class Quantized(Below):
    """QuantizeLinear and DequantizeLinear, of one scale or one for each index of an axis."""

    def attributes(self, node: ir.Node) -> dict[str, Any] | None:
        """The axis, counted with the row; None for scales of blocks."""
        return _scaled_with_row(node)


class Cancelled(Rule):
    """An Unsqueeze of the row that a Squeeze has taken away."""

    def __init__(self) -> None:
        super().__init__(_NAME, "Unsqueeze", above="Squeeze")

    def pattern(self, op: Any, x: Any, axes: Any) -> Any:
        """See `Rule`."""
        return op.Unsqueeze(x, axes)

    def check(self, context: Any, x: ir.Value, axes: ir.Value) -> bool:
        """See `Rule`."""
        added = constant(axes)
        return (
            added is not None
            and _squeezed(x) is not None
            and [int(a) % 4 for a in added.reshape(-1)] == [_ROW]
        )

    def rewrite(self, op: Any, x: ir.Value, axes: ir.Value) -> Any:
        """See `Rule`."""
        return _squeezed(x)


def _scaled_with_row(node: ir.Node) -> dict[str, Any] | None:
    """Give the attributes of a quantization for an array with a row; None for blocks."""
    if attribute_int(node, "block_size", 0):
        return None
    return {**node.attributes, "axis": _counted(attribute_int(node, "axis", 1))}


def _all_images(op: Any, values: Sequence[ir.Value | None]) -> list[ir.Value | None] | None:
    """Give operands that broadcast with images as the given ones do with their rows."""
    images: list[ir.Value | None] = []
    for value in values:
        image = None if value is None else _squeezed(value)
        if value is not None and image is None:
            image = _with_axis(op, value)
            if image is None:
                return None
        images.append(image)
    return images


def _weights_with_row(op: Any, value: ir.Value) -> ir.Value | None:
    """Insert the row into weights; into integers where they are dequantized constants."""
    node = value.producer()
    if node is None or node.domain or node.op_type != "DequantizeLinear" or rank(value) != 3:
        return _with_axis(op, value)
    attributes = _scaled_with_row(node)
    if attributes is None or constant(node.inputs[0]) is None:
        return _with_axis(op, value)
    integers = _with_axis(op, node.inputs[0])
    weights: ir.Value = op.DequantizeLinear(integers, *node.inputs[1:], **attributes)
    weights.type, weights.shape = value.type, _with_row(value.shape)
    return weights


def _with_axis(op: Any, value: ir.Value) -> ir.Value | None:
    """Insert an axis before the last of two or three; None if the number of axes is unknown."""
    axes = rank(value)
    if axes is None or axes > 3:
        return None
    if axes < 2:
        return value
    array = constant(value)
    if array is not None:
        made: ir.Value = op.initializer(
            ir.Tensor(np.expand_dims(array, -2), dtype=value.dtype), name=f"{value.name}_row"
        )
        return made
    shape = value.shape
    assert shape is not None
    return _unsqueeze(op, value, axes - 1, ir.Shape([*shape[:-1], 1, shape[-1]]))


RULES: tuple[Rule, ...] = (
    Cancelled(),
    *(Windows(operator) for operator in _WINDOWS),
    *(Windows(operator) for operator in _GLOBAL),
    Resized("Resize"),
    *(Below(operator) for operator in (*EXPRESSIONS, *_OF_CHANNELS)),
    *(Quantized(operator) for operator in _SCALED),
    Joined("Concat"),
    Padded("Pad"),
)
"""Rules of this module, in the order in which they are tried."""

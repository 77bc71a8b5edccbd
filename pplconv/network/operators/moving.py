"""Conditions under which a node only moves elements, for operators that can do more."""

from __future__ import annotations

from ..onnx_later import ir
from ..values import attribute_string, scalar

__all__ = ["pads_with_zeros", "repeats_pixels"]


def pads_with_zeros(node: ir.Node) -> bool:
    """Whether a Pad adds the image's own elements, or zeros."""
    value = node.inputs[2] if len(node.inputs) > 2 else None
    filled = attribute_string(node, "mode", "constant") == "constant"
    return not filled or value is None or scalar(value) == 0


def repeats_pixels(node: ir.Node) -> bool:
    """Whether a Resize takes nearest pixels, without a region that could add other values."""
    cuts = attribute_string(node, "coordinate_transformation_mode", "half_pixel")
    nearest = attribute_string(node, "mode", "nearest") == "nearest"
    return nearest and cuts != "tf_crop_and_resize"

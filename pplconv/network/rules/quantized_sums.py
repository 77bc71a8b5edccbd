"""Sums and averages of quantized values, between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from ..fused_nodes import DOMAIN
from ..integer_nodes import QUANTIZED_ADD, QUANTIZED_AVERAGE, dequantized, is_normal, numbers
from ..quantized_values import Quantization
from ..values import attribute_int, attribute_ints, constant, static_shape
from .driver import Rule
from .integer_fusing import bounds_of, stored_as

__all__ = ["RULES"]


class Addition(Rule):
    """A sum of two quantized values of one shape, optionally clamped, quantized again."""

    def __init__(self, activation: str) -> None:
        super().__init__("Add of integers", "QuantizeLinear", above=activation or "Add")
        self.activation = activation

    def pattern(self, op: Any, a: Any, b: Any) -> Any:
        """See `Rule`."""
        y = op.Add(a, b)
        if self.activation:
            y = getattr(op, self.activation)(y, _allow_other_inputs=True, _outputs=["clamped"])
        return op.QuantizeLinear(y, _allow_other_inputs=True, _outputs=["z"])

    def check(
        self, context: Any, a: ir.Value, b: ir.Value, z: ir.Value, clamped: ir.Value | None = None
    ) -> bool:
        """See `Rule`."""
        stored, first, second = stored_as(z), dequantized(a), dequantized(b)
        if stored is None or first is None or second is None:
            return False
        shape = static_shape(a)
        if shape is None or static_shape(b) != shape:
            return False
        if clamped is not None and bounds_of(clamped.producer()) is None:
            return False
        return all(is_normal(q.one_scale / stored.one_scale) for _, q in (first, second))

    def rewrite(
        self, op: Any, a: ir.Value, b: ir.Value, z: ir.Value, clamped: ir.Value | None = None
    ) -> Any:
        """See `Rule`."""
        stored, first, second = stored_as(z), dequantized(a), dequantized(b)
        assert stored is not None and first is not None and second is not None
        bounds = None if clamped is None else bounds_of(clamped.producer())
        low, high = bounds or (-math.inf, math.inf)
        own = numbers(
            a_scale=first[1].one_scale / stored.one_scale,
            a_zero=first[1].one_zero,
            b_scale=second[1].one_scale / stored.one_scale,
            b_zero=second[1].one_zero,
            y_zero=stored.one_zero,
            low=low / stored.one_scale,
            high=high / stored.one_scale,
        )
        return op.op(QUANTIZED_ADD, first[0], second[0], _domain=DOMAIN, **own)


class Average(Rule):
    """An average with one divisor for all windows, between quantized values."""

    def __init__(self, operator: str) -> None:
        super().__init__("average of integers", "QuantizeLinear", above=operator)
        self.operator = operator

    def pattern(self, op: Any, x: Any) -> Any:
        """See `Rule`."""
        y = getattr(op, self.operator)(x, _allow_other_inputs=True, _outputs=["y"])
        return op.QuantizeLinear(y, _allow_other_inputs=True, _outputs=["z"])

    def check(self, context: Any, x: ir.Value, y: ir.Value, z: ir.Value) -> bool:
        """See `Rule`."""
        return self._numbers(x, y, z) is not None

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value, z: ir.Value) -> Any:
        """See `Rule`."""
        found = dequantized(x)
        own = self._numbers(x, y, z)
        assert found is not None and own is not None
        return op.op(QUANTIZED_AVERAGE, found[0], _domain=DOMAIN, **own)

    def _numbers(self, x: ir.Value, y: ir.Value, z: ir.Value) -> dict[str, ir.Attr] | None:
        stored, found = stored_as(z), dequantized(x)
        windows = _windows(y.producer())
        if stored is None or found is None or windows is None:
            return None
        return _average(found[1], stored, windows)


def _average(
    x: Quantization, y: Quantization, windows: dict[str, tuple[int, ...]]
) -> dict[str, ir.Attr] | None:
    """Attributes of the node; None if its sums or factor exceed the loops' range."""
    count = math.prod(windows["kernel_shape"])
    multiplier = x.one_scale / (y.one_scale * count)
    if 255 * count >= 2**31 or not is_normal(multiplier):
        return None
    own = numbers(multiplier=multiplier, x_zero=x.one_zero, y_zero=y.one_zero)
    return own | {name: ir.AttrInt64s(name, list(sizes)) for name, sizes in windows.items()}


def _windows(node: ir.Node) -> dict[str, tuple[int, ...]] | None:
    """Geometry of an average with one divisor for all windows; None for others."""
    x, y = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    if x is None or y is None or len(x) != 4 or len(y) != 4 or math.prod(x) == 0:
        return None
    whole = {"kernel_shape": x[2:], "strides": (1, 1), "dilations": (1, 1), "pads": (0,) * 4}
    if node.op_type == "GlobalAveragePool":
        return whole
    if node.op_type == "ReduceMean":
        given = node.inputs[1] if len(node.inputs) > 1 else None
        axes = constant(given)
        spatial = axes is not None and sorted(int(axis) % 4 for axis in axes.reshape(-1)) == [2, 3]
        return whole if spatial and attribute_int(node, "keepdims", 1) else None
    found = {
        "kernel_shape": attribute_ints(node, "kernel_shape", ()),
        "strides": attribute_ints(node, "strides", (1, 1)),
        "dilations": attribute_ints(node, "dilations", (1, 1)),
        "pads": attribute_ints(node, "pads", (0,) * 4),
    }
    pads = found["pads"]
    if any(pads) and not attribute_int(node, "count_include_pad", 0):
        return None
    # With ceil_mode the last windows are smaller.
    down = tuple(
        (n + pads[d] + pads[d + 2] - (k - 1) * dilation - 1) // stride + 1
        for d, (n, k, stride, dilation) in enumerate(
            zip(x[2:], found["kernel_shape"], found["strides"], found["dilations"], strict=True)
        )
    )
    return found if down == y[2:] and "auto_pad" not in node.attributes else None


class Before(Rule):
    """A Relu before a QuantizeLinear whose lowest integer means zero: saturation does the same."""

    def __init__(self) -> None:
        super().__init__("Relu into QuantizeLinear", "QuantizeLinear", above="Relu")

    def pattern(self, op: Any, x: Any) -> Any:
        """See `Rule`."""
        return op.QuantizeLinear(op.Relu(x), _allow_other_inputs=True, _outputs=["z"])

    def check(self, context: Any, x: ir.Value, z: ir.Value) -> bool:
        """See `Rule`."""
        found = stored_as(z)
        return found is not None and found.one_zero == np.iinfo(found.dtype).min

    def rewrite(self, op: Any, x: ir.Value, z: ir.Value) -> Any:
        """See `Rule`."""
        node = z.producer()
        return op.QuantizeLinear(x, *node.inputs[1:], **dict(node.attributes.items()))


RULES: tuple[Rule, ...] = (
    Before(),
    *(Addition(activation) for activation in ("", "Relu", "Clip")),
    *(Average(operator) for operator in ("AveragePool", "GlobalAveragePool", "ReduceMean")),
)
"""Rules of this module, in the order in which they are tried."""

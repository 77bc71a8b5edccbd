"""Joins consecutive reshapes and transposes, and removes those around Softmax."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ..values import attribute_int, attribute_ints, rank, static_shape
from .driver import OperatorRule, Rule

__all__ = ["RULES"]

_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


class ReshapesInARow(Rule):
    """Two consecutive operators that leave the elements in place."""

    def __init__(self, inner: str, outer: str) -> None:
        super().__init__("Reshapes in a row", outer, above=inner)
        self.inner, self.outer = inner, outer

    def pattern(self, op: Any, x: Any) -> Any:
        """See `Rule`."""
        y = getattr(op, self.inner)(x, _allow_other_inputs=True)
        return getattr(op, self.outer)(y, _allow_other_inputs=True, _outputs=["z"])

    def check(self, context: Any, x: ir.Value, z: ir.Value) -> bool:
        """See `Rule`."""
        return static_shape(z) is not None

    def rewrite(self, op: Any, x: ir.Value, z: ir.Value) -> Any:
        """See `Rule`."""
        shape = np.asarray(static_shape(z), dtype=np.int64)
        target = op.initializer(ir.Tensor(shape), name=f"{z.name}_shape")
        # Here a size of 0 means an empty axis, not the input's size.
        return op.Reshape(x, target, allowzero=1)


class SameShape(OperatorRule):
    """A reshape to the same shape."""

    def __init__(self, operator: str) -> None:
        super().__init__("no-op", operator)

    def check(self, context: Any, x: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        before = static_shape(x)
        return before is not None and before == static_shape(y)

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        return x


class TransposesInARow(Rule):
    """A Transpose of a Transpose."""

    def __init__(self) -> None:
        super().__init__("Transposes in a row", "Transpose", above="Transpose")

    def pattern(self, op: Any, x: Any) -> Any:
        """See `Rule`."""
        return op.Transpose(op.Transpose(x, _outputs=["y"]), _outputs=["z"])

    def check(self, context: Any, x: ir.Value, y: ir.Value, z: ir.Value) -> bool:
        """See `Rule`."""
        return bool(_permutation(y)) and bool(_permutation(z))

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value, z: ir.Value) -> Any:
        """See `Rule`."""
        inner = _permutation(y)
        return op.Transpose(x, perm=[inner[axis] for axis in _permutation(z)])


class TransposeToSame(Rule):
    """A Transpose that leaves the axes in their order."""

    def __init__(self) -> None:
        super().__init__("no-op", "Transpose")

    def pattern(self, op: Any, x: Any) -> Any:
        """See `Rule`."""
        return op.Transpose(x, _outputs=["y"])

    def check(self, context: Any, x: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        order = _permutation(y)
        return bool(order) and order == tuple(range(len(order)))

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        return x


class SoftmaxOfReshape(Rule):
    """A Softmax over axes that are flattened and restored, as opsets below 13 define it.

    Only if one axis alone is longer than 1: a Softmax runs over one axis.
    """

    def __init__(self, operator: str, before: str) -> None:
        super().__init__("reshapes around Softmax", "Reshape", above=operator)
        self.operator, self.before = operator, before

    def pattern(self, op: Any, x: Any) -> Any:
        """See `Rule`."""
        flat = getattr(op, self.before)(x, _allow_other_inputs=True, _outputs=["flat"])
        y = getattr(op, self.operator)(flat, _outputs=["y"])
        return op.Reshape(y, _allow_other_inputs=True, _outputs=["z"])

    def check(self, context: Any, x: ir.Value, flat: ir.Value, y: ir.Value, z: ir.Value) -> bool:
        """See `Rule`."""
        return static_shape(x) == static_shape(z) and _softmax_axis(x, flat, y) is not None

    def rewrite(self, op: Any, x: ir.Value, flat: ir.Value, y: ir.Value, z: ir.Value) -> Any:
        """See `Rule`."""
        return getattr(op, self.operator)(x, axis=_softmax_axis(x, flat, y))


def _softmax_axis(x: ir.Value, flat: ir.Value, y: ir.Value) -> int | None:
    """Give the axis of `x` that a Softmax of its flat form runs over."""
    before, after = static_shape(x), static_shape(flat)
    if not before or not after or 0 in before:
        return None
    axis = attribute_int(y.producer(), "axis", -1) % len(after)
    if axis != len(after) - 1:
        return None
    size, first = after[-1], len(before)
    covered = 1
    while covered < size and first:
        first -= 1
        covered *= before[first]
    long = [index for index in range(first, len(before)) if before[index] != 1]
    if covered != size or len(long) > 1:
        return None
    return long[0] if long else len(before) - 1


def _permutation(value: ir.Value) -> tuple[int, ...]:
    node = value.producer()
    axes = rank(node.inputs[0]) if rank(node.inputs[0]) is not None else rank(value)
    reverse = tuple(reversed(range(axes))) if axes is not None else ()
    return attribute_ints(node, "perm", reverse)


RULES: tuple[Rule, ...] = (
    *(
        SoftmaxOfReshape(operator, before)
        for operator in ("Softmax", "LogSoftmax")
        for before in ("Flatten", "Reshape")
    ),
    *(SameShape(operator) for operator in (*_VIEWS, "Expand")),
    *(ReshapesInARow(inner, outer) for inner in _VIEWS for outer in _VIEWS),
    TransposeToSame(),
    TransposesInARow(),
)
"""Rules of this module, in the order in which they are tried."""

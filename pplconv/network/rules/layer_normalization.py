"""LayerNormalization from its pieces, over the last axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ..values import attribute_int, constant, rank, scalar
from .driver import Rule

__all__ = ["RULES"]


class FromPieces(Rule):
    """``(x - mean) / sqrt(mean((x - mean)^2) + epsilon)``."""

    def __init__(self, square: str, *, flipped: bool) -> None:
        super().__init__("LayerNormalization from pieces", "Div", above="Sqrt")
        self.square, self.flipped = square, flipped

    def pattern(self, op: Any, x: Any, two: Any, epsilon: Any) -> Any:
        """See `Rule`."""
        mean = op.ReduceMean(x, _allow_other_inputs=True, _outputs=["mean"])
        centred = op.Sub(x, mean)
        squared = op.Pow(centred, two) if self.square == "Pow" else op.Mul(centred, centred)
        variance = op.ReduceMean(squared, _allow_other_inputs=True, _outputs=["variance"])
        total = op.Add(epsilon, variance) if self.flipped else op.Add(variance, epsilon)
        return op.Div(centred, op.Sqrt(total))

    def check(
        self,
        context: Any,
        x: ir.Value,
        epsilon: ir.Value,
        mean: ir.Value,
        variance: ir.Value,
        two: ir.Value | None = None,
    ) -> bool:
        """See `Rule`."""
        axes = rank(x)
        if axes is None or axes < 1 or x.dtype not in (ir.DataType.FLOAT, ir.DataType.FLOAT16):
            return False
        if self.square == "Pow" and scalar(two, axes) != 2:
            return False
        if not all(_over_last_axis(value.producer(), axes) for value in (mean, variance)):
            return False
        small = scalar(epsilon, axes)
        known = x.shape is not None and isinstance(x.shape[-1], int)
        return small is not None and small >= 0 and known

    def rewrite(self, op: Any, x: ir.Value, epsilon: ir.Value, **_: ir.Value) -> Any:
        """See `Rule`."""
        assert x.shape is not None and x.dtype is not None
        small = scalar(epsilon, rank(x) or 0)
        ones = np.ones(int(x.shape[-1]), x.dtype.numpy())
        scale = op.initializer(ir.Tensor(ones), name=f"{x.name}_ones")
        return op.LayerNormalization(x, scale, axis=-1, epsilon=small, stash_type=1)


class WithScale(Rule):
    """A LayerNormalization whose scales are ones, without an offset, and a product after it."""

    def __init__(self, *, first: bool) -> None:
        super().__init__("Mul into LayerNormalization", "Mul", above="LayerNormalization")
        self.first = first

    def pattern(self, op: Any, x: Any, ones: Any, scale: Any) -> Any:
        """See `Rule`."""
        y = op.LayerNormalization(x, ones, _outputs=["y"])
        return op.Mul(scale, y) if self.first else op.Mul(y, scale)

    def check(
        self, context: Any, x: ir.Value, ones: ir.Value, scale: ir.Value, y: ir.Value
    ) -> bool:
        """See `Rule`."""
        known, array = constant(ones), constant(scale)
        return (
            known is not None
            and array is not None
            and bool((known == 1).all())
            and array.shape == known.shape
            and scale.dtype == x.dtype
        )

    def rewrite(self, op: Any, x: ir.Value, scale: ir.Value, y: ir.Value, **_: ir.Value) -> Any:
        """See `Rule`."""
        return op.LayerNormalization(x, scale, **y.producer().attributes)


class WithOffset(Rule):
    """A LayerNormalization without an offset, and a sum after it."""

    def __init__(self, *, first: bool) -> None:
        super().__init__("Add into LayerNormalization", "Add", above="LayerNormalization")
        self.first = first

    def pattern(self, op: Any, x: Any, scale: Any, offset: Any) -> Any:
        """See `Rule`."""
        y = op.LayerNormalization(x, scale, _outputs=["y"])
        return op.Add(offset, y) if self.first else op.Add(y, offset)

    def check(
        self, context: Any, x: ir.Value, scale: ir.Value, offset: ir.Value, y: ir.Value
    ) -> bool:
        """See `Rule`."""
        array, weights = constant(offset), constant(scale)
        return (
            array is not None
            and weights is not None
            and array.ndim == 1
            and array.shape == weights.shape
            and offset.dtype == x.dtype
        )

    def rewrite(self, op: Any, x: ir.Value, scale: ir.Value, offset: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        return op.LayerNormalization(x, scale, offset, **y.producer().attributes)


def _over_last_axis(node: ir.Node, axes: int) -> bool:
    if attribute_int(node, "keepdims", 1) != 1 or len(node.inputs) < 2:
        return False
    named = constant(node.inputs[1])
    if named is None or named.size != 1:
        return False
    return int(np.reshape(named, ())) in (-1, axes - 1)


RULES: tuple[Rule, ...] = (
    *(
        FromPieces(square, flipped=flipped)
        for square in ("Pow", "Mul")
        for flipped in (False, True)
    ),
    WithScale(first=False),
    WithScale(first=True),
    WithOffset(first=False),
    WithOffset(first=True),
)
"""Rules of this module, in the order in which they are tried."""

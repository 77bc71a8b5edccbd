"""GroupNormalization and MeanVarianceNormalization in pieces: means, and sums that follow.

ONNX infers no shapes for them. In pieces images may lie as they do, and what surrounds the means
is one pass over memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ..opsets import PER_GROUP
from ..values import attribute_int, attribute_ints
from .driver import Rule

__all__ = ["RULES"]

_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


class Groups(Rule):
    """GroupNormalization: means of channels, and means of theirs."""

    def __init__(self) -> None:
        super().__init__("GroupNormalization in pieces", "GroupNormalization")

    def pattern(self, op: Any, x: Any, scale: Any, offset: Any) -> Any:
        """See `Rule`."""
        return op.GroupNormalization(x, scale, offset, _outputs=["y"])

    def check(self, context: Any, y: ir.Value, **_: ir.Value) -> bool:
        """See `Rule`."""
        groups = attribute_int(y.producer(), "num_groups", 0)
        return groups > 0 and y.producer().inputs[0].dtype is not None

    def rewrite(self, op: Any, x: ir.Value, scale: ir.Value, offset: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        node = y.producer()
        epsilon = node.attributes.get_float("epsilon", 1e-5)
        groups = attribute_int(node, "num_groups", 0)
        dtype = x.dtype
        assert dtype is not None
        inner = ir.DataType.FLOAT if dtype in _HALVES else dtype
        numbers = _Numbers(op, y.name or "y", inner)
        if inner != dtype:
            x, scale, offset = (op.Cast(value, to=inner) for value in (x, scale, offset))
        # Means of images whose rank is not known yet: dimensions from the third one on.
        pixels = op.Range(numbers.integer(2), op.Size(op.Shape(x)), numbers.integer(1))

        means = op.ReduceMean(x, pixels, keepdims=1, noop_with_empty_axes=1)
        parted = op.Reshape(means, numbers.integers(0, groups, -1))

        def of_channels(of_groups: Any) -> Any:
            return op.Reshape(op.Expand(of_groups, op.Shape(parted)), op.Shape(means))

        def mean(each: Any) -> Any:
            parts = op.Reshape(each, numbers.integers(0, groups, -1))
            return of_channels(op.ReduceMean(parts, numbers.integers(-1), keepdims=1))

        def beside(weights: Any) -> Any:
            if attribute_int(node, PER_GROUP, 0):
                return of_channels(op.Reshape(weights, numbers.integers(1, groups, 1)))
            ones = op.Expand(numbers.integers(1), op.Shape(pixels))
            return op.Reshape(weights, op.Concat(numbers.integers(-1), ones, axis=0))

        centred = op.Sub(x, mean(means))
        squares = op.Mul(centred, centred)
        variance = mean(op.ReduceMean(squares, pixels, keepdims=1, noop_with_empty_axes=1))
        root = op.Sqrt(op.Add(variance, numbers.number(epsilon)))
        factor = op.Div(beside(scale), root)
        result = op.Add(op.Mul(centred, factor), beside(offset))
        return result if inner == dtype else op.Cast(result, to=dtype)


class MeanVariance(Rule):
    """MeanVarianceNormalization."""

    def __init__(self) -> None:
        super().__init__("MeanVarianceNormalization in pieces", "MeanVarianceNormalization")

    def pattern(self, op: Any, x: Any) -> Any:
        """See `Rule`."""
        return op.MeanVarianceNormalization(x, _outputs=["y"])

    def check(self, context: Any, x: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        return x.dtype is not None

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        dtype = x.dtype
        assert dtype is not None
        inner = ir.DataType.FLOAT if dtype in _HALVES else dtype
        numbers = _Numbers(op, y.name or "y", inner)
        if inner != dtype:
            x = op.Cast(x, to=inner)
        axes = numbers.integers(*attribute_ints(y.producer(), "axes", (0, 2, 3)))
        centred = op.Sub(x, op.ReduceMean(x, axes, keepdims=1))
        root = op.Sqrt(op.ReduceMean(op.Mul(centred, centred), axes, keepdims=1))
        result = op.Div(centred, op.Add(root, numbers.number(1e-9)))
        return result if inner == dtype else op.Cast(result, to=dtype)


class _Numbers:
    """Constants of a rewritten node."""

    def __init__(self, op: Any, name: str, dtype: ir.DataType) -> None:
        self._op, self._name, self._dtype = op, name, dtype
        self._count = 0

    def _made(self, array: Any) -> Any:
        self._count += 1
        return self._op.initializer(ir.tensor(array), name=f"{self._name}_piece_{self._count}")

    def integer(self, number: int) -> Any:
        """One integer, without dimensions."""
        return self._made(np.array(number, np.int64))

    def integers(self, *numbers: int) -> Any:
        """A row of integers."""
        return self._made(np.array(numbers, np.int64))

    def number(self, number: float) -> Any:
        """One number of the type that is computed in."""
        return self._made(np.array(number, self._dtype.numpy()))


RULES: tuple[Rule, ...] = (
    Groups(),
    MeanVariance(),
)
"""Rules of this module, in the order in which they are tried."""

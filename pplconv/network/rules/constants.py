"""Joins consecutive constant operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ..values import FLOATS, constant, rank, wide
from .driver import Rule, constant_at, maker_at

__all__ = ["RULES"]

_FORMS = (False, True)


class ConstantsInARow(Rule):
    """``(x * a) * b``, ``(x + a) + b`` and ``(x + a) * b``, which becomes ``x * b + a * b``."""

    def __init__(self, inner: str, outer: str, *, flipped: bool, first: bool) -> None:
        super().__init__("constants in a row", outer, above=inner)
        self.inner, self.outer, self.flipped, self.first = inner, outer, flipped, first

    def may_fire(self, node: ir.Node) -> bool:
        """See `Rule`."""
        place = 0 if self.first else 1
        if not constant_at(node, place):
            return False
        inner = maker_at(node, 1 - place, self.inner)
        return inner is not None and constant_at(inner, 0 if self.flipped else 1)

    def pattern(self, op: Any, x: Any, a: Any, b: Any) -> Any:
        """See `Rule`."""
        y = getattr(op, self.inner)(*((a, x) if self.flipped else (x, a)), _outputs=["y"])
        return getattr(op, self.outer)(*((b, y) if self.first else (y, b)))

    def check(self, context: Any, x: ir.Value, a: ir.Value, b: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        axes, arrays = rank(x), (constant(a), constant(b))
        if x.dtype not in FLOATS or axes is None or constant(x) is not None:
            return False
        if any(array is None or array.ndim > axes for array in arrays):
            return False
        # Constants along different axes would make a large one together; a constant larger than
        # x would have to be broadcast with it first.
        new = self._new(a, b)
        return new is not None and bool(np.isfinite(new).all())

    def rewrite(self, op: Any, x: ir.Value, a: ir.Value, b: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        both = op.initializer(ir.tensor(self._new(a, b)), name=f"{b.name}_merged")
        if self.inner == self.outer:
            return getattr(op, self.outer)(x, both)
        product = op.Mul(x, b)
        product.type, product.shape = x.type, _beside(x, constant(b))
        return op.Add(product, both)

    def _new(self, a: ir.Value, b: ir.Value) -> npt.NDArray[Any] | None:
        first, second = constant(a), constant(b)
        assert first is not None and second is not None
        try:
            shape = np.broadcast_shapes(first.shape, second.shape)
        except ValueError:
            return None
        if int(np.prod(shape)) > max(first.size, second.size):
            return None
        if self.inner != self.outer and first.size < second.size:
            return None  # the product would have another shape than the sum
        a64, b64 = wide(first), wide(second)
        with np.errstate(all="ignore"):
            merged = a64 + b64 if self.outer == "Add" else a64 * b64
            return merged.astype(first.dtype)


def _beside(x: ir.Value, array: npt.NDArray[Any] | None) -> ir.Shape | None:
    """Give the shape of `x` broadcast with a constant of at most as many axes."""
    if x.shape is None or array is None:
        return None
    added = (1,) * (len(x.shape) - array.ndim) + array.shape
    return ir.Shape([own if size == 1 else size for own, size in zip(x.shape, added, strict=True)])


RULES: tuple[Rule, ...] = tuple(
    ConstantsInARow(inner, outer, flipped=flipped, first=first)
    for inner, outer in (("Mul", "Mul"), ("Add", "Add"), ("Add", "Mul"))
    for flipped in _FORMS
    for first in _FORMS
)
"""Rules of this module, in the order in which they are tried."""

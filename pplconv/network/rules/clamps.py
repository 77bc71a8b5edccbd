"""Clip, HardSigmoid and HardSwish from the pieces that exporters write."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ..values import close, rank, scalar
from .driver import Rule, constant_at

__all__ = ["RULES", "bounds"]


def bounds(node: ir.Node) -> tuple[float, float] | None:
    """Give the bounds of a Clip, or None if they are not constant.

    Parameters
    ----------
    node : ir.Node
        A node of that operator.

    Returns
    -------
    tuple of 2 float, or None
        In order; infinite where there is no bound.
    """
    found = []
    for index, none in ((1, -np.inf), (2, np.inf)):
        value = node.inputs[index] if len(node.inputs) > index else None
        bound: float | None = none if value is None else scalar(value)
        if bound is None or np.isnan(bound):
            return None
        found.append(bound)
    # If bounds cross, the one applied last decides.
    return min(found), found[1]


def _bound(op: Any, value: float, none: float, like: ir.Value, name: str) -> Any:
    if value == none:
        return None
    return op.initializer(ir.Tensor(np.asarray(value, dtype=like.dtype.numpy())), name=name)


def _is_float(value: ir.Value) -> bool:
    return value.dtype is not None and value.dtype.is_floating_point()


class ToClip(Rule):
    """``Max(x, c)`` and ``Min(x, c)`` with a number."""

    def __init__(self, operator: str, *, first: bool) -> None:
        super().__init__("Min, Max to Clip", operator)
        self.operator, self.first = operator, first

    def may_fire(self, node: ir.Node) -> bool:
        """See `Rule`."""
        return constant_at(node, 0 if self.first else 1)

    def pattern(self, op: Any, x: Any, c: Any) -> Any:
        """See `Rule`."""
        return getattr(op, self.operator)(*((c, x) if self.first else (x, c)))

    def check(self, context: Any, x: ir.Value, c: ir.Value) -> bool:
        """See `Rule`."""
        axes = rank(x)
        value = scalar(c, 0 if axes is None else axes)
        return _is_float(x) and value is not None and np.isfinite(value)

    def rewrite(self, op: Any, x: ir.Value, c: ir.Value) -> Any:
        """See `Rule`."""
        bound = _bound(op, scalar(c, rank(x) or 0) or 0.0, np.nan, x, f"{c.name}_bound")
        return op.Clip(x, bound, None) if self.operator == "Max" else op.Clip(x, None, bound)


class ClipOfClip(Rule):
    """A Clip of a Clip or of a Relu."""

    def __init__(self, inner: str, outer: str) -> None:
        super().__init__("Clip of Clip", outer, above=inner)
        self.inner, self.outer = inner, outer

    def pattern(self, op: Any, x: Any) -> Any:
        """See `Rule`."""
        y = getattr(op, self.inner)(x, _allow_other_inputs=True, _outputs=["y"])
        return getattr(op, self.outer)(y, _allow_other_inputs=True, _outputs=["z"])

    def check(self, context: Any, x: ir.Value, y: ir.Value, z: ir.Value) -> bool:
        """See `Rule`."""
        return _is_float(x) and self._merged(y, z) is not None

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value, z: ir.Value) -> Any:
        """See `Rule`."""
        merged = self._merged(y, z)
        assert merged is not None
        low = _bound(op, merged[0], -np.inf, x, f"{z.name}_low")
        high = _bound(op, merged[1], np.inf, x, f"{z.name}_high")
        return op.Clip(x, low, high)

    def _merged(self, y: ir.Value, z: ir.Value) -> tuple[float, float] | None:
        inner = (0.0, np.inf) if self.inner == "Relu" else bounds(y.producer())
        outer = (0.0, np.inf) if self.outer == "Relu" else bounds(z.producer())
        if inner is None or outer is None:
            return None
        low = min(max(inner[0], outer[0]), outer[1])
        high = max(min(inner[1], outer[1]), outer[0])
        return low, high


class ToHardSigmoid(Rule):
    """``Clip(x + b, 0, h) / h``: slope 1 / h, offset b / h."""

    def __init__(self, operator: str, *, first: bool = False, flipped: bool = False) -> None:
        super().__init__("Clip to HardSigmoid", operator, above="Clip")
        self.operator, self.first, self.flipped = operator, first, flipped

    def may_fire(self, node: ir.Node) -> bool:
        """See `Rule`."""
        return constant_at(node, 0 if self.first else 1)

    def pattern(self, op: Any, x: Any, b: Any, c: Any) -> Any:
        """See `Rule`."""
        total = op.Add(b, x) if self.flipped else op.Add(x, b)
        clipped = op.Clip(total, _allow_other_inputs=True, _outputs=["clipped"])
        return getattr(op, self.operator)(*((c, clipped) if self.first else (clipped, c)))

    def check(self, context: Any, x: ir.Value, b: ir.Value, c: ir.Value, clipped: ir.Value) -> bool:
        """See `Rule`."""
        axes = rank(x) or 0
        if not _is_float(x) or scalar(b, axes) is None:
            return False
        limits, factor = bounds(clipped.producer()), scalar(c, axes)
        if limits is None or limits[0] != 0 or not 0 < limits[1] < np.inf or not factor:
            return False
        wanted = limits[1] if self.operator == "Div" else 1 / limits[1]
        return close(factor, wanted, x.dtype)

    def rewrite(self, op: Any, x: ir.Value, b: ir.Value, c: ir.Value, clipped: ir.Value) -> Any:
        """See `Rule`."""
        limits = bounds(clipped.producer())
        assert limits is not None
        shift = scalar(b, rank(x) or 0) or 0.0
        return op.HardSigmoid(x, alpha=1 / limits[1], beta=shift / limits[1])


class ToHardSwish(Rule):
    """``x * HardSigmoid(x)`` with the slope 1/6 and the offset 1/2."""

    def __init__(self, *, first: bool) -> None:
        super().__init__("HardSigmoid to HardSwish", "Mul", above="HardSigmoid")
        self.first = first

    def pattern(self, op: Any, x: Any) -> Any:
        """See `Rule`."""
        gate = op.HardSigmoid(x, _outputs=["gate"])
        return op.Mul(gate, x) if self.first else op.Mul(x, gate)

    def check(self, context: Any, x: ir.Value, gate: ir.Value) -> bool:
        """See `Rule`."""
        node = gate.producer()
        alpha = node.attributes.get_float("alpha", 0.2)
        beta = node.attributes.get_float("beta", 0.5)
        return close(alpha, 1 / 6, x.dtype) and close(beta, 0.5, x.dtype)

    def rewrite(self, op: Any, x: ir.Value, gate: ir.Value) -> Any:
        """See `Rule`."""
        return op.HardSwish(x)


class ProductToHardSwish(Rule):
    """``x * Clip(x + 3, 0, 6) / 6``, the product before the division."""

    def __init__(self, operator: str, *, first: bool, flipped: bool, commuted: bool) -> None:
        super().__init__("Clip to HardSwish", operator, above="Mul")
        self.operator, self.first, self.flipped = operator, first, flipped
        self.commuted = commuted

    def may_fire(self, node: ir.Node) -> bool:
        """See `Rule`."""
        return constant_at(node, 0 if self.commuted else 1)

    def pattern(self, op: Any, x: Any, b: Any, c: Any) -> Any:
        """See `Rule`."""
        total = op.Add(b, x) if self.flipped else op.Add(x, b)
        clipped = op.Clip(total, _allow_other_inputs=True, _outputs=["clipped"])
        product = op.Mul(clipped, x) if self.first else op.Mul(x, clipped)
        return getattr(op, self.operator)(*((c, product) if self.commuted else (product, c)))

    def check(self, context: Any, x: ir.Value, b: ir.Value, c: ir.Value, clipped: ir.Value) -> bool:
        """See `Rule`."""
        axes = rank(x) or 0
        if not _is_float(x) or not close(scalar(b, axes), 3, x.dtype):
            return False
        wanted = 6 if self.operator == "Div" else 1 / 6
        return bounds(clipped.producer()) == (0, 6) and close(scalar(c, axes), wanted, x.dtype)

    def rewrite(self, op: Any, x: ir.Value, b: ir.Value, c: ir.Value, clipped: ir.Value) -> Any:
        """See `Rule`."""
        return op.HardSwish(x)


_BOTH = (False, True)

RULES: tuple[Rule, ...] = (
    *(ToClip(operator, first=first) for operator in ("Min", "Max") for first in _BOTH),
    *(
        ClipOfClip(inner, outer)
        for inner, outer in (("Clip", "Clip"), ("Relu", "Clip"), ("Clip", "Relu"))
    ),
    *(
        ProductToHardSwish(operator, first=first, flipped=flipped, commuted=commuted)
        for operator, commuted in (("Div", False), ("Mul", False), ("Mul", True))
        for first in _BOTH
        for flipped in _BOTH
    ),
    *(
        ToHardSigmoid(operator, first=first, flipped=flipped)
        for operator, first in (("Div", False), ("Mul", False), ("Mul", True))
        for flipped in _BOTH
    ),
    *(ToHardSwish(first=first) for first in _BOTH),
)
"""Rules of this module, in the order in which they are tried."""

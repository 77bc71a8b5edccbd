"""HardSwish, with a scale and an offset, in the store of a product of integers.

A product's numbers x become ``x * min(max(x * slope + middle, 0), 1) + shift``: with a slope of a
sixth and a middle of a half that is HardSwish. A later factor is merged into the multipliers, and
divided out of the slope; a later offset is merged into the shift.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ..fused_nodes import DOMAIN
from ..integer_nodes import RESIDUAL, STORING, is_normal, with_numbers
from ..quantized_values import numbers_of
from ..values import attribute_int, rank, scalar
from .driver import Rule

__all__ = ["GATES", "is_open"]

# Largest multiplier of a gate: products with sums, and with slopes, stay finite.
_MOST = 2.0**60


def is_open(y: ir.Value) -> bool:
    """Whether a product gives float32 without any epilogue.

    Parameters
    ----------
    y : ir.Value
        The output of one of `STORING`.
    """
    node = y.producer()
    return (
        not attribute_int(node, "gate", 0)
        and (len(node.inputs) <= RESIDUAL or node.inputs[RESIDUAL] is None)
        and _is_unbounded(y)
    )


def _is_unbounded(y: ir.Value) -> bool:
    """Whether a product gives float32 without a clamp."""
    own = y.producer().attributes
    bounds = own.get_float("low"), own.get_float("high")
    return y.dtype == ir.DataType.FLOAT and bounds == (-np.inf, np.inf)


def _multipliers(y: ir.Value) -> Any:
    return numbers_of(y.producer().inputs[3])


class Gate(Rule):
    """HardSwish of a product."""

    def __init__(self, inner: str) -> None:
        super().__init__(f"HardSwish into {inner}", "HardSwish", above=(DOMAIN, inner))
        self.inner = inner

    def pattern(self, op: Any) -> Any:
        """See `Rule`."""
        y = getattr(op, self.inner)(_domain=DOMAIN, _allow_other_inputs=True, _outputs=["y"])
        return op.HardSwish(y)

    def check(self, context: Any, y: ir.Value) -> bool:
        """See `Rule`."""
        units = _multipliers(y)
        return is_open(y) and units is not None and bool((units < _MOST).all())

    def rewrite(self, op: Any, y: ir.Value) -> Any:
        """See `Rule`."""
        return with_numbers(op, y.producer(), gate=1, slope=1 / 6, middle=0.5)


class Affine(Rule):
    """A product or sum of a gated product and one number."""

    def __init__(self, inner: str, operator: str, *, first: bool) -> None:
        super().__init__(f"{operator} behind HardSwish", operator, above=(DOMAIN, inner))
        self.inner, self.operator, self.first = inner, operator, first

    def pattern(self, op: Any, c: Any) -> Any:
        """See `Rule`."""
        y = getattr(op, self.inner)(_domain=DOMAIN, _allow_other_inputs=True, _outputs=["y"])
        return getattr(op, self.operator)(*((c, y) if self.first else (y, c)))

    def check(self, context: Any, c: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        number, units = scalar(c, rank(y)), _multipliers(y)
        if number is None or units is None or not _is_unbounded(y):
            return False
        if not attribute_int(y.producer(), "gate", 0):
            return False
        if self.operator == "Add":
            return bool(abs(number) < _MOST)
        fits = is_normal(units * abs(number)) and bool((units * abs(number) < _MOST).all())
        return fits and 1 / _MOST < abs(number) < _MOST

    def rewrite(self, op: Any, c: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        node, number, units = y.producer(), scalar(c, rank(y)), _multipliers(y)
        assert number is not None
        own = node.attributes
        if self.operator == "Add":
            return with_numbers(op, node, shift=own.get_float("shift") + number)
        new = op.initializer(ir.tensor(units * number), name=f"{y.name}_times")
        return with_numbers(
            op,
            node,
            {3: new},
            slope=own.get_float("slope") / number,
            shift=own.get_float("shift") * number,
        )


GATES: tuple[Rule, ...] = tuple(
    rule
    for inner in STORING
    for rule in (
        Gate(inner),
        *(
            Affine(inner, operator, first=first)
            for operator in ("Mul", "Add")
            for first in (False, True)
        ),
    )
)
"""Rules of this module, in the order in which they are tried."""

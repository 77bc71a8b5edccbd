"""MatMul and Gemm with constant weights, and their epilogues, as ``pplconv::Linear``."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ..fused_nodes import DOMAIN, LINEAR, activation_of, build, inputs_of, with_changes
from ..values import FLOATS, attribute_int, constant, per_channel, rank, wide
from .driver import Rule

__all__ = ["RULES"]


class FromMatMul(Rule):
    """A product with constant weights."""

    def __init__(self) -> None:
        super().__init__("MatMul to Linear", "MatMul")

    def pattern(self, op: Any, x: Any, w: Any) -> Any:
        """See `Rule`."""
        return op.MatMul(x, w)

    def check(self, context: Any, x: ir.Value, w: ir.Value) -> bool:
        """See `Rule`."""
        array, axes = constant(w), rank(x)
        return (
            array is not None
            and array.ndim == 2
            and axes is not None
            and axes >= 2
            and x.dtype in FLOATS
        )

    def rewrite(self, op: Any, x: ir.Value, w: ir.Value) -> Any:
        """See `Rule`."""
        return build(op, LINEAR, [x, w, None], ())


class FromGemm(Rule):
    """A Gemm with constant weights and offsets a column."""

    def __init__(self) -> None:
        super().__init__("Gemm to Linear", "Gemm")

    def pattern(self, op: Any, x: Any) -> Any:
        """See `Rule`."""
        return op.Gemm(x, _allow_other_inputs=True, _outputs=["y"])

    def check(self, context: Any, x: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        node = y.producer()
        if attribute_int(node, "transA", 0) or x.dtype not in FLOATS:
            return False
        new = _gemm_constants(node)
        if new is None:
            return False
        # Unchanged weights cannot have overflowed.
        changed = new[1:] if node.attributes.get_float("alpha", 1.0) == 1 else new
        return all(array is None or bool(np.isfinite(array).all()) for array in changed)

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        node = y.producer()
        new = _gemm_constants(node)
        assert new is not None
        w: ir.Value | None = node.inputs[1]
        assert w is not None
        if new[0] is not constant(w):
            w = op.initializer(ir.Tensor(new[0]), name=f"{w.name}_rows")
        bias = None
        if new[1] is not None:
            bias = op.initializer(ir.tensor(new[1]), name=f"{y.name}_bias")
        return build(op, LINEAR, [x, w, bias], ())


class Offset(Rule):
    """A sum of a Linear without an activation and constants a column."""

    def __init__(self, *, first: bool) -> None:
        super().__init__("Add into Linear", "Add", above=(DOMAIN, LINEAR))
        self.first = first

    def pattern(self, op: Any, c: Any) -> Any:
        """See `Rule`."""
        y = op.Linear(_domain=DOMAIN, _allow_other_inputs=True, _outputs=["y"])
        return op.Add(c, y) if self.first else op.Add(y, c)

    def check(self, context: Any, c: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        node = y.producer()
        if activation_of(node)[0]:
            return False
        new = self._new(c, y)
        return new is not None and bool(np.isfinite(new).all())

    def rewrite(self, op: Any, c: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        bias = op.initializer(ir.tensor(self._new(c, y)), name=f"{y.name}_bias")
        return with_changes(op, y.producer(), {2: bias})

    @staticmethod
    def _new(c: ir.Value, y: ir.Value) -> npt.NDArray[Any] | None:
        node = y.producer()
        w, old = constant(node.inputs[1]), constant(inputs_of(node)[2])
        axes = rank(y)
        if w is None or axes is None:
            return None
        numbers = per_channel(c, w.shape[1], axes, axis=-1)
        if numbers is None:
            return None
        with np.errstate(all="ignore"):
            return (numbers + (0.0 if old is None else wide(old))).astype(w.dtype)


def _gemm_constants(node: ir.Node) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None] | None:
    w = constant(node.inputs[1])
    if w is None or w.ndim != 2:
        return None
    alpha = float(node.attributes.get_float("alpha", 1.0))
    beta = float(node.attributes.get_float("beta", 1.0))
    rows = w.T if attribute_int(node, "transB", 0) else w
    with np.errstate(all="ignore"):
        if alpha != 1:
            rows = (wide(rows) * alpha).astype(w.dtype)
        offset = node.inputs[2] if len(node.inputs) > 2 else None
        if offset is None:
            return rows, None
        numbers = per_channel(offset, rows.shape[1], 2, axis=-1)
        if numbers is None:
            return None
        return rows, (numbers * beta).astype(w.dtype)


RULES: tuple[Rule, ...] = (FromMatMul(), FromGemm(), Offset(first=False), Offset(first=True))
"""Rules of this module, in the order in which they are tried."""

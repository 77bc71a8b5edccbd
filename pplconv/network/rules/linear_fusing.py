"""MatMul and Gemm with constant weights, and their epilogues, as ``pplconv::Linear``."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ..channel_affine import FORMS, Affine, affine_of
from ..fused_nodes import DOMAIN, LINEAR, activation_of, build, inputs_of, with_changes
from ..scaling import scaled, stays_finite
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
            bias = op.initializer(ir.Tensor(new[1]), name=f"{y.name}_bias")
        return build(op, LINEAR, [x, w, bias], ())


class AffineOfLinear(Rule):
    """Constants a column after a Linear without an activation: factors, offsets."""

    def __init__(self, operator: str, *, first: bool) -> None:
        super().__init__("affine into Linear", operator, above=(DOMAIN, LINEAR))
        self.operator, self.first = operator, first

    def pattern(self, op: Any, c: Any) -> Any:
        """See `Rule`."""
        y = op.Linear(_domain=DOMAIN, _allow_other_inputs=True, _outputs=["y"])
        return getattr(op, self.operator)(*((c, y) if self.first else (y, c)))

    def check(self, context: Any, c: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        node = y.producer()
        affine = self._affine(c, y)
        if activation_of(node)[0] or affine is None:
            return False
        scaling = bool(np.any(affine.scale != 1))
        # A residual would be scaled as well.
        if scaling and inputs_of(node)[3] is not None:
            return False
        bias = _merged_bias(node, affine)
        return bool(np.isfinite(bias).all()) and (
            not scaling or stays_finite(_tensor(node), affine.scale[None])
        )

    def rewrite(self, op: Any, c: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        node, affine = y.producer(), self._affine(c, y)
        assert affine is not None
        changes = {}
        if np.any(affine.scale != 1):
            new = scaled(_tensor(node), affine.scale[None])
            changes[1] = op.initializer(new, name=f"{y.name}_scaled")
        if np.any(affine.offset != 0) or inputs_of(node)[2] is not None:
            bias = _merged_bias(node, affine)
            changes[2] = op.initializer(ir.Tensor(bias), name=f"{y.name}_bias")
        return with_changes(op, node, changes)

    def _affine(self, c: ir.Value, y: ir.Value) -> Affine | None:
        columns, axes = _tensor(y.producer()).shape[1], rank(y)
        numbers = None if axes is None else per_channel(c, int(columns), axes, axis=-1)
        return None if numbers is None else affine_of(self.operator, numbers, first=self.first)


def _tensor(node: ir.Node) -> ir.TensorProtocol:
    """Give the weights of a Linear."""
    w = node.inputs[1]
    assert w is not None and w.const_value is not None
    return w.const_value


def _merged_bias(node: ir.Node, affine: Affine) -> npt.NDArray[Any]:
    """Give the bias of a Linear with an affine map of its output."""
    old = constant(inputs_of(node)[2])
    with np.errstate(all="ignore"):
        bias = affine.offset + (0.0 if old is None else wide(old) * affine.scale)
        return bias.astype(_tensor(node).dtype.numpy())


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


RULES: tuple[Rule, ...] = (
    FromMatMul(),
    FromGemm(),
    *(AffineOfLinear(operator, first=first) for operator, first in FORMS),
)
"""Rules of this module, in the order in which they are tried."""

"""Scales and offsets of channels, BatchNormalization included, merged into weights.

Affine maps before and after a convolution are linear, so its weights and bias can absorb them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ..channel_affine import (
    FORMS,
    affine_of,
    after,
    batch_normalization,
    before,
    rebuilt,
    weights_of,
)
from ..values import attribute_ints, attribute_string, per_channel, rank
from .driver import Rule, constant_at, maker_at

__all__ = ["RULES"]

CONVOLUTIONS = ("Conv", "ConvTranspose")


class AfterConvolution(Rule):
    """``conv(x) * a``, ``conv(x) + b`` and the like, with constants a channel."""

    def __init__(self, operator: str, convolution: str, *, first: bool = False) -> None:
        super().__init__(f"affine into {convolution}", operator, above=convolution)
        self.operator, self.convolution, self.first = operator, convolution, first

    def may_fire(self, node: ir.Node) -> bool:
        """See `Rule`."""
        place = 0 if self.first else 1
        return constant_at(node, place) and maker_at(node, 1 - place, self.convolution) is not None

    def pattern(self, op: Any, c: Any) -> Any:
        """See `Rule`."""
        y = getattr(op, self.convolution)(_allow_other_inputs=True, _outputs=["y"])
        return getattr(op, self.operator)(*((c, y) if self.first else (y, c)))

    def check(self, context: Any, c: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        weights = weights_of(y.producer())
        if weights is None:
            return False
        numbers = per_channel(c, weights.channels, weights.ndim)
        if numbers is None:
            return False
        affine = affine_of(self.operator, numbers, first=self.first)
        self.new = None if affine is None else after(weights, affine)
        return self.new is not None

    def rewrite(self, op: Any, c: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        assert self.new is not None
        node = y.producer()
        return rebuilt(op, node, node.inputs[0], self.new)


class BatchNormalizationAfterConvolution(Rule):
    """BatchNormalization, in inference, of a convolution."""

    def __init__(self, convolution: str) -> None:
        super().__init__(
            f"BatchNormalization into {convolution}", "BatchNormalization", above=convolution
        )
        self.convolution = convolution

    def pattern(self, op: Any) -> Any:
        """See `Rule`."""
        y = getattr(op, self.convolution)(_allow_other_inputs=True, _outputs=["y"])
        return op.BatchNormalization(y, _allow_other_inputs=True, _outputs=["z"])

    def check(self, context: Any, y: ir.Value, z: ir.Value) -> bool:
        """See `Rule`."""
        weights, affine = weights_of(y.producer()), batch_normalization(z.producer())
        if weights is None or affine is None or affine.scale.size != weights.channels:
            return False
        self.new = after(weights, affine)
        return self.new is not None

    def rewrite(self, op: Any, y: ir.Value, z: ir.Value) -> Any:
        """See `Rule`."""
        assert self.new is not None
        node = y.producer()
        return rebuilt(op, node, node.inputs[0], self.new)


class BeforeConvolution(Rule):
    """``conv(x * a)`` and ``conv(x + b)``, the latter only without padding."""

    def __init__(self, operator: str, convolution: str, *, first: bool = False) -> None:
        super().__init__(f"affine before {convolution}", convolution, above=operator)
        self.operator, self.convolution, self.first = operator, convolution, first

    def may_fire(self, node: ir.Node) -> bool:
        """See `Rule`."""
        inner = maker_at(node, 0, self.operator)
        return inner is not None and constant_at(inner, 0 if self.first else 1)

    def pattern(self, op: Any, x: Any, c: Any) -> Any:
        """See `Rule`."""
        operands = (c, x) if self.first else (x, c)
        inner = getattr(op, self.operator)(*operands)
        return getattr(op, self.convolution)(inner, _allow_other_inputs=True, _outputs=["y"])

    def check(self, context: Any, x: ir.Value, c: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        node = y.producer()
        weights = weights_of(node)
        # Broadcasting with the constant must not give the input its channels or axes.
        if weights is None or rank(x) != weights.ndim:
            return False
        if x.shape[1] != weights.input_channels:
            return False
        numbers = per_channel(c, weights.input_channels, weights.ndim)
        if numbers is None:
            return False
        affine = affine_of(self.operator, numbers, first=self.first)
        if affine is None or (np.any(affine.offset) and not self._unpadded(node)):
            return False
        self.new = before(weights, affine)
        return self.new is not None

    def rewrite(self, op: Any, x: ir.Value, c: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        assert self.new is not None
        return rebuilt(op, y.producer(), x, self.new)

    @staticmethod
    def _unpadded(node: ir.Node) -> bool:
        mode = attribute_string(node, "auto_pad", "NOTSET")
        plain = mode == "VALID" or (mode == "NOTSET" and not any(attribute_ints(node, "pads", ())))
        return plain and node.op_type == "Conv"


RULES: tuple[Rule, ...] = (
    *(BatchNormalizationAfterConvolution(convolution) for convolution in CONVOLUTIONS),
    *(
        kind(operator, convolution, first=first)
        for kind in (AfterConvolution, BeforeConvolution)
        for convolution in CONVOLUTIONS
        for operator, first in FORMS
    ),
)
"""Rules of this module, in the order in which they are tried."""

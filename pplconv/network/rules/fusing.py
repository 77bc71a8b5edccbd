"""Fuses activation, scale, offset and residuals into the convolution before them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ..channel_affine import FORMS, affine_of, weights_of
from ..fused_nodes import (
    DOMAIN,
    FUSED_CONVOLUTIONS,
    LINEAR,
    Port,
    activation_of,
    build,
    inputs_of,
    with_changes,
)
from ..values import FLOATS, constant, is_constant, per_channel, rank, static_shape, wide
from .driver import Rule
from .fused_activations import OPERATORS, found_activation

__all__ = ["RULES"]

_ATTRIBUTES = ("strides", "pads", "dilations", "group", "kernel_shape", "output_padding")


class FusedConvolution(Rule):
    """A two-dimensional convolution with constant weights, as a fused node without epilogue."""

    def __init__(self, convolution: str) -> None:
        super().__init__(f"{convolution} to pplconv", convolution)
        self.convolution = convolution

    def pattern(self, op: Any, x: Any) -> Any:
        """See `Rule`."""
        return getattr(op, self.convolution)(x, _allow_other_inputs=True, _outputs=["y"])

    def check(self, context: Any, x: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        weights = weights_of(y.producer())
        return (
            weights is not None
            and weights.ndim == 4
            and rank(x) == 4
            and x.dtype in FLOATS
            # ``auto_pad`` is not resolved yet.
            and "pads" in y.producer().attributes
            and "auto_pad" not in y.producer().attributes
        )

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        node = y.producer()
        inputs = [*node.inputs, *[None] * len(Port)][: len(Port)]
        attributes = [node.attributes[name] for name in _ATTRIBUTES if name in node.attributes]
        return build(op, node.op_type, inputs, attributes)


class Activation(Rule):
    """An activation after a fused node without one."""

    def __init__(self, inner: str, activation: str) -> None:
        super().__init__(f"activation into {inner}", activation, above=(DOMAIN, inner))
        self.inner, self.activation = inner, activation

    def pattern(self, op: Any) -> Any:
        """See `Rule`."""
        y = getattr(op, self.inner)(_domain=DOMAIN, _allow_other_inputs=True, _outputs=["y"])
        return getattr(op, self.activation)(y, _allow_other_inputs=True, _outputs=["z"])

    def check(self, context: Any, y: ir.Value, z: ir.Value) -> bool:
        """See `Rule`."""
        node = y.producer()
        if activation_of(node)[0] or any(inputs_of(node)[Port.SCALE :]):
            return False
        found = found_activation(z.producer())
        if found is None:
            return False
        if found[0] != "prelu":
            return True
        channels = _channels(y)
        slope = z.producer().inputs[1]
        return (
            self.inner != LINEAR
            and channels is not None
            and per_channel(slope, channels, rank(y) or 0) is not None
        )

    def rewrite(self, op: Any, y: ir.Value, z: ir.Value) -> Any:
        """See `Rule`."""
        found = found_activation(z.producer())
        assert found is not None
        changes = {}
        if found[0] == "prelu":
            slopes = _numbers(z.producer().inputs[1], y)
            assert slopes is not None
            changes[int(Port.SLOPE)] = _initializer(op, slopes, y, "slope")
        return with_changes(op, y.producer(), changes, found)


class ScaleAndOffset(Rule):
    """``activation(conv) * a``, ``+ b`` and the like, with constants a channel."""

    def __init__(self, inner: str, operator: str, *, first: bool) -> None:
        super().__init__(f"scale and offset into {inner}", operator, above=(DOMAIN, inner))
        self.inner, self.operator, self.first = inner, operator, first

    def pattern(self, op: Any, c: Any) -> Any:
        """See `Rule`."""
        y = getattr(op, self.inner)(_domain=DOMAIN, _allow_other_inputs=True, _outputs=["y"])
        return getattr(op, self.operator)(*((c, y) if self.first else (y, c)))

    def check(self, context: Any, c: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        node, numbers = y.producer(), _numbers(c, y)
        if numbers is None:
            return False
        affine = affine_of(self.operator, numbers, first=self.first)
        if affine is None:
            return False
        # A factor would scale the residual as well.
        after = inputs_of(node)[Port.RESIDUAL_AFTER] is not None
        return (not after or bool(np.all(affine.scale == 1))) and self._new(c, y) is not None

    def rewrite(self, op: Any, c: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        new = self._new(c, y)
        assert new is not None
        changes = {
            int(port): _initializer(op, array, y, name)
            for port, array, name in zip(
                (Port.SCALE, Port.OFFSET), new, ("scale", "offset"), strict=True
            )
            if array is not None
        }
        return with_changes(op, y.producer(), changes)

    def _new(self, c: ir.Value, y: ir.Value) -> tuple[Any, Any] | None:
        """Merge an affine map into scale and offset; None for either if it is unchanged."""
        numbers = _numbers(c, y)
        affine = None if numbers is None else affine_of(self.operator, numbers, first=self.first)
        if affine is None or y.dtype is None:
            return None
        inputs = inputs_of(y.producer())
        old_scale, old_offset = constant(inputs[Port.SCALE]), constant(inputs[Port.OFFSET])
        scale = offset = None
        if np.any(affine.scale != 1):
            scale = affine.scale * (1.0 if old_scale is None else wide(old_scale))
            if old_offset is not None:
                offset = wide(old_offset) * affine.scale
        if np.any(affine.offset != 0):
            before = 0.0 if old_offset is None else wide(old_offset) * affine.scale
            offset = before + affine.offset
        dtype = y.dtype.numpy()
        with np.errstate(all="ignore"):
            stored = [None if array is None else array.astype(dtype) for array in (scale, offset)]
        finite = all(array is None or np.isfinite(array).all() for array in stored)
        return (stored[0], stored[1]) if finite else None


class Residual(Rule):
    """A sum of a fused convolution, or a Linear, and another value of the same shape.

    Before an activation it becomes ``residual``, after one ``residual_after``.  The convolution
    has no other user, so the other value cannot depend on it; of two convolutions the one that
    runs later takes the other in.
    """

    def __init__(self, inner: str, *, first: bool) -> None:
        super().__init__(f"residual into {inner}", "Add", above=(DOMAIN, inner))
        self.inner, self.first = inner, first

    def pattern(self, op: Any, r: Any) -> Any:
        """See `Rule`."""
        y = getattr(op, self.inner)(_domain=DOMAIN, _allow_other_inputs=True, _outputs=["y"])
        return op.Add(r, y) if self.first else op.Add(y, r)

    def check(self, context: Any, r: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        shape = static_shape(y)
        # A constant would have to be copied into each layout of the output.
        if (
            r is y
            or is_constant(r)
            or shape is None
            or static_shape(r) != shape
            or r.dtype != y.dtype
        ):
            return False
        return _free_port(y.producer()) is not None and not self._other_is_later(y, r)

    def rewrite(self, op: Any, r: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        port = _free_port(y.producer())
        assert port is not None
        return with_changes(op, y.producer(), {int(port): r})

    @staticmethod
    def _other_is_later(y: ir.Value, r: ir.Value) -> bool:
        """Tell whether `r` is a convolution that could store the sum as well, and runs later."""
        node, other = y.producer(), r.producer()
        if node is None or other is None or other.graph is not node.graph:
            return False
        if other.domain != DOMAIN or other.op_type not in (*FUSED_CONVOLUTIONS, LINEAR):
            return False
        if len(r.uses()) > 1 or r.is_graph_output() or _free_port(other) is None:
            return False
        graph = node.graph
        return graph is not None and next(n for n in graph if n in (node, other)) is node


def _free_port(node: ir.Node) -> Port | None:
    """Give the input that the next residual takes."""
    inputs = inputs_of(node)
    if node.op_type == LINEAR:
        free = not activation_of(node)[0] and inputs[Port.RESIDUAL] is None
        return Port.RESIDUAL if free else None
    touched = activation_of(node)[0] or any(
        value is not None for value in inputs[Port.SCALE : Port.SLOPE]
    )
    port = Port.RESIDUAL_AFTER if touched or inputs[Port.RESIDUAL] is not None else Port.RESIDUAL
    return port if inputs[port] is None else None


def _channels(value: ir.Value) -> int | None:
    shape = static_shape(value)
    return shape[1] if shape is not None and len(shape) > 1 else None


def _numbers(c: ir.Value | None, y: ir.Value) -> Any:
    channels = _channels(y)
    if channels is None or not is_constant(c):
        return None
    return per_channel(c, channels, rank(y) or 0)


def _initializer(op: Any, array: Any, y: ir.Value, name: str) -> ir.Value:
    stored = np.ascontiguousarray(array, dtype=y.dtype.numpy() if y.dtype else None)
    value: ir.Value = op.initializer(ir.Tensor(stored), name=f"{y.name}_{name}")
    return value


RULES: tuple[Rule, ...] = (
    *(FusedConvolution(convolution) for convolution in FUSED_CONVOLUTIONS),
    *(
        Activation(inner, activation)
        for inner in (*FUSED_CONVOLUTIONS, LINEAR)
        for activation in OPERATORS
    ),
    *(
        ScaleAndOffset(inner, operator, first=first)
        for inner in FUSED_CONVOLUTIONS
        for operator, first in FORMS
    ),
    *(
        Residual(inner, first=first)
        for inner in (*FUSED_CONVOLUTIONS, LINEAR)
        for first in (False, True)
    ),
)
"""Rules of this module, in the order in which they are tried."""

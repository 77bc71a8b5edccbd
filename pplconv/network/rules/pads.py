"""Merges Pad into the next convolution or pool."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ..values import (
    attribute_int,
    attribute_ints,
    attribute_string,
    constant,
    only_first_used,
    rank,
    scalar,
)
from .driver import Rule

__all__ = ["RULES", "amounts_of"]


def amounts_of(pad: ir.Node, axes: int) -> tuple[list[int], list[int]] | None:
    """Give the amounts that a Pad adds before and after each of `axes`; None if not constant."""
    inputs = [*pad.inputs, None, None, None][:4]
    amounts = constant(inputs[1])
    if amounts is None:
        return None
    listed = list(range(axes))
    if inputs[3] is not None:
        named = constant(inputs[3])
        if named is None:
            return None
        listed = [int(axis) % axes for axis in named.reshape(-1)]
    if amounts.size != 2 * len(listed) or len(set(listed)) != len(listed):
        return None
    begins, ends = [0] * axes, [0] * axes
    flat = amounts.reshape(-1)
    for index, axis in enumerate(listed):
        begins[axis], ends[axis] = int(flat[index]), int(flat[index + len(listed)])
    return begins, ends


def _added(pad: ir.Node, axes: int | None) -> tuple[tuple[int, ...], float] | None:
    """Give the padding of the spatial axes, as (begins, ends), and the value of a Pad.

    None if it pads other axes, removes or repeats elements, or is not constant.
    """
    if axes is None or axes < 3 or attribute_string(pad, "mode", "constant") != "constant":
        return None
    filling = pad.inputs[2] if len(pad.inputs) > 2 else None
    value = 0.0 if filling is None else scalar(filling)
    amounts = amounts_of(pad, axes)
    if amounts is None or value is None:
        return None
    begins, ends = amounts
    if any(begins[:2] + ends[:2]) or min(begins + ends) < 0:
        return None
    return (*begins[2:], *ends[2:]), value


def _total(node: ir.Node, added: tuple[int, ...]) -> list[int] | None:
    """Add padding to a node's own; None if its own is not in numbers."""
    mode = attribute_string(node, "auto_pad", "NOTSET")
    if mode not in ("NOTSET", "VALID"):
        return None
    own = attribute_ints(node, "pads", ()) if mode == "NOTSET" else ()
    own = own or (0,) * len(added)
    if len(own) != len(added):
        return None
    return [a + b for a, b in zip(own, added, strict=True)]


def _like(op: Any, node: ir.Node, x: ir.Value, pads: list[int], **changed: int) -> Any:
    attributes = {
        name: attribute
        for name, attribute in node.attributes.items()
        if name not in ("pads", "auto_pad", *changed)
    }
    return op.op(node.op_type, x, *node.inputs[1:], pads=pads, **changed, **attributes)


class BeforeConv(Rule):
    """Zeros around the input of a Conv."""

    def __init__(self) -> None:
        super().__init__("Pad into Conv", "Conv", above="Pad")

    def pattern(self, op: Any, x: Any) -> Any:
        """See `Rule`."""
        padded = op.Pad(x, _allow_other_inputs=True, _outputs=["padded"])
        return op.Conv(padded, _allow_other_inputs=True, _outputs=["y"])

    def check(self, context: Any, x: ir.Value, padded: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        found = _added(padded.producer(), rank(y.producer().inputs[1]))
        return found is not None and found[1] == 0 and _total(y.producer(), found[0]) is not None

    def rewrite(self, op: Any, x: ir.Value, padded: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        node = y.producer()
        found = _added(padded.producer(), rank(node.inputs[1]))
        assert found is not None
        return _like(op, node, x, _total(node, found[0]) or [])


class BeforePool(Rule):
    """Zeros before an AveragePool that counts them, and minus infinity before a MaxPool.

    Windows must keep their positions, so pools that round up are left alone. Each window must
    contain a pixel, so padding stays smaller than the kernel.
    """

    def __init__(self, operator: str) -> None:
        super().__init__("Pad into pool", operator, above="Pad")
        self.operator = operator

    def pattern(self, op: Any, x: Any) -> Any:
        """See `Rule`."""
        padded = op.Pad(x, _allow_other_inputs=True, _outputs=["padded"])
        return getattr(op, self.operator)(padded, _outputs=["y"])

    def check(self, context: Any, x: ir.Value, padded: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        node = y.producer()
        if not only_first_used(node):
            return False
        kernel = attribute_ints(node, "kernel_shape", ())
        found = _added(padded.producer(), rank(x))
        if found is None or attribute_int(node, "ceil_mode", 0) or len(found[0]) != 2 * len(kernel):
            return False
        pads = _total(node, found[0])
        if pads is None or any(n >= k for n, k in zip(pads, kernel * 2, strict=True)):
            return False
        if self.operator == "MaxPool":
            return bool(np.isneginf(found[1]))
        own = any(attribute_ints(node, "pads", ()))
        counted = bool(attribute_int(node, "count_include_pad", 0))
        return found[1] == 0 and (counted or not own)

    def rewrite(self, op: Any, x: ir.Value, padded: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        node = y.producer()
        found = _added(padded.producer(), rank(x))
        assert found is not None
        pads = _total(node, found[0]) or []
        if self.operator == "MaxPool":
            return _like(op, node, x, pads)
        return _like(op, node, x, pads, count_include_pad=1)


RULES: tuple[Rule, ...] = (BeforeConv(), BeforePool("AveragePool"), BeforePool("MaxPool"))
"""Rules of this module, in the order in which they are tried."""

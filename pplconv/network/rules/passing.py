"""Activations, affine maps and sums pass reshapes, transposes and joins, on the way to a product.

Transformers with convolutions write images as rows of pixels: a Reshape and a Transpose stand
between a convolution or a product and its activation, or the factors of its channels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ..channel_affine import FORMS, batch_normalization, weights_of
from ..fused_nodes import DOMAIN, FUSED_CONVOLUTIONS, LINEAR, Port, activation_of, inputs_of
from ..values import attribute_ints, constant, per_channel, static_shape
from .driver import Rule
from .fused_activations import OPERATORS, found_activation

__all__ = ["FUSING_RULES", "SIMPLIFYING_RULES"]

_MOVES = ("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Concat")
_FUSED = tuple((DOMAIN, name) for name in (*FUSED_CONVOLUTIONS, LINEAR))
_CONVOLUTIONS = (("", "Conv"), ("", "ConvTranspose"))
_LINEAR = ((DOMAIN, LINEAR),)
# The Transpose of images with channels last to channels first.
_CHANNELS_FIRST = (0, 3, 1, 2)


class _PastMove(Rule):
    """An element-wise node of moved elements."""

    def __init__(self, name: str, operator: str, move: str) -> None:
        super().__init__(name, operator, above=move)
        self.operator, self.move = operator, move

    def moved(self, op: Any) -> Any:
        """Describe the node that moves."""
        return getattr(op, self.move)(_allow_other_inputs=True, _outputs=["moved"])


class BeforeMove(_PastMove):
    """An activation of moved elements of fused nodes that have none."""

    def __init__(self, move: str, activation: str) -> None:
        super().__init__("activation before a move", activation, move)

    def pattern(self, op: Any) -> Any:
        """See `Rule`."""
        return getattr(op, self.operator)(self.moved(op), _allow_other_inputs=True, _outputs=["z"])

    def check(self, context: Any, moved: ir.Value, z: ir.Value) -> bool:
        """See `Rule`."""
        found = found_activation(z.producer())
        return (
            found is not None
            and found[0] != "prelu"
            and all(_reaches(value, None, _FUSED) for value in _data_of(moved.producer()))
        )

    def rewrite(self, op: Any, moved: ir.Value, z: ir.Value) -> Any:
        """See `Rule`."""
        node = z.producer()
        attributes = dict(node.attributes.items())
        return _moved(
            op,
            moved.producer(),
            lambda x: op.op(self.operator, x, *node.inputs[1:], **attributes),
        )


class AffineBeforeMove(_PastMove):
    """Factors or offsets of the channels of products, of their moved elements.

    Parameters
    ----------
    move : str
        Operator that moves elements.
    operator : str
        ``Mul``, ``Div``, ``Add`` or ``Sub``.
    first : bool
        Whether the constant is the first operand.
    products : tuple of (str, str)
        Domains and names of the operators that take the map.
    """

    def __init__(
        self, move: str, operator: str, *, first: bool, products: tuple[tuple[str, str], ...]
    ) -> None:
        super().__init__("affine before a move", operator, move)
        self.first, self.products = first, products

    def pattern(self, op: Any, c: Any) -> Any:
        """See `Rule`."""
        operands = (c, self.moved(op)) if self.first else (self.moved(op), c)
        return getattr(op, self.operator)(*operands)

    def check(self, context: Any, c: ir.Value, moved: ir.Value) -> bool:
        """See `Rule`."""
        found = _axis_of(c, moved)
        return found is not None and _all_reach(moved.producer(), found[1], self.products)

    def rewrite(self, op: Any, c: ir.Value, moved: ir.Value) -> Any:
        """See `Rule`."""
        found = _axis_of(c, moved)
        assert found is not None
        numbers, axis = found
        node = moved.producer()
        parts = _parts(numbers, node, axis)

        def mapped(x: ir.Value) -> ir.Value:
            part = next(parts)
            named = op.initializer(ir.tensor(part), name=f"{x.name}_channels")
            result: ir.Value = op.op(self.operator, *((named, x) if self.first else (x, named)))
            return result

        return _moved(op, node, mapped)


class SumBeforeTranspose(_PastMove):
    """A sum of a product's transposed rows and an image that lies in memory like the rows.

    The image is the result of the same Transpose, or of a convolution, whose channels are last in
    memory.  The sum then goes into the product.
    """

    def __init__(self, *, first: bool) -> None:
        super().__init__("sum before a Transpose", "Add", "Transpose")
        self.first = first

    def pattern(self, op: Any, r: Any) -> Any:
        """See `Rule`."""
        return op.Add(r, self.moved(op)) if self.first else op.Add(self.moved(op), r)

    def check(self, context: Any, r: ir.Value, moved: ir.Value) -> bool:
        """See `Rule`."""
        shape, order, other = static_shape(moved), _order_of(moved), r.producer()
        if r is moved or shape is None or static_shape(r) != shape or r.dtype != moved.dtype:
            return False
        (rows,) = _data_of(moved.producer())
        product = rows.producer()
        if other is None or product is None or product.op_type != LINEAR:
            return False
        if len(moved.uses()) != 1 or moved.is_graph_output() or not _reaches(rows, None, _LINEAR):
            return False
        return _is_turned(r, order) or (
            order == _CHANNELS_FIRST and (other.domain, other.op_type) in _FUSED[:-1]
        )

    def rewrite(self, op: Any, r: ir.Value, moved: ir.Value) -> Any:
        """See `Rule`."""
        order = _order_of(moved)

        def added(x: ir.Value) -> ir.Value:
            if _is_turned(r, order):
                same = r.producer().inputs[0]
            else:
                same = _like(op.Transpose(r, perm=np.argsort(order).tolist()), x)
            result: ir.Value = op.Add(x, same)
            return result

        return _moved(op, moved.producer(), added)


class BatchNormalizationOfMoved(_PastMove):
    """BatchNormalization, in inference, of moved elements of products, as factors and offsets."""

    def __init__(self, move: str, *, products: tuple[tuple[str, str], ...]) -> None:
        super().__init__("BatchNormalization of moved elements", "BatchNormalization", move)
        self.products = products

    def pattern(self, op: Any) -> Any:
        """See `Rule`."""
        return op.BatchNormalization(self.moved(op), _allow_other_inputs=True, _outputs=["z"])

    def check(self, context: Any, moved: ir.Value, z: ir.Value) -> bool:
        """See `Rule`."""
        shape, affine = static_shape(moved), batch_normalization(z.producer())
        if shape is None or affine is None or moved.dtype is None or len(shape) < 2:
            return False
        return affine.scale.size == shape[1] and _all_reach(moved.producer(), 1, self.products)

    def rewrite(self, op: Any, moved: ir.Value, z: ir.Value) -> Any:
        """See `Rule`."""
        affine, shape = batch_normalization(z.producer()), static_shape(moved)
        assert affine is not None and shape is not None and moved.dtype is not None
        found = moved
        for operator, numbers in zip(("Mul", "Add"), affine, strict=True):
            stored = numbers.astype(moved.dtype.numpy()).reshape(-1, *(1,) * (len(shape) - 2))
            named = op.initializer(ir.tensor(stored), name=f"{z.name}_{operator}")
            found = _like(op.op(operator, found, named), moved)
        return found


def _order_of(value: ir.Value) -> tuple[int, ...]:
    """Give the axes of a Transpose, whose result is `value`."""
    axes = len(static_shape(value) or ())
    return attribute_ints(value.producer(), "perm", tuple(reversed(range(axes))))


def _is_turned(value: ir.Value, order: tuple[int, ...]) -> bool:
    """Whether it is the result of a Transpose with these axes."""
    node = value.producer()
    if node is None or node.domain or node.op_type != "Transpose":
        return False
    return _order_of(value) == order


def _data_of(node: ir.Node) -> list[ir.Value]:
    """Give the operands whose elements a node moves."""
    values = node.inputs if node.op_type == "Concat" else node.inputs[:1]
    return [value for value in values if value is not None]


def _moved(op: Any, node: ir.Node, change: Callable[[ir.Value], ir.Value]) -> Any:
    """Build a node that moves changed elements."""
    data = _data_of(node)
    changed = [_like(change(value), value) for value in data]
    return op.op(node.op_type, *changed, *node.inputs[len(data) :], **dict(node.attributes.items()))


def _like(value: ir.Value, other: ir.Value) -> ir.Value:
    """Give a new value type and shape of another."""
    value.type, value.shape = other.type, other.shape
    return value


def _axis_of(c: ir.Value, moved: ir.Value) -> tuple[npt.NDArray[Any], int | None] | None:
    """Give the numbers of a constant, and their axis of the moved elements: none of one number.

    None if it is no constant, has more than one axis, or makes the result larger.
    """
    array, shape = constant(c), static_shape(moved)
    if array is None or shape is None or array.ndim > len(shape):
        return None
    sizes = (1,) * (len(shape) - array.ndim) + array.shape
    axes = [axis for axis, size in enumerate(sizes) if size != 1]
    if len(axes) > 1 or array.dtype.kind != "f":
        return None
    axis = axes[0] if axes else None
    if axis is not None and per_channel(c, shape[axis], len(shape), axis) is None:
        return None
    return array.reshape(-1), axis


def _parts(
    numbers: npt.NDArray[Any], node: ir.Node, axis: int | None
) -> Iterator[npt.NDArray[Any]]:
    """Yield the numbers for each operand whose elements a node moves, for NumPy's broadcasting."""
    begin = 0
    for value, own in _channels_before(node, axis):
        shape = static_shape(value)
        if own is None:
            yield numbers.reshape(())
            continue
        assert shape is not None
        end = begin + shape[own]
        # Parts of channels follow each other; along another axis all operands have all channels.
        yield numbers[begin:end].reshape(-1, *(1,) * (len(shape) - own - 1))
        begin = end % numbers.size


def _all_reach(node: ir.Node, axis: int | None, products: tuple[tuple[str, str], ...]) -> bool:
    """Whether all that a node moves comes from products that take a map of their channels."""
    try:
        found = list(_channels_before(node, axis))
    except LookupError:
        return False
    return bool(found) and all(_reaches(value, own, products) for value, own in found)


def _channels_before(node: ir.Node, axis: int | None) -> Iterator[tuple[ir.Value, int | None]]:
    """Yield each operand whose elements a node moves, and its axis of the numbers of `axis`.

    Raises
    ------
    LookupError
        If an operand has no such axis, or sizes are unknown.
    """
    (output,) = node.outputs
    for value in _data_of(node):
        if axis is None or node.op_type == "Concat":
            yield value, axis
            continue
        shape, result = static_shape(value), static_shape(output)
        if shape is None or result is None:
            raise LookupError
        if node.op_type == "Transpose":
            order = attribute_ints(node, "perm", tuple(reversed(range(len(shape)))))
            yield value, order[axis]
        else:
            yield value, _axis_with(shape, math.prod(result[:axis]), result[axis])


def _axis_with(shape: tuple[int, ...], before: int, size: int) -> int:
    """Give the axis of a size, with a number of elements before it."""
    for axis, own in enumerate(shape):
        if own == size and math.prod(shape[:axis]) == before:
            return axis
    raise LookupError


def _reaches(value: ir.Value, axis: int | None, products: tuple[tuple[str, str], ...]) -> bool:
    """Whether it comes from a product that takes a map, through nothing but moves.

    Without `axis` all elements have one number, or the map is an activation.
    """
    if len(value.uses()) != 1 or value.is_graph_output():
        return False
    node = value.producer()
    if node is None:
        return False
    if (node.domain, node.op_type) in products:
        free = _is_free(node, activates=products is _FUSED)
        return free and axis in (None, _channel_axis(node, value))
    if node.domain or node.op_type not in _MOVES:
        return False
    return _all_reach(node, axis, products)


def _is_free(node: ir.Node, *, activates: bool) -> bool:
    """Whether a product takes a map of its result, which is an activation or affine."""
    if node.domain != DOMAIN:
        return weights_of(node) is not None
    # A factor would scale a residual as well.
    first = Port.SCALE if activates else Port.RESIDUAL
    return not activation_of(node)[0] and not any(inputs_of(node)[first:])


def _channel_axis(node: ir.Node, value: ir.Value) -> int:
    """Give the axis of a product's channels."""
    shape = static_shape(value)
    return len(shape) - 1 if node.op_type == LINEAR and shape is not None else 1


FUSING_RULES: tuple[Rule, ...] = (
    *(BeforeMove(move, activation) for move in _MOVES for activation in OPERATORS),
    *(
        AffineBeforeMove(move, operator, first=first, products=_LINEAR)
        for move in _MOVES
        for operator, first in FORMS
    ),
    *(BatchNormalizationOfMoved(move, products=_LINEAR) for move in _MOVES),
    *(SumBeforeTranspose(first=first) for first in (False, True)),
)
"""Rules of fused nodes, in the order in which they are tried."""

SIMPLIFYING_RULES: tuple[Rule, ...] = (
    *(
        AffineBeforeMove(move, operator, first=first, products=_CONVOLUTIONS)
        for move in _MOVES
        for operator, first in FORMS
    ),
    *(BatchNormalizationOfMoved(move, products=_CONVOLUTIONS) for move in _MOVES),
)
"""Rules of ONNX's own convolutions, in the order in which they are tried."""

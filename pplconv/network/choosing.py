"""The choice of quantized values, so that integers do most of a network's work.

Convolutions and products with known weights read quantized values. Their stores also compute a
following Relu, Clip or HardSwish, and, of all but transposed convolutions, a sum whose other
operand is quantized, too. Other activations are tables of bytes in these stores: their operands are
quantized as well, and their results where a sum or a gate reads them. So is an image that has a
computed factor for each channel (squeeze and excite): its mean and its product with the factors
read bytes. Values that are only moved share the scale of their source, so that nothing is
converted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import onnx_ir as ir

from .operators.table import row_of
from .operators.table_row import Moves
from .values import FLOATS, attribute_int, constant, is_constant, scalar

__all__ = ["Choice", "choose"]

# Activations that the store of a product looks up in a table: none of them is a clamp.
_LOOKED_UP = frozenset({"Celu", "Elu", "Gelu", "LeakyRelu", "Mish", "Selu", "Softplus", "Swish"})
# Nodes that compute in one pass with others: a chain of them reads bytes if it writes bytes.
_PASSED = frozenset({"Add", "Clip", "HardSwish", "Mul", "Relu"})

_TRANSPOSED = "ConvTranspose"


class Choice:
    """Products and values to quantize.

    Attributes
    ----------
    products : dict
        Nodes that multiply integers, in their order, each with the axis of output channels in its
        weights.
    values : dict
        Quantized values, each with the first value of its scale's group.
    """

    def __init__(self) -> None:
        self.products: dict[ir.Node, int] = {}
        self.values: dict[ir.Value, ir.Value] = {}

    def add(self, value: ir.Value) -> bool:
        """Mark a value as quantized; whether it was not before."""
        if value in self.values:
            return False
        self.values[value] = value
        return True

    def first(self, value: ir.Value) -> ir.Value:
        """Give the first value of a value's scale group."""
        while self.values[value] is not value:
            value = self.values[value]
        return value

    def join(self, one: ir.Value, other: ir.Value) -> bool:
        """Make two values share a scale; whether they did not before."""
        a, b = self.first(one), self.first(other)
        self.values[b] = a
        return a is not b

    def reads_integers(self, node: ir.Node, value: ir.Value) -> bool:
        """Whether a reader of a quantized value reads its integers.

        Values that are also computed in float32 stay float32 for float32 readers.
        """
        if node in self.products or not _is_stored(value, self):
            return node in self.products or bool(_moved(node)) or _is_sum(node, self)
        return True


def choose(graph: ir.Graph, keep: Collection[str] = ()) -> Choice:
    """Choose the values that are quantized.

    Parameters
    ----------
    graph : ir.Graph
        A prepared graph.
    keep : collection of str
        Names of nodes, or of their outputs, that stay in float32.

    Returns
    -------
    Choice
    """
    choice = Choice()
    for node in graph:
        axis = None if {node.name, node.outputs[0].name} & set(keep) else _channel_axis(node)
        if axis is not None:
            choice.products[node] = axis
    for node in choice.products:
        x = node.inputs[0]
        assert x is not None
        choice.add(x)
    while any([_extended(value, choice) for value in list(choice.values)]):
        pass
    return choice


def _channel_axis(node: ir.Node) -> int | None:
    """Axis of output channels in the weights; None if the product cannot be quantized."""
    if node.domain or node.op_type not in ("Conv", _TRANSPOSED, "Gemm", "MatMul"):
        return None
    x, w = node.inputs[:2]
    array = constant(w)
    if x is None or array is None or is_constant(x) or x.dtype != ir.DataType.FLOAT:
        return None
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if (bias is not None and not is_constant(bias)) or not array.size:
        return None
    if node.op_type == "Conv":
        return 0 if array.ndim == 4 else None
    if node.op_type == _TRANSPOSED:
        # ONNX has one scale for the same channel of all groups.
        return 1 if array.ndim == 4 and attribute_int(node, "group", 1) == 1 else None
    if array.ndim != 2:
        return None
    if node.op_type == "MatMul":
        return 1
    if attribute_int(node, "transA", 0) or node.attributes.get_float("alpha", 1.0) != 1:
        return None
    return 0 if attribute_int(node, "transB", 0) else 1


def _extended(value: ir.Value, choice: Choice) -> bool:
    """Quantize the source of a quantized value, where that saves a conversion."""
    node = value.producer()
    if node is None:
        return False
    if _moves(node):
        sources = [value for value in _moved(node) if value]
        new = [choice.add(source) for source in sources]
        return any([*new, *(choice.join(source, value) for source in sources)])
    summed = _clamped(node)
    if summed is not None and summed.op_type == "Add":
        product, other = _residual(summed, choice)
        if product is not None and other is not None:
            return choice.add(other)
    return any([choice.add(read) for read in _read_with(node, choice)])


def _read_with(node: ir.Node, choice: Choice) -> Iterator[ir.Value]:
    """Give what is quantized with the result of a node, so that a product stores bytes."""
    pending = [node]
    while pending:
        node = pending.pop()
        if _is_looked_up(node, choice):
            assert node.inputs[0] is not None
            yield node.inputs[0]
        if node.op_type not in _PASSED:
            continue
        excited = _excited(node)
        for value in node.inputs:
            made = None if value is None else value.producer()
            if value is None or made is None:
                continue
            summed = node.op_type in ("Add", "Mul") and _is_looked_up(made, choice)
            if summed or (value is excited and _may_be_stored(made, choice)):
                yield value
            elif excited is None and _is_single(value):
                # A chain of element-wise operators, as of sums in pyramids, reads bytes as well.
                pending.append(made)


def _excited(node: ir.Node) -> ir.Value | None:
    """The image that a Mul gives a computed factor for each channel; None for other nodes."""
    if node.op_type != "Mul" or any(value is None or is_constant(value) for value in node.inputs):
        return None
    a, b = node.inputs[:2]
    for x, factors in ((a, b), (b, a)):
        image, beside = ([] if value.shape is None else list(value.shape) for value in (x, factors))
        if len(image) == len(beside) == 4 and image[2:] != [1, 1] == beside[2:]:
            return x if image[1] == beside[1] else None
    return None


def _is_looked_up(node: ir.Node, choice: Choice) -> bool:
    """Whether the store of a product can have a table of an activation."""
    x = node.inputs[0] if node.op_type in _LOOKED_UP else None
    return x is not None and _is_single(x) and x.producer() in choice.products


def _moves(node: ir.Node) -> bool:
    """Whether a node only moves or selects elements, and adds nothing but zeros."""
    operands, others = _moved(node), node.outputs[1:]
    return (
        bool(operands)
        and operands[0] is not None
        and operands[0].dtype in FLOATS
        and row_of(node.op_type).moves_if(node)
        and not any(map(is_constant, operands))
        and not any(value.uses() for value in others)
    )


def _moved(node: ir.Node) -> Sequence[ir.Value | None]:
    """Operands whose elements a node only moves."""
    moves = Moves.NOTHING if node.domain else row_of(node.op_type).moves
    if moves is Moves.NOTHING:
        return ()
    operands: Sequence[ir.Value | None] = node.inputs
    return operands if moves is Moves.ALL else operands[:1]


def _clamped(node: ir.Node) -> ir.Node | None:
    """The node before a Relu or Clip that is its only reader; else the node itself."""
    if node.op_type not in ("Relu", "Clip") or node.inputs[0] is None:
        return node
    inner = node.inputs[0]
    return inner.producer() if _is_single(inner) else None


def _swished(node: ir.Node) -> ir.Node:
    """The node before HardSwish with a factor and an offset behind it; else the node itself."""
    found: ir.Node | None = node
    while found is not None and found.op_type in ("Add", "Mul"):
        found = _only_computed(found)
    if found is None or found.op_type != "HardSwish" or found.inputs[0] is None:
        return node
    inner = found.inputs[0].producer() if _is_single(found.inputs[0]) else None
    return node if inner is None else inner


def _only_computed(node: ir.Node) -> ir.Node | None:
    """The node that alone computes an operand of another, which has one number besides."""
    a, b = node.inputs[:2]
    for value, other in ((a, b), (b, a)):
        if value is not None and scalar(other) is not None and _is_single(value):
            return value.producer()
    return None


def _is_single(value: ir.Value) -> bool:
    return len(value.uses()) == 1 and not value.is_graph_output()


def _residual(node: ir.Node, choice: Choice) -> tuple[ir.Node | None, ir.Value | None]:
    """Give the product that stores a sum, and the operand that becomes its residual."""
    a, b = node.inputs[:2]
    if a is None or b is None or a is b or is_constant(a) or is_constant(b):
        return None, None
    found = [
        (value.producer(), other)
        for value, other in ((a, b), (b, a))
        if _is_single(value) and _adds(value.producer(), choice)
    ]
    if not found:
        return None, None
    if len(found) == 2:
        # The later product stores the sum; the other operand is computed before it.
        order = list(choice.products)
        found.sort(key=lambda pair: order.index(pair[0]) if pair[0] else 0)
    return found[-1]


def _adds(node: ir.Node | None, choice: Choice) -> bool:
    """Whether a node is a product whose store adds a residual."""
    return node in choice.products and node is not None and node.op_type != _TRANSPOSED


def _stored_with(value: ir.Value, choice: Choice) -> Iterator[ir.Node]:
    """Give the product that stores a quantized value, if one does."""
    node = value.producer()
    if node is not None and _is_looked_up(node, choice) and node.inputs[0] in choice.values:
        node = node.inputs[0].producer()
    inner = None if node is None else _clamped(_swished(node))
    if inner is None:
        return
    if inner.op_type == "Add":
        product, other = _residual(inner, choice)
        if product is not None and other in choice.values:
            yield product
    elif inner in choice.products:
        yield inner


def _may_be_stored(node: ir.Node, choice: Choice) -> bool:
    """Whether a product stores the result of a node, once a residual is quantized."""
    inner = _clamped(_swished(node))
    return inner is not None and (inner in choice.products or _is_sum(inner, choice))


def _is_stored(value: ir.Value, choice: Choice) -> bool:
    return any(_stored_with(value, choice))


def _is_sum(node: ir.Node, choice: Choice) -> bool:
    """Whether a node is a sum that a product stores."""
    return node.op_type == "Add" and _residual(node, choice)[0] is not None

"""Shapes and types of the results of common operators, without a call of ONNX's inference.

ONNX's inference of one node takes protobufs of the node and of its operands, which take much longer
to write than the answer takes to compute. Here are only the cases that a model has by the thousand:
valid nodes with the sizes known that matter. All others give None, and ONNX decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from .values import attribute_int, attribute_ints, attribute_string, constant

__all__ = ["infer_outputs"]

Size = Any
"""An int, or an ``ir.SymbolicDim``."""
Sizes = tuple[Size, ...]
Result = tuple[Sizes, ir.DataType]


class _Node:
    """A node, with the sizes and types of its operands.

    Parameters
    ----------
    node : ir.Node
        The node.
    shapes : list of tuple, or None
        For each operand; None where nothing is known, or no operand is given.
    types : list of DataType, or None
        For each operand.
    """

    __slots__ = ("node", "shapes", "types")

    def __init__(self, node: ir.Node) -> None:
        self.node = node
        self.shapes: list[Sizes | None] = []
        self.types: list[ir.DataType | None] = []
        for value in node.inputs:
            shape = None if value is None else value.shape
            self.shapes.append(None if shape is None else shape.dims)
            self.types.append(None if value is None else value.dtype)

    def numbers(self, place: int) -> list[int] | None:
        """Give a constant list of int64; None if the operand is no such list."""
        array = constant(self.node.inputs[place]) if place < len(self.node.inputs) else None
        if array is None or array.ndim != 1 or array.dtype != np.int64:
            return None
        return array.tolist()  # type: ignore[no-any-return]

    def given(self, place: int) -> bool:
        """Tell whether an operand is given."""
        return place < len(self.node.inputs) and self.node.inputs[place] is not None


def infer_outputs(node: ir.Node) -> bool:
    """Give the results of a node their shapes and types, if that is easy.

    Parameters
    ----------
    node : ir.Node
        A node of ONNX's domain, of opset `opsets.OPSET` or newer, that does not contradict itself;
        its results are changed in place.

    Returns
    -------
    bool
        False if ONNX's inference has to decide; then the node is as it was.
    """
    rule = _RULES.get(node.op_type)
    if rule is None or any(value is not None and not _is_tensor(value) for value in node.inputs):
        return False
    outputs = node.outputs
    # What was inferred before stays.
    if any(value.shape is not None or not value.name for value in outputs):
        return False
    try:
        results = rule(_Node(node))
    except (TypeError, ValueError, IndexError):
        # Attributes of other types, operands that are missing.
        return False
    if results is None or len(results) != len(outputs):
        return False
    for value, (sizes, dtype) in zip(outputs, results, strict=True):
        value.shape, value.type = ir.Shape(sizes), ir.TensorType(dtype)
    return True


def _is_tensor(value: ir.Value) -> bool:
    return type(value.type) is ir.TensorType


Rule = Callable[[_Node], "Sequence[Result] | None"]

_FLOATS = frozenset(
    (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE, ir.DataType.BFLOAT16)
)


def _whole(sizes: Sizes | None) -> bool:
    """Tell whether all sizes are known."""
    return sizes is not None and all(isinstance(size, int) for size in sizes)


def _one(sizes: Sizes | None, dtype: ir.DataType | None) -> list[Result] | None:
    return None if sizes is None or dtype is None else [(sizes, dtype)]


def _same(at: _Node) -> list[Result] | None:
    """A result like the first operand."""
    return _one(at.shapes[0], at.types[0])


def _same_floats(at: _Node) -> list[Result] | None:
    """A result like the first operand, if all operands are floats of one type."""
    dtype = at.types[0]
    alike = all(own is dtype for place, own in enumerate(at.types) if at.given(place))
    return _same(at) if alike and dtype in _FLOATS else None


def _normalized(at: _Node) -> list[Result] | None:
    """A result like the first operand, with lists of a number for each channel beside it."""
    x = at.shapes[0]
    if x is None or len(x) < 2 or any(each != (x[1],) for each in at.shapes[1:]):
        return None
    return _same_floats(at) if isinstance(x[1], int) else None


def _broadcast(shapes: Sequence[Sizes | None]) -> Sizes | None:
    """Broadcast in all directions; a known size counts more than one that has a name only."""
    found: list[Size] = []
    known = [shape for shape in shapes if shape is not None]
    if len(known) != len(shapes):
        return None
    for place in range(-max(map(len, known)), 0):
        size: Size = 1
        named: Size = None
        for shape in known:
            own = shape[place] if -place <= len(shape) else 1
            if not isinstance(own, int):
                if named is not None and (own.value is None or own != named):
                    return None
                named = own
            elif own != 1:
                if size not in (1, own):
                    return None
                size = own
        found.append(named if size == 1 and named is not None else size)
    return tuple(found)


def _elementwise(at: _Node) -> list[Result] | None:
    dtype = at.types[0]
    if any(own is not dtype for own in at.types):
        return None
    return _one(_broadcast(at.shapes), dtype)


def _compared(at: _Node) -> list[Result] | None:
    results = _elementwise(at)
    return results and _one(results[0][0], ir.DataType.BOOL)


def _chosen(at: _Node) -> list[Result] | None:
    if len(at.shapes) != 3 or at.types[0] is not ir.DataType.BOOL:
        return None
    return _one(_broadcast(at.shapes), at.types[1]) if at.types[1] is at.types[2] else None


def _power(at: _Node) -> list[Result] | None:
    return _one(_broadcast(at.shapes), at.types[0])


def _cast(at: _Node) -> list[Result] | None:
    return _one(at.shapes[0], ir.DataType(attribute_int(at.node, "to", 0)))


def _windows(at: _Node, kernel: Sequence[int]) -> Sizes | None:
    """Count the windows in each dimension behind the channels."""
    node, x = at.node, at.shapes[0]
    count = len(kernel)
    if x is None or len(x) != count + 2:
        return None
    if (attribute_string(node, "auto_pad", "NOTSET") or "NOTSET") != "NOTSET":
        return None
    if attribute_int(node, "ceil_mode", 0):
        return None
    strides = attribute_ints(node, "strides", ()) or (1,) * count
    dilations = attribute_ints(node, "dilations", ()) or (1,) * count
    pads = attribute_ints(node, "pads", ()) or (0,) * 2 * count
    if not len(strides) == len(dilations) == len(kernel) == len(pads) / 2:
        return None
    if min(strides) < 1 or min(dilations) < 1 or min(kernel) < 1:
        return None
    sizes: list[Size] = []
    for axis, size in enumerate(x[2:]):
        if not isinstance(size, int):
            sizes.append(ir.SymbolicDim(None))
            continue
        room = size + pads[axis] + pads[axis + count] - (kernel[axis] - 1) * dilations[axis] - 1
        if room < 0:
            return None
        sizes.append(room // strides[axis] + 1)
    return tuple(sizes)


def _convolution(at: _Node) -> list[Result] | None:
    x, w = at.shapes[:2]
    if x is None or w is None or not _whole(w) or len(w) < 3 or not _same_floats(at):
        return None
    kernel = attribute_ints(at.node, "kernel_shape", ()) or w[2:]
    sizes = _windows(at, w[2:]) if tuple(kernel) == w[2:] else None
    return None if sizes is None else _one((x[0], w[0], *sizes), at.types[0])


def _pool(at: _Node) -> list[Result] | None:
    x, kernel = at.shapes[0], attribute_ints(at.node, "kernel_shape", ())
    sizes = _windows(at, kernel) if kernel else None
    if x is None or sizes is None:
        return None
    return _same_floats(at) and _one((*x[:2], *sizes), at.types[0])


def _global_pool(at: _Node) -> list[Result] | None:
    x = at.shapes[0]
    if x is None or len(x) < 3:
        return None
    return _same_floats(at) and _one((*x[:2], *(1,) * (len(x) - 2)), at.types[0])


def _product(at: _Node) -> list[Result] | None:
    a, b = at.shapes[:2]
    if a is None or b is None or len(a) < 2 or len(b) < 2 or at.types[0] is not at.types[1]:
        return None
    outer = _broadcast((a[:-2], b[:-2])) if a[:-2] or b[:-2] else ()
    if outer is None or not isinstance(a[-1], int) or a[-1] != b[-2]:
        return None
    return _one((*outer, a[-2], b[-1]), at.types[0])


def _gemm(at: _Node) -> list[Result] | None:
    a, b = at.shapes[:2]
    if a is None or b is None or len(a) != 2 or len(b) != 2 or at.types[0] is not at.types[1]:
        return None
    a = a[::-1] if attribute_int(at.node, "transA", 0) else a
    b = b[::-1] if attribute_int(at.node, "transB", 0) else b
    if not isinstance(a[1], int) or a[1] != b[0]:
        return None
    return _one((a[0], b[1]), at.types[0])


def _transposed(at: _Node) -> list[Result] | None:
    x = at.shapes[0]
    if x is None:
        return None
    order = attribute_ints(at.node, "perm", ()) or tuple(range(len(x)))[::-1]
    if sorted(order) != list(range(len(x))):
        return None
    return _one(tuple(x[axis] for axis in order), at.types[0])


def _joined(at: _Node) -> list[Result] | None:
    first, dtype = at.shapes[0], at.types[0]
    if first is None or any(own is not dtype for own in at.types):
        return None
    axis = attribute_int(at.node, "axis", 0)
    if not first or not -len(first) <= axis < len(first):
        return None
    axis %= len(first)
    total = 0
    for shape in at.shapes:
        if shape is None or len(shape) != len(first) or not isinstance(shape[axis], int):
            return None
        for place, (own, other) in enumerate(zip(shape, first, strict=True)):
            if place != axis and (own != other or (not isinstance(own, int) and own.value is None)):
                return None
        total += shape[axis]
    return _one((*first[:axis], total, *first[axis + 1 :]), dtype)


def _reshaped(at: _Node) -> list[Result] | None:
    x, wanted = at.shapes[0], at.numbers(1)
    if x is None or wanted is None or not _whole(x) or attribute_int(at.node, "allowzero", 0):
        return None
    if wanted.count(-1) > 1 or min(wanted, default=0) < -1:
        return None
    if any(size == 0 and axis >= len(x) for axis, size in enumerate(wanted)):
        return None
    sizes = [x[axis] if size == 0 else size for axis, size in enumerate(wanted)]
    total, known = math.prod(x), math.prod(size for size in sizes if size != -1)
    if -1 in sizes:
        if not known or total % known:
            return None
        sizes[sizes.index(-1)] = total // known
    elif known != total:
        return None
    return _one(tuple(sizes), at.types[0])


def _flattened(at: _Node) -> list[Result] | None:
    x = at.shapes[0]
    if x is None or len(x) < 2 or attribute_int(at.node, "axis", 1) != 1 or not _whole(x[1:]):
        return None
    return _one((x[0], math.prod(x[1:])), at.types[0])


def _axes(at: _Node, axes: Sequence[int] | None, rank: int) -> set[int] | None:
    """Give distinct axes counted from the first one; None if any is wrong."""
    if axes is None or any(not -rank <= axis < rank for axis in axes):
        return None
    places = {axis % rank for axis in axes}
    return places if len(places) == len(axes) else None


def _squeezed(at: _Node) -> list[Result] | None:
    x = at.shapes[0]
    places = None if x is None else _axes(at, at.numbers(1), len(x))
    if x is None or not places or any(x[place] != 1 for place in places):
        return None
    return _one(tuple(s for axis, s in enumerate(x) if axis not in places), at.types[0])


def _unsqueezed(at: _Node) -> list[Result] | None:
    x, axes = at.shapes[0], at.numbers(1)
    if x is None or not axes:
        return None
    rank = len(x) + len(axes)
    places = _axes(at, axes, rank)
    if places is None:
        return None
    sizes = iter(x)
    return _one(tuple(1 if axis in places else next(sizes) for axis in range(rank)), at.types[0])


def _sliced(at: _Node) -> list[Result] | None:
    x, starts, ends = at.shapes[0], at.numbers(1), at.numbers(2)
    if x is None or starts is None or ends is None:
        return None
    axes = at.numbers(3) if at.given(3) else list(range(len(starts)))
    steps = at.numbers(4) if at.given(4) else [1] * len(starts)
    if axes is None or steps is None or not len(starts) == len(ends) == len(axes) == len(steps):
        return None
    if _axes(at, axes, len(x)) is None:
        return None
    sizes = list(x)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step < 1 or not isinstance(sizes[axis], int):
            return None
        sizes[axis] = len(range(*slice(start, end, step).indices(sizes[axis])))
    return _one(tuple(sizes), at.types[0])


def _gathered(at: _Node) -> list[Result] | None:
    x, index = at.shapes[:2]
    axis = attribute_int(at.node, "axis", 0)
    if at.types[1] not in (ir.DataType.INT32, ir.DataType.INT64):
        return None
    if not x or index is None or not -len(x) <= axis < len(x):
        return None
    axis %= len(x)
    return _one((*x[:axis], *index, *x[axis + 1 :]), at.types[0])


def _reduced(at: _Node) -> list[Result] | None:
    x = at.shapes[0]
    if x is None or not at.given(1):
        return None
    places = _axes(at, at.numbers(1), len(x))
    if not places:
        return None
    if attribute_int(at.node, "keepdims", 1):
        return _one(tuple(1 if axis in places else s for axis, s in enumerate(x)), at.types[0])
    return _one(tuple(s for axis, s in enumerate(x) if axis not in places), at.types[0])


def _expanded(at: _Node) -> list[Result] | None:
    x, wanted = at.shapes[0], at.numbers(1)
    if not _whole(x) or wanted is None or min(wanted, default=1) < 1:
        return None
    return _one(_broadcast((x, tuple(wanted))), at.types[0])


def _padded(at: _Node) -> list[Result] | None:
    x, pads = at.shapes[0], at.numbers(1)
    if x is None or not _whole(x) or pads is None or at.given(3) or len(pads) != 2 * len(x):
        return None
    if at.given(2) and at.types[2] is not at.types[0]:
        return None
    sizes = [size + sum(pads[axis :: len(x)]) for axis, size in enumerate(x)]
    return _one(tuple(sizes), at.types[0]) if min(sizes, default=0) >= 0 else None


def _parts(at: _Node) -> list[Result] | None:
    x, parts, dtype = at.shapes[0], at.numbers(1), at.types[0]
    axis = attribute_int(at.node, "axis", 0)
    if not x or parts is None or dtype is None or not -len(x) <= axis < len(x):
        return None
    axis %= len(x)
    if len(parts) != len(at.node.outputs) or min(parts, default=-1) < 0 or x[axis] != sum(parts):
        return None
    return [((*x[:axis], part, *x[axis + 1 :]), dtype) for part in parts]


def _shape(at: _Node) -> list[Result] | None:
    x = at.shapes[0]
    if x is None or attribute_int(at.node, "start", 0) or "end" in at.node.attributes:
        return None
    return [((len(x),), ir.DataType.INT64)]


def _filled(at: _Node) -> list[Result] | None:
    sizes, value = at.numbers(0), at.node.attributes.get("value")
    if sizes is None or min(sizes, default=0) < 0:
        return None
    return _one(tuple(sizes), ir.DataType.FLOAT if value is None else value.as_tensor().dtype)


def _logical(at: _Node) -> list[Result] | None:
    return _one(at.shapes[0], ir.DataType.BOOL) if at.types[0] is ir.DataType.BOOL else None


def _layer_normalized(at: _Node) -> list[Result] | None:
    x, axis = at.shapes[0], attribute_int(at.node, "axis", -1)
    if not x or not -len(x) <= axis < len(x) or len(at.node.outputs) != 1:
        return None
    return _same_floats(at)


_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        (
            "Abs", "Ceil", "Clip", "Cos", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid",
            "HardSwish", "LeakyRelu", "Log", "LogSoftmax", "Mish", "Neg", "Reciprocal", "Relu",
            "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softmax", "Softplus", "Softsign", "Sqrt",
            "Swish", "Tanh",
        ),
        _same_floats,
    ),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), _normalized),
    **dict.fromkeys(("Add", "Div", "Max", "Min", "Mod", "Mul", "Sub"), _elementwise),
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), _compared),
    **dict.fromkeys(("AveragePool", "MaxPool"), _pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), _global_pool),
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"), _reduced),
    "Cast": _cast,
    "Concat": _joined,
    "ConstantOfShape": _filled,
    "Conv": _convolution,
    "Expand": _expanded,
    "Flatten": _flattened,
    "Gather": _gathered,
    "Gemm": _gemm,
    "Identity": _same,
    "LayerNormalization": _layer_normalized,
    "MatMul": _product,
    "Not": _logical,
    "Pad": _padded,
    "Pow": _power,
    "Reshape": _reshaped,
    "Shape": _shape,
    "Slice": _sliced,
    "Split": _parts,
    "Squeeze": _squeezed,
    "Transpose": _transposed,
    "Unsqueeze": _unsqueezed,
    "Where": _chosen,
}  # fmt: skip

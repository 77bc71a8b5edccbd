"""Operators of quantized arrays in pieces: DequantizeLinear, the operator, QuantizeLinear.

Models that were exported in such pieces look the same; `integer_fusing` joins the pieces again.
ConvInteger and MatMulInteger, whose results are the sums themselves, become nodes of integers at
once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ..integer_nodes import (
    QUANTIZED_CONV,
    QUANTIZED_LINEAR,
    Sums,
    build_product,
    centered,
    offset_of,
    offset_of_any_zero,
)
from ..integers import RANGES
from ..operators import exact_products
from ..quantized_values import MICROSOFT, Quantization
from ..values import attribute_int, attribute_ints, constant, rank, static_shape
from .decomposing import Decompose
from .driver import OperatorRule, Rule

__all__ = ["INTEGER_RULES", "RULES"]


class Operator(OperatorRule):
    """An operator that reads and writes quantized arrays.

    Parameters
    ----------
    operator : str
        Its name.
    inner : str
        ONNX's floating-point operator.
    operands : sequence of int
        Ports of its operands, each followed by its scale and its zero point.
    stored : int
        Port of the output's scale.
    domain : str
        Of the operator.
    """

    # Attributes that the inner operator lacks.
    taken: tuple[str, ...] = ()

    def __init__(
        self, operator: str, inner: str, operands: Sequence[int], stored: int,
        domain: str = MICROSOFT,
    ) -> None:  # fmt: skip
        super().__init__(f"{operator} in pieces", operator, domain=domain)
        self.inner = inner
        self.operands, self.stored = operands, stored

    def check(self, context: Any, x: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        node = y.producer()
        return not attribute_int(node, "channels_last", 0) or self.axes(node) is not None

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        node = y.producer()
        inputs: list[Any] = [*node.inputs, *[None] * 9]
        axes = self.axes(node) if attribute_int(node, "channels_last", 0) else None
        if axes is not None:
            inputs[0] = op.Transpose(inputs[0], perm=[0, axes - 1, *range(1, axes - 1)])
        operands = [
            op.DequantizeLinear(
                inputs[port], *_as_many(op, *inputs[port + 1 : port + 3]), **self.axis(node, port)
            )
            for port in self.operands
        ]
        operands += self.more(op, node)
        own = {k: v for k, v in node.attributes.items() if k not in ("channels_last", *self.taken)}
        result = getattr(op, self.inner)(*operands, **own)
        if inputs[self.stored] is None:
            return result
        scale, zero = inputs[self.stored : self.stored + 2]
        stored = _stored(op, result, scale, zero, node.inputs[self.operands[0]])
        if axes is None:
            return stored
        return op.Transpose(stored, perm=[0, *range(2, axes), 1])

    def axes(self, node: ir.Node) -> int | None:
        """Give the rank of the input, if it is known: for channels that are last."""
        kernel = attribute_ints(node, "kernel_shape", ())
        return len(kernel) + 2 if kernel else rank(node.inputs[0])

    def axis(self, node: ir.Node, port: int) -> dict[str, int]:
        """Give the axis of an operand's scales, as an attribute."""
        return {}

    def more(self, op: Any, node: ir.Node) -> list[ir.Value]:
        """Give further operands."""
        return []


def _as_many(
    op: Any, scale: ir.Value | None, zero: ir.Value | None
) -> tuple[ir.Value | None, ir.Value | None]:
    """Repeat a single scale or zero point to the other's number, as ONNX defines."""
    arrays = constant(scale), constant(zero)
    sizes = [0 if array is None else array.size for array in arrays]
    if min(sizes) != 1 or max(sizes) == 1:
        return scale, zero
    both = []
    for value, array in zip((scale, zero), arrays, strict=True):
        assert value is not None and array is not None
        if array.size == 1:
            repeated = np.full(max(sizes), array.reshape(()))
            value = op.initializer(ir.tensor(repeated), name=f"{value.name}_repeated")
        both.append(value)
    return both[0], both[1]


def _stored(
    op: Any, result: Any, scale: ir.Value, zero: ir.Value | None, like: ir.Value | None
) -> Any:
    """Quantize a result; without a zero point its type is that of an input."""
    if zero is None:
        kind = _integers(like)
        if kind is not None:
            nothing = np.zeros((), kind.numpy())
            zero = op.initializer(ir.tensor(nothing), name=f"{scale.name}_zero_point")
    stored = op.QuantizeLinear(result, scale, zero)
    if zero is not None and zero.dtype is not None:
        stored.type = ir.TensorType(zero.dtype)
    return stored


def _integers(value: ir.Value | None) -> ir.DataType | None:
    """Type of quantized values, found from earlier nodes if it is not inferred yet."""
    while value is not None and value.dtype is None:
        node = value.producer()
        if node is None:
            return None
        # Other operators here move integers, or keep their type.
        port = {"QuantizeLinear": 2, "QLinearConcat": 2, "QGemm": 8}.get(node.op_type, 0)
        value = [*node.inputs, *[None] * 9][port]
    return None if value is None else value.dtype


def _bias(op: Any, node: ir.Node, port: int, scales: tuple[int, int]) -> list[ir.Value]:
    """Dequantize a bias, whose unit is the product of two scales."""
    bias = node.inputs[port] if len(node.inputs) > port else None
    if bias is None:
        return []
    a, b = (constant(node.inputs[scale]) for scale in scales)
    if a is None or b is None:
        # Those that are not constant were refused.
        raise ValueError("there is no scale for the bias")
    # Both are float32, and so is their product.
    with np.errstate(over="ignore", under="ignore"):
        product = np.asarray(a.reshape(()).astype(np.float32) * b.astype(np.float32))
    scale = op.initializer(ir.tensor(product), name=f"{bias.name}_scale")
    array = constant(bias)
    if array is None or product.size == 1:
        return [op.DequantizeLinear(bias, scale, axis=0)]
    # Broadcast a scalar bias to all columns: scales have one number for each.
    if array.shape[-1:] != product.shape and array.shape[-1:] in ((), (1,)):
        array = np.broadcast_to(array, (*array.shape[:-1], product.size))
        bias = op.initializer(ir.tensor(np.array(array)), name=f"{bias.name}_columns")
    return [op.DequantizeLinear(bias, scale, axis=array.ndim - 1)]


class Conv(Operator):
    """QLinearConv, of ONNX or of onnxruntime, whose images may have channels last."""

    def __init__(self, domain: str) -> None:
        super().__init__("QLinearConv", "Conv", (0, 3), 6, domain)

    def axis(self, node: ir.Node, port: int) -> dict[str, int]:
        """Weights have a scale for each output channel."""
        return {"axis": 0} if port else {}

    def more(self, op: Any, node: ir.Node) -> list[ir.Value]:
        """Give the bias."""
        return _bias(op, node, 8, (1, 4))


class MatMul(Operator):
    """QLinearMatMul by a constant matrix; Python multiplies two computed ones."""

    def __init__(self) -> None:
        super().__init__("QLinearMatMul", "MatMul", (0, 3), 6, "")

    def check(self, context: Any, x: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        matrix = constant(y.producer().inputs[3])
        scales = [constant(y.producer().inputs[port]) for port in (1, 4, 6)]
        return (
            matrix is not None
            and matrix.ndim == 2
            and all(scale is not None and scale.ndim < 2 for scale in scales)
            and all(s is not None and s.size == 1 for s in (scales[0], scales[2]))
        )

    def axis(self, node: ir.Node, port: int) -> dict[str, int]:
        """A matrix has a scale for each column."""
        return {"axis": 1} if port else {}


class Gemm(Operator):
    """QGemm, whose output is floating point if it has neither scale nor zero point.

    A scale without a zero point is not rewritten: onnxruntime divides by it, and gives floats.
    """

    def __init__(self) -> None:
        super().__init__("QGemm", "Gemm", (0, 3), 7)

    def check(self, context: Any, x: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        node = y.producer()
        bias, scale, zero = [*node.inputs, *[None] * 3][6:9]
        plain = node.attributes.get_float("alpha", 1.0) == 1
        both = (scale is None) == (zero is None)
        return plain and both and (bias is None or constant(bias) is not None)

    def axis(self, node: ir.Node, port: int) -> dict[str, int]:
        """A matrix has a scale for each column of the output."""
        return {"axis": 0 if attribute_int(node, "transB", 0) else 1} if port else {}

    def more(self, op: Any, node: ir.Node) -> list[ir.Value]:
        """Give the bias."""
        return _bias(op, node, 6, (1, 4))


class Softmax(Operator):
    """QLinearSoftmax, which says the opset of the Softmax that it was."""

    taken = ("opset",)

    def __init__(self) -> None:
        super().__init__("QLinearSoftmax", "Softmax", (0,), 3)

    def check(self, context: Any, x: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        # Earlier ones flatten all axes from their axis on.
        return attribute_int(y.producer(), "opset", 0) >= 13


class Concat(Operator):
    """QLinearConcat, whose output's scale comes first."""

    def __init__(self) -> None:
        super().__init__("QLinearConcat", "Concat", (), 0)

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        node = y.producer()
        inputs = list(node.inputs)
        parts = [op.DequantizeLinear(*inputs[i : i + 3]) for i in range(2, len(inputs), 3)]
        result = op.Concat(*parts, **dict(node.attributes.items()))
        return _stored(op, result, *inputs[:3])


class Renamed(OperatorRule):
    """An operator of another domain that has ONNX's name and meaning."""

    def __init__(self, operator: str) -> None:
        super().__init__(f"{operator} of ONNX", operator, domain=MICROSOFT)

    def check(self, context: Any, x: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        return True

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        node = y.producer()
        return op.op(self.operator, *node.inputs, **dict(node.attributes.items()))


class IntegerProduct(Rule):
    """ConvInteger or MatMulInteger with known weights; the input's zero point may be computed."""

    def __init__(self, operator: str, result: str) -> None:
        super().__init__(f"{operator} of pplconv", operator)
        self.operator, self.result = operator, result

    def pattern(self, op: Any, x: Any, w: Any) -> Any:
        """See `Rule`."""
        return getattr(op, self.operator)(x, w, _allow_other_inputs=True, _outputs=["y"])

    def check(self, context: Any, x: ir.Value, w: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        attributes = y.producer().attributes
        fits = rank(x) == 4 and "pads" in attributes and "auto_pad" not in attributes
        if self.result == QUANTIZED_LINEAR:
            axes = rank(x)
            fits = axes is not None and axes >= 2 and rank(w) == 2
        return fits and constant(x) is None and self._sums(y.producer()) is not None

    def rewrite(self, op: Any, x: ir.Value, w: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        node = y.producer()
        sums = self._sums(node)
        assert sums is not None
        own = [a for name, a in node.attributes.items() if name != "auto_pad"]
        if self.result == QUANTIZED_LINEAR:
            own = [ir.AttrInt64("transB", 0)]
        x_zero = node.inputs[2] if len(node.inputs) > 2 else None
        known = np.zeros((), np.int64) if x_zero is None else constant(x_zero)
        zero = x_zero if known is None else int(known.reshape(()))
        return build_product(op, self.result, x, sums, str(y.name), zero, own)

    def _sums(self, node: ir.Node) -> Sums | None:
        x, w, x_zero, w_zero = [*node.inputs, None, None][:4]
        array, own = constant(w), constant(w_zero)
        # Sums of no products are 0, and have no loops.
        if array is None or not array.size or array.dtype not in RANGES or x.dtype is None:
            return None
        if (w_zero is not None and own is None) or x.dtype.numpy() not in RANGES:
            return None
        axis = 0 if self.result == QUANTIZED_CONV else 1
        own = np.zeros((), np.int64) if own is None else own.astype(np.int64)
        if own.ndim > 1 or own.size not in (1, array.shape[axis]):
            return None
        if own.size > 1:
            own = own.reshape([-1 if d == axis else 1 for d in range(array.ndim)])
        centred = centered(array, own.reshape(()) if own.size == 1 else own)
        rows = np.moveaxis(centred, axis, 0).reshape(array.shape[axis], -1)
        offset = _offset_of_zero(rows, x, x_zero)
        if offset is None:
            return None
        return Sums(w if centred is array else centred, offset, None)


def _offset_of_zero(rows: Any, x: ir.Value, x_zero: ir.Value | None) -> Any:
    """Give the offset of sums of an input; None where loops take no such zero point."""
    zero = np.zeros((), np.int64) if x_zero is None else constant(x_zero)
    if zero is None:
        assert x_zero is not None
        shape = static_shape(x_zero)
        one = x_zero.dtype == x.dtype and shape is not None and set(shape) <= {1}
        return offset_of_any_zero(rows) if one else None
    if zero.size != 1:
        return None
    assert x.dtype is not None
    quantization = Quantization(
        np.ones((), np.float32), zero.reshape(()).astype(np.int64), np.dtype(x.dtype.numpy()), None
    )
    return offset_of(rows, np.zeros(len(rows), np.int64), quantization)


RULES: tuple[Rule, ...] = (
    *(
        Renamed(operator)
        for operator in ("DequantizeLinear", "GatherND", "Pad", "QuantizeLinear", "Trilu")
    ),
    Conv(""),
    Conv(MICROSOFT),
    MatMul(),
    Gemm(),
    Concat(),
    Operator("QLinearAdd", "Add", (0, 3), 6),
    Operator("QLinearMul", "Mul", (0, 3), 6),
    Softmax(),
    Operator("QLinearAveragePool", "AveragePool", (0,), 3),
    Operator("QLinearGlobalAveragePool", "GlobalAveragePool", (0,), 3),
    Operator("QLinearSigmoid", "Sigmoid", (0,), 3),
    Operator("QLinearLeakyRelu", "LeakyRelu", (0,), 3),
)
"""Rules that need no shapes, in the order in which they are tried."""

INTEGER_RULES: tuple[Rule, ...] = (
    IntegerProduct("ConvInteger", QUANTIZED_CONV),
    IntegerProduct("MatMulInteger", QUANTIZED_LINEAR),
    *(
        Decompose(f"{operator} of other known weights", operator, exact_products.rest_of)
        for operator in ("ConvInteger", "MatMulInteger")
    ),
)
"""Rules that make nodes of the domain ``pplconv``, for which shapes have to be known."""

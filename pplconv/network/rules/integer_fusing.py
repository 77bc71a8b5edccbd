"""Convolutions, products and sums of quantized numbers as nodes of integers.

A DequantizeLinear before each operand turns a product into one of integers, which gives float32 at
first. It then absorbs a bias, a quantized residual, a clamp, and finally the QuantizeLinear after
them. A bias that is no multiple of the sums' units is added to numbers that stay numbers. Other
readers of a dequantized value are not affected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ..fused_nodes import DOMAIN
from ..integer_nodes import (
    MULTIPLIER,
    PRODUCTS,
    QUANTIZED_CONV,
    QUANTIZED_CONV_TRANSPOSE,
    QUANTIZED_LINEAR,
    RESIDUAL,
    STORING,
    Sums,
    build_product,
    dequantized,
    fits_units,
    is_normal,
    rows_of,
    sums_of,
    with_numbers,
)
from ..quantized_values import Quantization, numbers_of, quantization_of
from ..values import attribute_int, constant, rank, static_shape
from .driver import Rule
from .fused_activations import found_activation
from .gated import GATES, is_open

__all__ = ["RULES", "stored_as"]

_ATTRIBUTES = ("strides", "pads", "dilations", "group", "kernel_shape")
# Operators that a product's store may absorb before it quantizes.
_BETWEEN = ("Add", "Clip", "HardSwish", "Mul", "Relu")


def _becomes_integers(y: ir.Value, steps: int = 8) -> bool:
    """Whether all readers of a product's numbers quantize them, after few steps."""
    readers = y.consumers()
    return (
        not y.is_graph_output()
        and bool(readers)
        and all(
            reader.op_type == "QuantizeLinear"
            or (
                steps > 0
                and reader.op_type in _BETWEEN
                and _becomes_integers(reader.outputs[0], steps - 1)
            )
            for reader in readers
        )
    )


def _with_added(op: Any, new: Any, y: ir.Value, sums: Sums, beside: Sequence[int] = ()) -> Any:
    """Add the part of a bias that the sums have no units for."""
    if sums.added is None:
        return new
    new.shape, new.dtype = y.shape, ir.DataType.FLOAT
    array = sums.added.astype(np.float32).reshape(-1, *beside)
    return op.Add(new, op.initializer(ir.tensor(array), name=f"{y.name}_added"))


class _OfImages(Rule):
    """An operator of windows, all of its operands dequantized or constant."""

    # Operator that takes its place.
    integer: str

    def rewrite(self, op: Any, x: ir.Value, w: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        found, sums = dequantized(x), self._sums(x, w, y)
        assert found is not None and sums is not None
        node = y.producer()
        own = [node.attributes[name] for name in _ATTRIBUTES if name in node.attributes]
        zero = found[1].one_zero
        new = build_product(op, self.integer, found[0], sums, str(y.name), zero, own)
        return _with_added(op, new, y, sums, (1, 1))

    @staticmethod
    def _sums(x: ir.Value, w: ir.Value, y: ir.Value) -> Sums | None:
        """Give the integers that it sums; None if they do not fit."""
        raise NotImplementedError


class Convolution(_OfImages):
    """A Conv of images, all of its operands dequantized or constant."""

    integer = QUANTIZED_CONV

    def __init__(self) -> None:
        super().__init__("Conv of integers", "Conv", above="DequantizeLinear")

    def pattern(self, op: Any, x: Any, w: Any) -> Any:
        """See `Rule`."""
        return op.Conv(x, w, _allow_other_inputs=True, _outputs=["y"])

    def check(self, context: Any, x: ir.Value, w: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        attributes = y.producer().attributes
        return (
            rank(x) == 4
            and "pads" in attributes
            and "auto_pad" not in attributes
            and self._sums(x, w, y) is not None
        )

    @staticmethod
    def _sums(x: ir.Value, w: ir.Value, y: ir.Value) -> Sums | None:
        found = dequantized(x)
        known, bias = _bias(y.producer(), 2)
        if found is None or not known:
            return None
        return sums_of(found[1], w, 0, bias, rounds=_becomes_integers(y))


class TransposedConvolution(_OfImages):
    """A ConvTranspose of images, all of its operands dequantized or constant."""

    integer = QUANTIZED_CONV_TRANSPOSE

    def __init__(self) -> None:
        super().__init__("ConvTranspose of integers", "ConvTranspose", above="DequantizeLinear")

    def pattern(self, op: Any, x: Any, w: Any) -> Any:
        """See `Rule`."""
        return op.ConvTranspose(x, w, _allow_other_inputs=True, _outputs=["y"])

    def check(self, context: Any, x: ir.Value, w: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        attributes = y.producer().attributes
        shapes = [static_shape(value) for value in (x, y)]
        return (
            rank(x) == 4
            and all(shape is not None and 0 not in shape for shape in shapes)
            and "pads" in attributes
            and not {"auto_pad", "output_shape"} & attributes.keys()
            and self._sums(x, w, y) is not None
        )

    @staticmethod
    def _sums(x: ir.Value, w: ir.Value, y: ir.Value) -> Sums | None:
        node, found = y.producer(), dequantized(x)
        groups = attribute_int(node, "group", 1)
        known, bias = _bias(node, 2)
        if found is None or not known:
            return None
        sums = sums_of(found[1], w, 1, bias, groups, rounds=_becomes_integers(y))
        if sums is None:
            return None
        integers = sums.weight
        weight = constant(integers) if isinstance(integers, ir.Value) else integers
        assert weight is not None
        # Sums of some taps are those of all less those of the others: no part exceeds this.
        reach = 255 * np.abs(rows_of(weight, 1, groups).astype(np.int64)).sum(1)
        most = 2 * reach + np.abs(sums.offset.astype(np.int64))
        return sums if (most <= np.iinfo(np.int32).max).all() else None


def _bias(node: ir.Node, port: int) -> tuple[bool, Any]:
    """Whether the bias of a node is constant or omitted, and its numbers."""
    value = node.inputs[port] if len(node.inputs) > port else None
    bias = numbers_of(value)
    return value is None or bias is not None, bias


class Product(Rule):
    """A MatMul of dequantized operands, with a constant matrix."""

    def __init__(self) -> None:
        super().__init__("MatMul of integers", "MatMul", above="DequantizeLinear")

    def pattern(self, op: Any, x: Any, w: Any) -> Any:
        """See `Rule`."""
        return op.MatMul(x, w, _outputs=["y"])

    def check(self, context: Any, x: ir.Value, w: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        axes, found = rank(x), dequantized(x)
        return (
            found is not None
            and axes is not None
            and axes >= 2
            and rank(w) == 2
            and sums_of(found[1], w, 1) is not None
        )

    def rewrite(self, op: Any, x: ir.Value, w: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        found = dequantized(x)
        assert found is not None
        sums = sums_of(found[1], w, 1)
        assert sums is not None
        own = [ir.AttrInt64("transB", 0)]
        return build_product(
            op, QUANTIZED_LINEAR, found[0], sums, str(y.name), found[1].one_zero, own
        )


class MatrixProduct(Rule):
    """A Gemm of dequantized operands, with a constant matrix and without factors."""

    def __init__(self) -> None:
        super().__init__("Gemm of integers", "Gemm", above="DequantizeLinear")

    def pattern(self, op: Any, x: Any, w: Any) -> Any:
        """See `Rule`."""
        return op.Gemm(x, w, _allow_other_inputs=True, _outputs=["y"])

    def check(self, context: Any, x: ir.Value, w: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        node = y.producer()
        return (
            not attribute_int(node, "transA", 0)
            and node.attributes.get_float("alpha", 1.0) == 1
            and rank(w) == 2
            and self._sums(x, w, y) is not None
        )

    def rewrite(self, op: Any, x: ir.Value, w: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        found, sums = dequantized(x), self._sums(x, w, y)
        assert found is not None and sums is not None
        own = [ir.AttrInt64("transB", attribute_int(y.producer(), "transB", 0))]
        zero = found[1].one_zero
        new = build_product(op, QUANTIZED_LINEAR, found[0], sums, str(y.name), zero, own)
        return _with_added(op, new, y, sums)

    @staticmethod
    def _sums(x: ir.Value, w: ir.Value, y: ir.Value) -> Sums | None:
        node, found, shape = y.producer(), dequantized(x), static_shape(w)
        known, bias = _bias(node, 2)
        if found is None or not known or shape is None:
            return None
        axis = 0 if attribute_int(node, "transB", 0) else 1
        if bias is not None:
            bias = _columns(bias * float(node.attributes.get_float("beta", 1.0)), shape[axis])
            if bias is None:
                return None
        return sums_of(found[1], w, axis, bias, rounds=_becomes_integers(y))


def _columns(array: Any, columns: int) -> Any:
    """Numbers as one for each column; None if rows differ, or they are not constant."""
    if array.size not in (1, columns) or (array.ndim and array.shape[-1] != array.size):
        return None
    return np.broadcast_to(array.reshape(-1), (columns,))


class Offset(Rule):
    """A sum of a Linear of integers and known numbers, one a column."""

    def __init__(self, *, first: bool) -> None:
        super().__init__("Add into QuantizedLinear", "Add", above=(DOMAIN, QUANTIZED_LINEAR))
        self.first = first

    def pattern(self, op: Any, c: Any) -> Any:
        """See `Rule`."""
        y = op.QuantizedLinear(_domain=DOMAIN, _allow_other_inputs=True, _outputs=["y"])
        left, right = (c, y) if self.first else (y, c)
        return op.Add(left, right, _outputs=["z"])

    def check(self, context: Any, c: ir.Value, y: ir.Value, z: ir.Value) -> bool:
        """See `Rule`."""
        return is_open(y) and self._new(c, y, z) is not None

    def rewrite(self, op: Any, c: ir.Value, y: ir.Value, z: ir.Value) -> Any:
        """See `Rule`."""
        new = op.initializer(ir.tensor(self._new(c, y, z)), name=f"{y.name}_offset")
        return with_numbers(op, y.producer(), {2: new})

    @staticmethod
    def _new(c: ir.Value, y: ir.Value, z: ir.Value) -> Any:
        node, numbers, axes = y.producer(), numbers_of(c), rank(y)
        offset, units, w = (constant(node.inputs[port]) for port in (2, 3, 1))
        if numbers is None or offset is None or units is None or w is None or axes is None:
            return None
        if numbers.ndim > axes:
            return None
        more = _columns(numbers, len(offset))
        if more is None:
            return None
        across = 1 if attribute_int(node, "transB", 0) else 0
        largest = np.abs(w.astype(np.int32)).max(across, initial=0)
        if not fits_units(more, units, largest, _becomes_integers(z)).all():
            return None
        new = offset.astype(np.float64) + np.rint(more / units)
        reach = np.abs(w.astype(np.int64)).sum(across) * 255 + np.abs(new)
        return new.astype(np.int32) if (reach < 2.0**31).all() else None


class Residual(Rule):
    """A sum of a product and a dequantized value of the same shape."""

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
        return (
            is_open(y)
            and shape is not None
            and static_shape(r) == shape
            and dequantized(r) is not None
        )

    def rewrite(self, op: Any, r: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        found = dequantized(r)
        assert found is not None
        integers, quantization = found
        return with_numbers(
            op,
            y.producer(),
            {RESIDUAL: integers},
            residual_scale=quantization.one_scale,
            residual_zero=quantization.one_zero,
        )


class Scaled(Rule):
    """A scale of sums that are int32, behind the Cast to float32: known or computed."""

    def __init__(self, inner: str, *, first: bool) -> None:
        super().__init__(f"Cast and Mul into {inner}", "Mul", above="Cast")
        self.inner, self.first = inner, first

    def pattern(self, op: Any, s: Any) -> Any:
        """See `Rule`."""
        y = getattr(op, self.inner)(_domain=DOMAIN, _allow_other_inputs=True, _outputs=["y"])
        numbers = op.Cast(y, _outputs=["numbers"])
        return op.Mul(s, numbers) if self.first else op.Mul(numbers, s)

    def check(self, context: Any, s: ir.Value, y: ir.Value, numbers: ir.Value) -> bool:
        """See `Rule`."""
        if numbers.dtype != ir.DataType.FLOAT or y.dtype != ir.DataType.INT32:
            return False
        array, shape, whole = constant(s), static_shape(s), static_shape(y)
        if shape is None or whole is None or len(shape) > len(whole):
            return False
        channel = 1 if self.inner == QUANTIZED_CONV else len(whole) - 1
        beside = [1] * len(whole)
        beside[channel] = whole[channel]
        wide = (1,) * (len(whole) - len(shape)) + shape
        fits = all(n in (1, m) for n, m in zip(wide, beside, strict=True))
        return fits and (array is None or is_normal(array))

    def rewrite(self, op: Any, s: ir.Value, y: ir.Value, numbers: ir.Value) -> Any:
        """See `Rule`."""
        array, node = constant(s), y.producer()
        if array is not None:
            offset = constant(node.inputs[2])
            assert offset is not None
            each = np.broadcast_to(array.reshape(-1), offset.shape).astype(np.float64)
            s = op.initializer(ir.tensor(each), name=f"{y.name}_multiplier")
        return with_numbers(op, node, {MULTIPLIER: s})


class Clamp(Rule):
    """A Relu or a Clip of a product that gives float32."""

    def __init__(self, inner: str, activation: str) -> None:
        super().__init__(f"activation into {inner}", activation, above=(DOMAIN, inner))
        self.inner, self.activation = inner, activation

    def pattern(self, op: Any) -> Any:
        """See `Rule`."""
        y = getattr(op, self.inner)(_domain=DOMAIN, _allow_other_inputs=True, _outputs=["y"])
        return getattr(op, self.activation)(y, _allow_other_inputs=True, _outputs=["z"])

    def check(self, context: Any, y: ir.Value, z: ir.Value) -> bool:
        """See `Rule`."""
        return y.dtype == ir.DataType.FLOAT and bounds_of(z.producer()) is not None

    def rewrite(self, op: Any, y: ir.Value, z: ir.Value) -> Any:
        """See `Rule`."""
        found = bounds_of(z.producer())
        assert found is not None
        old = (y.producer().attributes.get_float(name) for name in ("low", "high"))
        low, high = (float(np.clip(bound, *found)) for bound in old)
        return with_numbers(op, y.producer(), low=low, high=high)


def bounds_of(node: ir.Node) -> tuple[float, float] | None:
    """Give the bounds of a Relu or a Clip; None for other nodes."""
    found = found_activation(node)
    if found is None or found[0] not in ("relu", "clip"):
        return None
    low, high = (0.0, float("inf")) if found[0] == "relu" else found[1]
    return low, high


def stored_as(value: ir.Value) -> Quantization | None:
    """Give the quantization of a QuantizeLinear's output, if it has one scale and 8 bits."""
    found = quantization_of(value.producer())
    small = found is not None and found.dtype.itemsize == 1 and found.axis is None
    return found if small else None


class Store(Rule):
    """A QuantizeLinear after a product: the product stores its integers."""

    def __init__(self, inner: str) -> None:
        super().__init__(f"QuantizeLinear into {inner}", "QuantizeLinear", above=(DOMAIN, inner))
        self.inner = inner

    def pattern(self, op: Any) -> Any:
        """See `Rule`."""
        y = getattr(op, self.inner)(_domain=DOMAIN, _allow_other_inputs=True, _outputs=["y"])
        return op.QuantizeLinear(y, _allow_other_inputs=True, _outputs=["z"])

    def check(self, context: Any, y: ir.Value, z: ir.Value) -> bool:
        """See `Rule`."""
        found, node = stored_as(z), y.producer()
        units = numbers_of(node.inputs[3])
        if found is None or units is None or y.dtype != ir.DataType.FLOAT:
            return False
        added = node.inputs[RESIDUAL] if len(node.inputs) > RESIDUAL else None
        # Loops read a residual in the type of the output.
        if added is not None and added.dtype.numpy() != found.dtype:
            return False
        residual = node.attributes.get_float("residual_scale") / found.one_scale
        # After a gate a factor may be negative.
        return is_normal(abs(units) / found.one_scale) and is_normal(residual)

    def rewrite(self, op: Any, y: ir.Value, z: ir.Value) -> Any:
        """See `Rule`."""
        found, node = stored_as(z), y.producer()
        units = numbers_of(node.inputs[3])
        assert found is not None and units is not None
        scale = found.one_scale
        new = op.initializer(ir.tensor(units / scale), name=f"{z.name}_multiplier")
        names = ("low", "high", "residual_scale", "shift")
        scaled = {name: node.attributes.get_float(name) / scale for name in names}
        scaled["slope"] = node.attributes.get_float("slope") * scale
        return with_numbers(op, node, {3: new}, y_zero=found.one_zero, **scaled)


RULES: tuple[Rule, ...] = (
    Convolution(),
    TransposedConvolution(),
    Product(),
    MatrixProduct(),
    *(Scaled(inner, first=first) for inner in PRODUCTS for first in (False, True)),
    *(Offset(first=first) for first in (False, True)),
    *(Residual(inner, first=first) for inner in PRODUCTS for first in (False, True)),
    *(Clamp(inner, activation) for inner in STORING for activation in ("Relu", "Clip")),
    *GATES,
    *(Store(inner) for inner in STORING),
)
"""Rules of this module, in the order in which they are tried."""

"""onnxruntime's own operators of floating point in ONNX's: what its optimizer has fused."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ..operators.decompositions import Numbers
from ..values import attribute_floats, attribute_int, attribute_string
from .contrib import Unserved, inputs_of, pieces
from .driver import Rule

__all__ = ["RULES"]

# Activations of fused convolutions and products, with the attributes that their numbers become.
_ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "": (), "Elu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "LeakyRelu": ("alpha",),
    "Relu": (), "Selu": ("alpha", "gamma"), "Sigmoid": (), "Softplus": (), "Softsign": (),
    "Tanh": (), "ThresholdedRelu": ("alpha",),
}  # fmt: skip


def _activated(op: Any, node: ir.Node, x: Any, numbers: dict[str, float]) -> Any:
    """Write the activation of a fused node, by its name and its numbers."""
    name = attribute_string(node, "activation", "")
    if name == "Clip":
        bounds = Numbers(op, node)
        return op.Clip(x, *(bounds.like(numbers[key], x) for key in ("min", "max")))
    if name not in _ACTIVATIONS:
        raise Unserved(f"the activation {name!r}")
    own = {key: numbers[key] for key in _ACTIVATIONS[name] if key in numbers}
    return getattr(op, name)(x, **own) if name else x


def _fused_conv(op: Any, node: ir.Node) -> Any:
    """FusedConv: Conv, a residual and an activation."""
    x, w, b, residual, *_ = inputs_of(node)
    own = ("activation", "activation_params")
    window = {name: value for name, value in node.attributes.items() if name not in own}
    y = op.Conv(x, w, b, **window) if b is not None else op.Conv(x, w, **window)
    if residual is not None:
        y = op.Add(y, residual)
    keys: tuple[str, ...] = _ACTIVATIONS.get(attribute_string(node, "activation", ""), ())
    if attribute_string(node, "activation", "") == "Clip":
        keys = ("min", "max")
    given = attribute_floats(node, "activation_params", ())
    if len(given) != len(keys):
        raise Unserved(f"activation_params of {len(given)} numbers, expected {len(keys)}")
    return _activated(op, node, y, dict(zip(keys, given, strict=True)))


def _fused_gemm(op: Any, node: ir.Node) -> Any:
    """FusedGemm: Gemm and an activation."""
    own = {name: value for name, value in node.attributes.items() if "activation" not in name}
    y = op.Gemm(*node.inputs, **own)
    if attribute_string(node, "activation", "") == "Clip":
        raise Unserved("the activation 'Clip'")
    numbers = {
        name: node.attributes.get_float(f"activation_{name}")
        for name in ("alpha", "beta", "gamma")
        if f"activation_{name}" in node.attributes
    }
    return _activated(op, node, y, numbers)


def _fused_matmul(op: Any, node: ir.Node) -> Any:
    """FusedMatMul: a product of matrices that are transposed, scaled.

    Of a batch that is transposed the rows come first: (M, ..., K) in place of (..., M, K). Ranks
    may be unknown yet, so Einsum says how an operand is transposed.
    """
    operands = []
    for x, side in zip(node.inputs, "AB", strict=True):
        letters = "i...k" if attribute_int(node, f"transBatch{side}", 0) else "...ik"
        result = "...ki" if attribute_int(node, f"trans{side}", 0) else "...ik"
        operands.append(x if letters == result else op.Einsum(x, equation=f"{letters}->{result}"))
    y = op.MatMul(*operands)
    alpha = node.attributes.get_float("alpha", 1.0)
    return y if alpha == 1 else op.Mul(y, Numbers(op, node).like(alpha, y))


def _total(op: Any, *values: Any) -> Any:
    """Add values; None is left out."""
    first, *others = (value for value in values if value is not None)
    for other in others:
        first = op.Add(first, other)
    return first


def _gelu(approximate: str) -> Any:
    """Gelu, BiasGelu and FastGelu: of all operands' sum."""
    return lambda op, node: op.Gelu(_total(op, *node.inputs), approximate=approximate)


def _quick_gelu(op: Any, node: ir.Node) -> Any:
    """QuickGelu: ``x * sigmoid(alpha * x)``."""
    return op.Swish(node.inputs[0], alpha=node.attributes.get_float("alpha", 1.702))


def _bias_split_gelu(op: Any, node: ir.Node) -> Any:
    """BiasSplitGelu: the first half of channels times Gelu of the second."""
    left, right = op.Split(_total(op, *node.inputs), axis=-1, num_outputs=2, _outputs=2)
    return op.Mul(left, op.Gelu(right, approximate="none"))


def _layer_norm(op: Any, node: ir.Node) -> Any:
    """LayerNormalization of models before opset 17."""
    made = op.LayerNormalization(
        *node.inputs, **dict(node.attributes.items()), _outputs=len(node.outputs)
    )
    return made


def _rms_norm(op: Any, node: ir.Node) -> Any:
    """SimplifiedLayerNormalization: RMSNormalization."""
    return op.RMSNormalization(*node.inputs, **dict(node.attributes.items()))


def _skip_layer_norm(op: Any, node: ir.Node) -> Any:
    """SkipLayerNormalization: of a sum, which is the fourth output."""
    x, skip, scale, offset, bias, *_ = inputs_of(node)
    total = _total(op, x, skip, bias)
    epsilon = node.attributes.get_float("epsilon", 1e-12)
    more = [scale] if offset is None else [scale, offset]
    y = op.LayerNormalization(total, *more, axis=-1, epsilon=epsilon, stash_type=1)
    return y, None, None, total


def _skip_rms_norm(op: Any, node: ir.Node) -> Any:
    """SkipSimplifiedLayerNormalization: of a sum, which is the fourth output."""
    x, skip, scale, bias, *_ = inputs_of(node)
    total = _total(op, x, skip, bias)
    epsilon = node.attributes.get_float("epsilon", 1e-12)
    y = op.RMSNormalization(total, scale, axis=-1, epsilon=epsilon, stash_type=1)
    return y, None, None, total


def _embeddings(op: Any, node: ir.Node) -> Any:
    """EmbedLayerNormalization: rows of words, positions and segments, normalized.

    The second output counts the words of each sequence.
    """
    words, segments, *tables = inputs_of(node)
    of_words, of_positions, of_segments, scale, offset, mask, positions, *_ = tables
    numbers = Numbers(op, node)
    if positions is None:
        last = op.Shape(words, start=1, end=2)
        placed = op.Slice(of_positions, numbers.integers(0), last, numbers.integers(0))
    else:
        placed = op.Gather(of_positions, positions, axis=0)
    found = [op.Gather(of_words, words, axis=0), placed]
    if segments is not None and of_segments is not None:
        found.append(op.Gather(of_segments, segments, axis=0))
    total = _total(op, *found)
    epsilon = node.attributes.get_float("epsilon", 1e-12)
    y = op.LayerNormalization(total, scale, offset, axis=-1, epsilon=epsilon, stash_type=1)
    if mask is None:
        none = op.Cast(numbers.integer(0), to=ir.DataType.INT32)
        counts = op.Expand(none, op.Shape(words, start=0, end=1))
    else:
        counts = op.ReduceSum(mask, numbers.integers(1), keepdims=0)
    counts.shape = ir.Shape([None])
    return y, counts, total


def _grid_sample(op: Any, node: ir.Node) -> Any:
    """GridSample, whose modes have ONNX's newer names."""
    mode = attribute_string(node, "mode", "bilinear")
    others = {name: value for name, value in node.attributes.items() if name != "mode"}
    name = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    return op.GridSample(*node.inputs, mode=name, **others)


RULES: tuple[Rule, ...] = (
    *pieces("BiasAdd", lambda op, node: _total(op, *node.inputs)),
    *pieces("BiasGelu", _gelu("none")),
    *pieces("BiasSplitGelu", _bias_split_gelu),
    *pieces("EmbedLayerNormalization", _embeddings, 3),
    *pieces("FastGelu", _gelu("tanh")),
    *pieces("FusedConv", _fused_conv),
    *pieces("FusedGemm", _fused_gemm),
    *pieces("FusedMatMul", _fused_matmul),
    *pieces("Gelu", _gelu("none")),
    *pieces("GridSample", _grid_sample),
    *pieces("LayerNormalization", _layer_norm, 3),
    *pieces("QuickGelu", _quick_gelu),
    *pieces("SimplifiedLayerNormalization", _rms_norm, 2),
    *pieces("SkipLayerNormalization", _skip_layer_norm, 4),
    *pieces("SkipSimplifiedLayerNormalization", _skip_rms_norm, 4),
)
"""Rules of this module; each is alone with its operator."""

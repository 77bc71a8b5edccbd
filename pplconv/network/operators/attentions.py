"""Attention and RotaryEmbedding of ONNX as products of matrices, sums and moves.

Shapes have to be known.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..onnx_later import ir
from ..values import FLOATS, attribute_int, rank, static_shape
from .decompositions import Numbers

__all__ = ["attention", "rotary_embedding"]

# Attributes of an Attention that restrict keys otherwise than by masks.
_WINDOWS = ("left_window_size", "right_window_size")
_HEADS_FIRST = [0, 2, 1, 3]


def attention(op: Any, node: ir.Node) -> Any:
    """Attention: ``softmax(q @ k' * scale + masks) @ v`` of each head; keys may serve more heads.

    Rows without any key are zero. Caches without a past, and windows, stay with ONNX's reference.
    """
    q, k, v, mask, past_k, past_v, lengths = [*node.inputs, *[None] * 4][:7]
    operands = [q, k, v, *([] if past_k is None else [past_k, past_v])]
    shapes = [static_shape(x) for x in (*operands, *([] if mask is None else [mask]))]
    if any(shape is None or 0 in shape for shape in shapes) or q.dtype not in FLOATS:
        return None
    if lengths is not None or any(attribute_int(node, name, -1) != -1 for name in _WINDOWS):
        return None
    writer = _Attention(op, node)
    heads = attribute_int(node, "q_num_heads", 0), attribute_int(node, "kv_num_heads", 0)
    flat = rank(q) == 3
    if flat:
        q, k, v = (writer.of_heads(q, heads[0]), *(writer.of_heads(x, heads[1]) for x in (k, v)))
    if past_k is not None:
        k, v = (writer.behind(old, x) for old, x in ((past_k, k), (past_v, v)))
    present = k, v
    (batch, count, queries, width), keys = writer.shape(q), writer.shape(k)[2]
    if not _is_mask(mask, keys):
        return None
    k, v = (writer.for_heads(x, count) for x in (k, v))
    scale = node.attributes.get_float("scale", 1 / math.sqrt(width))
    scores = op.Mul(op.MatMul(q, op.Transpose(k, perm=[0, 1, 3, 2])), writer.numbers.number(scale))
    cap = node.attributes.get_float("softcap", 0.0)
    if cap:
        bound = writer.numbers.number(cap)
        scores = op.Mul(op.Tanh(op.Div(scores, bound)), bound)
    added, kept = writer.masks(mask, queries, keys)
    if added is not None:
        scores = op.Add(scores, added)
    y = op.MatMul(op.Softmax(scores, axis=-1), v)
    if kept is not None:
        y = op.Mul(y, kept)
    if flat:
        rows = writer.numbers.integers(batch, queries, -1)
        y = op.Reshape(op.Transpose(y, perm=_HEADS_FIRST), rows)
    return y if len(node.outputs) == 1 else (y, *present)


def _is_mask(mask: ir.Value | None, keys: int) -> bool:
    """Tell whether a mask has a number for each key, or one for all."""
    shape = static_shape(mask)
    return shape is None or (len(shape) <= 4 and shape[-1:] in ((), (1,), (keys,)))


class _Attention:
    """Writes an attention's nodes, and knows their shapes."""

    def __init__(self, op: Any, node: ir.Node) -> None:
        self.op, self.node = op, node
        dtype = node.inputs[0].dtype
        self.numbers = Numbers(op, node, dtype)
        # Sums of two of them stay finite, so that a row without keys is no row of NaN.
        self.lowest = float(np.finfo(dtype.numpy()).min) / 4

    def shape(self, x: ir.Value) -> tuple[int, ...]:
        """Give a shape that is known."""
        shape = static_shape(x)
        assert shape is not None
        return shape

    def _shaped(self, x: Any, *shape: int) -> Any:
        x.shape, x.type = ir.Shape(shape), self.node.inputs[0].type
        return x

    def of_heads(self, x: ir.Value, heads: int) -> Any:
        """Give (batch, sequence, hidden) as (batch, heads, sequence, width)."""
        batch, count, hidden = self.shape(x)
        parts = self.op.Reshape(x, self.numbers.integers(batch, count, heads, -1))
        split = self.op.Transpose(parts, perm=_HEADS_FIRST)
        return self._shaped(split, batch, heads, count, hidden // max(heads, 1))

    def behind(self, past: ir.Value, new: ir.Value) -> Any:
        """Give keys or values behind those of the past."""
        batch, heads, count, width = self.shape(new)
        whole = self.op.Concat(past, new, axis=2)
        return self._shaped(whole, batch, heads, self.shape(past)[2] + count, width)

    def for_heads(self, x: ir.Value, heads: int) -> Any:
        """Repeat keys or values for all heads of the queries."""
        batch, own, count, width = self.shape(x)
        if own == heads:
            return x
        numbers = self.numbers
        apart = self.op.Unsqueeze(x, numbers.integers(2))
        more = self.op.Expand(apart, numbers.integers(batch, own, heads // own, count, width))
        return self.op.Reshape(more, numbers.integers(batch, heads, count, width))

    def masks(self, mask: ir.Value | None, queries: int, keys: int) -> tuple[Any, Any]:
        """Give what is added to scores, and factors of rows: zero of a row without keys."""
        op, numbers = self.op, self.numbers
        earlier = None
        if attribute_int(self.node, "is_causal", 0):
            past = self.node.inputs[4] if len(self.node.inputs) > 4 else None
            offset = 0 if past is None else self.shape(past)[2]
            earlier = np.where(np.tri(queries, keys, offset, bool), 0.0, self.lowest)
        if mask is None:
            return None if earlier is None else numbers.array(earlier), None
        if mask.dtype == ir.DataType.BOOL:
            added = op.Where(mask, numbers.number(0.0), numbers.number(self.lowest))
        else:
            added = op.Max(mask, numbers.number(self.lowest))
        if earlier is not None:
            added = op.Add(added, numbers.array(earlier))
        best = op.ReduceMax(added, numbers.integers(-1), keepdims=1)
        some = op.Greater(best, numbers.number(self.lowest / 2))
        return added, op.Cast(some, to=self.node.inputs[0].dtype)


def rotary_embedding(op: Any, node: ir.Node) -> Any:
    """RotaryEmbedding: pairs of each head's numbers, turned by the angle of their place.

    Su and others, "RoFormer: Enhanced Transformer with Rotary Position Embedding" (2021).
    """
    x, cosines, sines, places = [*node.inputs, None][:4]
    shape, table = static_shape(x), static_shape(cosines)
    if shape is None or table is None or x.dtype not in FLOATS or not math.prod(shape):
        return None
    numbers = Numbers(op, node)
    turned = attribute_int(node, "rotary_embedding_dim", 0)
    flat = len(shape) == 3
    if flat:
        # onnxruntime's own operator may leave the count of heads to the table.
        heads = attribute_int(node, "num_heads", 0) or shape[2] // (2 * table[-1])
        whole = (*shape[:2], heads, shape[2] // heads)
        x = op.Reshape(x, numbers.integers(*whole))
    else:
        whole = shape
    width = whole[-1]
    turned = turned or width
    if table[-1] != turned // 2 or turned > width:
        return None
    if places is not None:
        cosines, sines = (op.Gather(values, places, axis=0) for values in (cosines, sines))
    axis = numbers.integers(2 if flat else 1)
    cosines, sines = (op.Unsqueeze(values, axis) for values in (cosines, sines))
    rest = None
    if turned < width:
        sizes = numbers.integers(turned, width - turned)
        x, rest = op.Split(x, sizes, axis=3, _outputs=2)
    pairs = attribute_int(node, "interleaved", 0)
    last = numbers.integers(-1)
    if pairs:
        apart = op.Reshape(x, numbers.integers(*whole[:3], turned // 2, 2))
        halves = op.Split(apart, axis=4, num_outputs=2, _outputs=2)
        first, second = (op.Squeeze(half, last) for half in halves)
    else:
        first, second = op.Split(x, axis=3, num_outputs=2, _outputs=2)
    real = op.Sub(op.Mul(cosines, first), op.Mul(sines, second))
    imaginary = op.Add(op.Mul(sines, first), op.Mul(cosines, second))
    if pairs:
        both = op.Concat(op.Unsqueeze(real, last), op.Unsqueeze(imaginary, last), axis=4)
        y = op.Reshape(both, numbers.integers(*whole[:3], turned))
    else:
        y = op.Concat(real, imaginary, axis=3)
    if rest is not None:
        y = op.Concat(y, rest, axis=3)
    # A node of its own, also where nothing is reshaped.
    return op.Reshape(y, numbers.integers(*shape))

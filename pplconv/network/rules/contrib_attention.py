"""onnxruntime's attention in ONNX's operators: products of all heads, masks and Softmax."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ..operators.decompositions import Numbers
from ..values import attribute_int, attribute_ints, rank
from .contrib import Unserved, inputs_of, pieces
from .contrib_quantized import scaled_product
from .driver import Rule

__all__ = ["RULES"]

# (batch, sequence, heads, width) to (batch, heads, sequence, width), and back.
_HEADS_FIRST = [0, 2, 1, 3]


class _Attention:
    """Writes the attention of a node."""

    def __init__(self, op: Any, node: ir.Node) -> None:
        self.op, self.node = op, node
        self.numbers = Numbers(op, node)
        self.heads = attribute_int(node, "num_heads", 0)
        if self.heads < 1:
            raise Unserved(f"num_heads {self.heads}")
        if attribute_int(node, "do_rotary", 0):
            raise Unserved("do_rotary")
        if attribute_int(node, "past_present_share_buffer", 0):
            raise Unserved("past_present_share_buffer")

    def of_heads(self, x: Any) -> Any:
        """Give (batch, sequence, hidden) as one matrix a head."""
        if rank(x) is None:
            # Refuses other ranks as soon as they are known.
            x = self.op.Transpose(x, perm=[0, 1, 2])
        parts = self.op.Reshape(x, self.numbers.integers(0, 0, self.heads, -1))
        return self.op.Transpose(parts, perm=_HEADS_FIRST)

    def behind(self, past: Any, new: Any) -> Any:
        """Give keys or values behind those of the past."""
        return new if past is None else self.op.Concat(past, new, axis=2)

    def computed(self, q: Any, k: Any, v: Any, mask: Any, bias: Any) -> Any:
        """Compute ``softmax(q @ k' * scale + masks) @ v`` of (batch, heads, sequence, width)."""
        op, numbers = self.op, self.numbers
        given = self.node.attributes.get_float("scale", 0.0)
        if given:
            scale = numbers.like(given, q)
        else:
            width = op.CastLike(op.Shape(q, start=3, end=4), q)
            scale = op.Reciprocal(op.Sqrt(width))
        scores = op.Mul(op.MatMul(q, op.Transpose(k, perm=[0, 1, 3, 2])), scale)
        if mask is not None:
            scores = op.Add(scores, self.masked(mask, q, k))
        if attribute_int(self.node, "unidirectional", 0):
            scores = op.Add(scores, self.later(q, k))
        if bias is not None:
            scores = op.Add(scores, bias)
        y = op.MatMul(op.Softmax(scores, axis=-1), v)
        return op.Reshape(op.Transpose(y, perm=_HEADS_FIRST), numbers.integers(0, 0, -1))

    def masked(self, mask: Any, q: Any, k: Any) -> Any:
        """Give what is added to scores: zero where the mask has positive numbers."""
        op, numbers = self.op, self.numbers
        axes = rank(mask)
        if axes == 1:
            # A reshape, so that other forms of a list are refused.
            one = numbers.integers(1, 1, 1)
            ends = op.Reshape(mask, op.Concat(op.Shape(q, start=0, end=1), one, axis=0))
            keys = op.Cast(self.range_of(k), to=ir.DataType.INT32)
            kept = op.Less(keys, ends)
        elif axes in (2, 3):
            kept = op.Greater(mask, op.CastLike(numbers.integer(0), mask))
            kept = op.Unsqueeze(kept, numbers.integers(*((1, 2) if axes == 2 else (1,))))
        else:
            raise Unserved(f"a mask of {'unknown' if axes is None else axes} axes")
        return op.Where(kept, numbers.like(0.0, q), numbers.like(self.filter(), q))

    def later(self, q: Any, k: Any) -> Any:
        """Give what is added to scores of keys that come after the query."""
        op, numbers = self.op, self.numbers
        queries, keys = (op.Squeeze(self.count_of(x)) for x in (q, k))
        rows = op.Range(op.Sub(keys, queries), keys, numbers.integer(1))
        kept = op.LessOrEqual(self.range_of(k), op.Unsqueeze(rows, numbers.integers(1)))
        return op.Where(kept, numbers.like(0.0, q), numbers.like(self.filter(), q))

    def count_of(self, x: Any) -> Any:
        """Give the length of a sequence of heads."""
        return self.op.Shape(x, start=2, end=3)

    def range_of(self, x: Any) -> Any:
        """Give the places of a sequence of heads."""
        op, numbers = self.op, self.numbers
        return op.Range(numbers.integer(0), op.Squeeze(self.count_of(x)), numbers.integer(1))

    def filter(self) -> float:
        """Give the number that is added to what is masked."""
        return float(self.node.attributes.get_float("mask_filter_value", -10000.0))


def _self_attention(writer: _Attention, qkv: Any, mask: Any, past: Any, bias: Any) -> Any:
    """Attention of one product that holds queries, keys and values."""
    op, numbers = writer.op, writer.numbers
    sizes = attribute_ints(writer.node, "qkv_hidden_sizes", ())
    if sizes:
        parts = op.Split(qkv, numbers.integers(*sizes), axis=2, _outputs=3)
    else:
        parts = op.Split(qkv, axis=2, num_outputs=3, _outputs=3)
    q, k, v = (writer.of_heads(part) for part in parts)
    if past is not None:
        before = op.Split(past, axis=0, num_outputs=2, _outputs=2)
        k, v = (
            op.Concat(op.Squeeze(old, numbers.integers(0)), new, axis=2)
            for old, new in zip(before, (k, v), strict=True)
        )
    y = writer.computed(q, k, v, mask, bias)
    if len(writer.node.outputs) == 1:
        return y
    first = numbers.integers(0)
    present = op.Concat(op.Unsqueeze(k, first), op.Unsqueeze(v, first), axis=0)
    return y, present


def _attention(op: Any, node: ir.Node) -> Any:
    """Attention: queries, keys and values by one product."""
    x, weights, bias, mask, past, added, length, *_ = inputs_of(node)
    writer = _Attention(op, node)
    if length is not None:
        raise Unserved("past_sequence_length")
    qkv = op.MatMul(x, weights)
    return _self_attention(writer, qkv if bias is None else op.Add(qkv, bias), mask, past, added)


def _quantized_attention(op: Any, node: ir.Node) -> Any:
    """QAttention: the product is one of integers."""
    x, weights, bias, x_scale, scale, mask, x_zero, zero, past, *_ = inputs_of(node)
    writer = _Attention(op, node)
    qkv = scaled_product(op, (x, x_scale, x_zero), (weights, scale, zero), bias)
    return _self_attention(writer, qkv, mask, past, None)


def _multi_head(op: Any, node: ir.Node) -> Any:
    """MultiHeadAttention: of given queries, keys and values, or keys and values of heads."""
    q, k, v, bias, mask, added, past_k, past_v, length, turns, *_ = inputs_of(node)
    writer = _Attention(op, node)
    if k is None or v is None:
        raise Unserved("packed keys and values")
    if length is not None or turns is not None:
        raise Unserved("past_sequence_length" if length is not None else "cache_indirection")
    values = [q, k, v]
    if bias is not None:
        biases = op.Split(bias, axis=0, num_outputs=3, _outputs=3)
        if rank(k) == 4:
            raise Unserved("a bias beside keys of heads")
        values = [op.Add(*pair) for pair in zip(values, biases, strict=True)]
    q, k, v = (x if rank(x) == 4 else writer.of_heads(x) for x in values)
    k, v = writer.behind(past_k, k), writer.behind(past_v, v)
    return writer.computed(q, k, v, mask, added), k, v


def _rotary_embedding(op: Any, node: ir.Node) -> Any:
    """RotaryEmbedding: ONNX's, whose places come last; one place is that of the first element."""
    x, places, cosines, sines = node.inputs
    if attribute_int(node, "is_packed_batching", 0) or node.attributes.get_float("scale", 1.0) != 1:
        raise Unserved("is_packed_batching or a scale")
    numbers, axes = Numbers(op, node), rank(x)
    if rank(places) == 1 and axes is not None:
        count = op.Squeeze(op.Shape(x, start=axes - 2, end=axes - 1))
        steps = op.Range(numbers.integer(0), count, numbers.integer(1))
        places = op.Unsqueeze(op.Add(steps, places), numbers.integers(0))
    elif rank(places) != 2:
        raise Unserved("places of unknown shape")
    names = ("interleaved", "num_heads", "rotary_embedding_dim")
    own = {name: attribute_int(node, name, 0) for name in names}
    return op.RotaryEmbedding(x, cosines, sines, places, **own)


RULES: tuple[Rule, ...] = (
    *pieces("Attention", _attention, 2),
    *pieces("MultiHeadAttention", _multi_head, 4),
    *pieces("QAttention", _quantized_attention, 2),
    *pieces("RotaryEmbedding", _rotary_embedding),
)
"""Rules of this module; each is alone with its operator."""

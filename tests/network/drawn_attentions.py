"""Drawn attentions, and embeddings of places."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.network.drawing_cases import Case, Rng, floats, maybe, pick


def attention(rng: Rng) -> Case:
    """Of given or joined heads, with and without a past, masks of all kinds; shared keys."""
    batch, own, shared, queries, keys = (int(n) for n in rng.integers(1, 4, 5))
    heads, width, depth = own * shared, 4, 3
    past = int(rng.integers(1, 4)) if rng.random() < 0.4 else 0
    if past:
        # onnxruntime takes no other number of new keys for a causal mask.
        keys = queries
    q = floats(rng, batch, heads, queries, width)
    k, v = floats(rng, batch, own, keys, width), floats(rng, batch, own, keys, depth)
    given: dict[str, Any] = maybe(rng, is_causal=1, scale=0.3, softcap=2.0)
    outer = [1 if rng.random() < 0.3 else n for n in (batch, heads)][rng.integers(0, 3) :]
    sizes = (*outer, queries, keys + past)
    allowed = rng.random(sizes) < 0.7
    mask = pick(rng, None, allowed, np.where(allowed, floats(rng, *sizes), np.float32(-np.inf)))
    inputs = [q, k, v, mask]
    if past:
        inputs += [floats(rng, batch, own, past, n) for n in (width, depth)]
    elif mask is None:
        inputs.pop()
    if rng.random() < 0.5:
        inputs[:3] = (np.moveaxis(x, 1, 2).reshape(batch, x.shape[2], -1) for x in inputs[:3])
        given |= {"q_num_heads": heads, "kv_num_heads": own}
    return Case(inputs, given, outputs=3 if past else 1, opset=pick(rng, 23, 24))


def rotary_embedding(rng: Rng) -> Case:
    """Of given or joined heads, whole or in part, in either order of pairs; known tables."""
    batch, heads, count = (int(n) for n in rng.integers(1, 5, 3))
    width = pick(rng, 4, 8)
    turned = pick(rng, width, 4)
    given: dict[str, Any] = maybe(rng, interleaved=1)
    if turned < width:
        given["rotary_embedding_dim"] = turned
    flat = rng.random() < 0.5
    if flat:
        given["num_heads"] = heads
    x = floats(rng, *((batch, count, heads * width) if flat else (batch, heads, count, width)))
    if rng.random() < 0.5:
        return Case([x, *(floats(rng, batch, count, turned // 2) for _ in "cs")], given, opset=23)
    tables = [floats(rng, 9, turned // 2) for _ in "cs"]
    return Case([x, *tables, rng.integers(0, 9, (batch, count))], given, (1, 2), opset=23)

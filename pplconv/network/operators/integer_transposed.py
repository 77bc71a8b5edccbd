"""Transposed convolutions of integers: those of `transposed_parts`, requantized in their stores."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...ops.transposed.phases import merged
from ..builder import Builder
from ..integer_nodes import rows_of
from ..integers import Store
from ..nodes import Graph, Node
from ..storage import Value, channels_last, constant_value
from .convolution import lies_in_pixels
from .integer_products import Product, emit_product
from .integer_steps import store_of, types_of
from .transposed_parts import Transposed, repeated

__all__ = ["lower_transposed"]


def lower_transposed(node: Node, builder: Builder, graph: Graph) -> None:
    """``pplconv.QuantizedConvTranspose``: convolutions of integers, each for some outputs."""
    name, origin = node.outputs[0], graph.constants.origin(node.inputs[1])
    # (ic, oc / groups, kh, kw)
    weight, zero = graph.constants[node.inputs[1]], int(node.attributes["x_zero"])
    whole, given = Transposed.of(node, graph), store_of(node, graph)
    totals = rows_of(weight, 1, whole.groups).sum(1, dtype=np.int64)
    # The offset has what the zero point adds to sums over all taps; each part has other ones.
    store = replace(given, offset=given.offset.astype(np.int64) + zero * totals)
    x = builder.pixels(builder.values[node.inputs[0]])
    y = builder.target(
        name, graph.shapes[name], graph.dtypes[name], channels_last(4), lies_in_pixels
    )
    # Bytes of phases would be copied to their places, too, in shorter runs.
    parts, cover = whole.parts(few=math.inf)
    if not cover:
        _nothing(builder, store, y, name)
    for part in parts:
        place = part.of_output(builder, y)
        if part.is_empty:
            _nothing(builder, store, place, name)
            continue
        kernel = np.ascontiguousarray(merged(part.weight(weight)))
        bias, multiplier = (
            None if array is None else repeated(array, whole.groups, part.times)
            for array in (store.offset, store.multiplier)
        )
        rows = kernel.reshape(len(kernel), -1)
        offset = (bias - zero * rows.sum(1, dtype=np.int64)).astype(np.int32)
        product = Product(
            kernel, (origin, *part.key), part.geometry, zero,
            replace(store, offset=offset, multiplier=multiplier), "QuantizedConvTranspose",
            types_of(node, graph),
        )  # fmt: skip
        emit_product(builder, product, part.of_input(x), None, place, [name])
        part.distribute(builder, place, y, [name])
    builder.deliver(name, y)


def _nothing(builder: Builder, store: Store, y: Value, name: str) -> None:
    """Outputs that no tap reaches: what is stored of sums of nothing."""
    stored = constant_value(store(np.zeros((1, len(store.offset)), np.int64)))
    each = stored.viewed(y.shape, (0, y.dtype.itemsize, 0, 0))
    builder.copy(each, y, [name])

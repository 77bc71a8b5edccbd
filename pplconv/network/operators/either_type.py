"""Steps that compute with float32 or bfloat16, each as it is cheaper: see `narrow_storage`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..._lazy import functions_later
from ..builder import Builder
from ..narrow_storage import Prices, TypePrices
from ..nodes import Graph, Node
from . import convolution, linear_steps
from .table import row_of

if TYPE_CHECKING:
    from . import product_steps, transposed_steps
else:
    product_steps = functions_later(__package__, "product_steps")
    transposed_steps = functions_later(__package__, "transposed_steps")

_SINGLE = np.dtype(np.float32)
_PRICES = {
    "Conv": convolution.prices_of_types,
    "pplconv.Conv": convolution.prices_of_types,
    "ConvTranspose": transposed_steps.prices_of_types,
    "pplconv.ConvTranspose": transposed_steps.prices_of_types,
    "Gemm": linear_steps.prices_of_types,
    "MatMul": linear_steps.prices_of_types,
    "pplconv.Linear": linear_steps.prices_of_types,
}


def takes_either_type(node: Node, graph: Graph) -> bool:
    """Whether a node is a convolution or a product of float32 by known weights."""
    return (
        node.op in _PRICES
        and graph.dtypes[node.inputs[0]] == _SINGLE
        and node.inputs[0] not in graph.constants
        and all(not name or name in graph.constants for name in node.inputs[1:3])
        and row_of(node.op).is_served(node, graph)
        # Other products by known matrices are computed ones.
        and (node.op != "MatMul" or linear_steps.serves_matmul(node, graph))
    )


def prices_of_types(
    node: Node, builder: Builder, graph: Graph, narrow: np.dtype[np.generic]
) -> Prices:
    """Estimate the cycles of such a node, or of products of computed matrices; None of others."""
    if takes_either_type(node, graph):
        return TypePrices(*_PRICES[node.op](node, builder, graph, narrow))
    return product_steps.prices_of_types(node, graph) if node.op == "MatMul" else None

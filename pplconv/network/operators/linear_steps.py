"""Products with constant matrices, as 1x1 convolutions of rows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ..builder import Builder
from ..nodes import Graph, Node
from ..storage import Array, Value, strides_of
from .convolution import PLAIN, emit_convolution, problem_of
from .elementwise_steps import NATIVE
from .epilogue import Epilogue


def _emit(
    node: Node,
    builder: Builder,
    graph: Graph,
    matrix: Array,
    epilogue: Epilogue,
    residual: str = "",
) -> None:
    """Multiply rows of an input by a matrix (K, N), and add the value named `residual`."""
    name = node.outputs[0]
    x = builder.contiguous(builder.values[node.inputs[0]])
    shape, dtype = graph.shapes[name], builder.stored(name, graph.dtypes[name])
    k, n = matrix.shape
    rows = math.prod(shape) // n
    y = builder.target(name, shape, dtype, None, lambda value: value.is_plain)

    factors = (node.attributes.get("transB", 0), node.attributes.get("alpha", 1.0))

    def images(value: Value, channels: int) -> Value:
        strides = strides_of((1, channels, 1, rows), value.dtype.itemsize, (0, 2, 3, 1))
        return value.viewed((1, channels, 1, rows), strides)

    if residual:
        added = builder.contiguous(builder.values[residual])
        epilogue = replace(epilogue, residual=images(added, n))
    emit_convolution(
        builder, images(x, k), matrix.T.reshape(n, k, 1, 1), images(y, n), epilogue, PLAIN,
        (graph.constants.origin(node.inputs[1]), node.op, *factors), [name],
    )  # fmt: skip
    builder.deliver(name, y)


def prices_of_types(
    node: Node, builder: Builder, graph: Graph, narrow: np.dtype[Any]
) -> tuple[float, float, float]:
    """Estimate the cycles of a product: see `TypePrices`."""
    single = graph.dtypes[node.inputs[0]]
    k = graph.shapes[node.inputs[0]][-1]
    shape = graph.shapes[node.outputs[0]]
    n = shape[-1]
    x = 1, k, 1, math.prod(shape) // n
    problems = [
        problem_of(builder, x, (n, k, 1, 1), dtype, PLAIN, "NHWC", result=result)
        for dtype, result in ((single, single), (narrow, single), (single, narrow))
    ]
    found = [builder.least_cycles(problem) for problem in problems]
    return found[0], found[1], found[2]


def serves_matmul(node: Node, graph: Graph) -> bool:
    """Whether the second operand is a constant matrix, and the product is not empty."""
    matrix = graph.shapes[node.inputs[1]]
    return (
        node.inputs[1] in graph.constants
        and len(matrix) == 2
        and graph.dtypes[node.inputs[1]] in NATIVE
        and len(graph.shapes[node.inputs[0]]) > 1
        and math.prod(graph.shapes[node.outputs[0]]) * matrix[0] > 0
        and all(not name or name in graph.constants for name in node.inputs[2:3])
    )


def lower_matmul(node: Node, builder: Builder, graph: Graph) -> None:
    """MatMul with a known matrix."""
    _emit(node, builder, graph, graph.constants.weights(node.inputs[1]), Epilogue())


def lower_linear(node: Node, builder: Builder, graph: Graph) -> None:
    """The fused node: bias, residual and activation go into the store."""
    bias = None
    if len(node.inputs) > 2 and node.inputs[2]:
        bias = graph.constants[node.inputs[2]].reshape(-1)
    parameters: Any = list(node.attributes.get("activation_parameters", []))
    epilogue = Epilogue(bias, None, node.attributes.get("activation", ""), parameters)
    residual = node.inputs[3] if len(node.inputs) > 3 else ""
    _emit(node, builder, graph, graph.constants.weights(node.inputs[1]), epilogue, residual)


def serves_gemm(node: Node, graph: Graph) -> bool:
    """Whether a Gemm has known weights and a bias for each column."""
    if not serves_matmul(node, graph) or node.attributes.get("transA", 0):
        return False
    if len(node.inputs) > 2 and node.inputs[2]:
        columns = graph.shapes[node.outputs[0]][1]
        bias = graph.shapes[node.inputs[2]]
        return math.prod(bias[:-1]) == 1 and bias[-1:] in ((), (1,), (columns,))
    return True


def lower_gemm(node: Node, builder: Builder, graph: Graph) -> None:
    """Gemm: factors and transposition go into the weights."""
    matrix, alpha = graph.constants.weights(node.inputs[1]), node.attributes.get("alpha", 1.0)
    if alpha != 1:
        matrix = graph.constants[node.inputs[1]]
        matrix = matrix * np.asarray(alpha, matrix.dtype)
    matrix = matrix.T if node.attributes.get("transB", 0) else matrix
    bias = None
    if len(node.inputs) > 2 and node.inputs[2]:
        given = graph.constants[node.inputs[2]].reshape(-1)
        factor = np.asarray(node.attributes.get("beta", 1.0), given.dtype)
        bias = np.broadcast_to(given * factor, (matrix.shape[1],))
    _emit(node, builder, graph, matrix, Epilogue(bias))

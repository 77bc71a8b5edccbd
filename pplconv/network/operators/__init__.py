"""What each operator becomes: steps, or views of what is there.

====================  ============================================================================
``convolution``       Conv, fused nodes included
``epilogue``          what follows the sums of a convolution
``transposed``        ConvTranspose as several convolutions
``linear``            products with matrices that are known beforehand
``products``          products of two computed matrices
``elementwise``       programs for chains of element-wise operators
``expressions``       what each element-wise operator computes, and its registers
``movement``          views, Concat, Pad with a constant, changes of type, blocks of pixels
``borders``           Pad with an image's own elements
``windows``           pooling and Resize
``resampling``        Resize in Python
``quantized``         products of integers, and conversions from and to them
``integer_products``  convolutions of integers, as plans
``integer_windows``   pools and Resize of integers
``recurrent``         LSTM and GRU
``rows``              reductions, softmax, layer normalization
``unfused``           fused nodes in ONNX's operators, for those that run in Python
====================  ============================================================================

To add an operator, write a function of node, builder and graph, and name it in `OPERATORS` with a
test of what it serves. What it does not serve runs in Python, by ONNX's reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..builder import Builder
from ..nodes import Graph, Node
from . import (
    borders,
    convolution,
    integer_windows,
    linear,
    movement,
    products,
    quantized,
    recurrent,
    resampling,
    rows,
    transposed,
    windows,
)
from .elementwise import NATIVE

Lower = Callable[[Node, Builder, Graph], None]
Serves = Callable[[Node, Graph], bool]


class Operator(NamedTuple):
    """How an operator is lowered, and which of its nodes.

    Parameters
    ----------
    lower : callable
        Adds the steps of a node.
    serves : callable
        Whether it can.
    """

    lower: Lower
    serves: Serves


def _always(node: Node, graph: Graph) -> bool:
    return True


def _plain_type(node: Node, graph: Graph) -> bool:
    return graph.dtypes[node.outputs[0]] in NATIVE


def _lower_matmul(node: Node, builder: Builder, graph: Graph) -> None:
    """MatMul by a known matrix, else by one that is packed each time."""
    known = linear.serves_matmul(node, graph)
    (linear.lower_matmul if known else products.lower_product)(node, builder, graph)


def _either(first: Operator, second: Operator) -> Operator:
    """An operator that two ways serve, of which the first one is taken where both do."""

    def lower(node: Node, builder: Builder, graph: Graph) -> None:
        (first if first.serves(node, graph) else second).lower(node, builder, graph)

    return Operator(
        lower, lambda node, graph: first.serves(node, graph) or second.serves(node, graph)
    )


_VIEW = Operator(movement.lower_view, _always)
_POOL = Operator(windows.lower_pool, windows.serves_pool)
_RECURRENT = Operator(recurrent.lower_recurrent, recurrent.serves_recurrent)
_REDUCTION = Operator(rows.lower_reduction, rows.serves_reduction)
_SOFTMAX = Operator(rows.lower_softmax, rows.serves_rows)
OPERATORS: dict[str, Operator] = {
    "AveragePool": _POOL,
    "Concat": Operator(movement.lower_concat, _always),
    "Conv": Operator(convolution.lower_conv, convolution.serves_conv),
    "ConvInteger": Operator(quantized.lower_conv_integer, quantized.serves_conv_integer),
    "ConvTranspose": Operator(transposed.lower_conv_transpose, transposed.serves_conv_transpose),
    "DepthToSpace": Operator(movement.lower_depth_to_space, _plain_type),
    "DequantizeLinear": Operator(quantized.lower_dequantize, quantized.serves_dequantize),
    "DynamicQuantizeLinear": Operator(quantized.lower_dynamic, quantized.serves_dynamic),
    "Expand": Operator(movement.lower_expand, _always),
    "Flatten": _VIEW,
    "Gather": Operator(movement.lower_gather, movement.serves_gather),
    "Gemm": Operator(linear.lower_gemm, linear.serves_gemm),
    "Identity": _VIEW,
    "GRU": _RECURRENT,
    "LSTM": _RECURRENT,
    "LayerNormalization": Operator(rows.lower_layer_norm, rows.serves_layer_norm),
    "LogSoftmax": _SOFTMAX,
    "MatMul": Operator(_lower_matmul, products.serves_product),
    "MaxPool": _either(_POOL, Operator(integer_windows.lower_pool, integer_windows.serves_pool)),
    "MatMulInteger": Operator(quantized.lower_matmul_integer, quantized.serves_always),
    "Pad": _either(
        Operator(movement.lower_pad, movement.serves_pad),
        Operator(borders.lower_pad, borders.serves_pad),
    ),
    "QLinearMatMul": Operator(quantized.lower_qlinear_matmul, quantized.serves_qlinear_matmul),
    "QuantizeLinear": Operator(quantized.lower_quantize, quantized.serves_quantize),
    "Reshape": _VIEW,
    "Resize": _either(
        _either(
            Operator(windows.lower_resize, windows.serves_resize),
            Operator(integer_windows.lower_resize, integer_windows.serves_resize),
        ),
        Operator(resampling.lower_resize, resampling.serves_resize),
    ),
    "Slice": Operator(
        movement.lower_slice, lambda node, graph: movement.slices(node, graph) is not None
    ),
    "Softmax": _SOFTMAX,
    "SpaceToDepth": Operator(movement.lower_space_to_depth, _plain_type),
    "Split": Operator(movement.lower_split, _always),
    "Squeeze": _VIEW,
    "Transpose": Operator(movement.lower_transpose, _always),
    "Unsqueeze": _VIEW,
    "pplconv.Conv": Operator(convolution.lower_conv, convolution.serves_conv),
    "pplconv.ConvTranspose": Operator(
        transposed.lower_conv_transpose, transposed.serves_conv_transpose
    ),
    "pplconv.QuantizedAdd": Operator(quantized.lower_add, quantized.serves_always),
    "pplconv.QuantizedAverage": Operator(integer_windows.lower_average, quantized.serves_always),
    "pplconv.QuantizedConv": Operator(quantized.lower_conv, quantized.serves_always),
    "pplconv.QuantizedLinear": Operator(quantized.lower_linear, quantized.serves_always),
    "pplconv.Reformat": Operator(movement.lower_reformat, _always),
    "pplconv.Linear": Operator(linear.lower_linear, linear.serves_matmul),
    **dict.fromkeys(rows.KINDS, _REDUCTION),
}

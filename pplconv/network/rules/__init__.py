"""The rules by which a network's graph is rewritten.

========================  ======================================================================
module                    effect of its rules
========================  ======================================================================
`affine`                  scales, offsets, BatchNormalization into the neighbouring convolution
`clamps`                  Clip, HardSigmoid and HardSwish from their pieces
`constants`               consecutive constant operands joined
`contrib_operators`       onnxruntime's own operators of floating point in ONNX's
`contrib_attention`       onnxruntime's attention in ONNX's operators
`contrib_quantized`       onnxruntime's own products of integers, and its LSTM of integers
`decomposing`             operators rewritten into others, by their rows
`fusing`                  activation, scale, offset and residuals into ``pplconv``'s convolutions
`gates`                   ``x + x * g`` as ``x * (g + 1)``
`gelu`                    ``x * (1 + Erf(x / sqrt(2))) / 2`` to Gelu
`linear_fusing`           MatMul and Gemm with constant weights as ``pplconv::Linear``
`no_ops`                  operators that change nothing
`layer_normalization`     LayerNormalization from its pieces
`one_hot_products`        products of one-hot rows and a known matrix as a Gather
`pads`                    Pad into the next convolution or pool
`passing`                 activations, scales, offsets and sums before reshapes, transposes, joins
`qoperators`              QLinearConv and the like in pieces; ConvInteger as ``pplconv``'s
`integer_fusing`          dequantized products to QuantizeLinear as one product of integers
`integer_volumes`         products of quantized volumes as those of images of more channels
`quantized_moves`         DequantizeLinear after moves of elements; pairs without effect
`quantized_sums`          sums and averages of quantized values as those of integers
`sequences`               operators with one spatial axis as those of images of one row
`slice_assignments`       ``data[start:end] = v`` with computed bounds, to Where
`reshapes`                consecutive reshapes and transposes, and those around Softmax
`swish`                   ``x * sigmoid(x)`` to Swish
`volumes`                 operators with three spatial axes as those of images
                          (`volume_pieces`: how their nodes are written)
========================  ======================================================================

Modules with rules that few networks need are imported by the first network that does. `driver`
applies the rules; `contrib` takes onnxruntime's operators apart; `fused_activations` maps
operators to activations.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..onnx_later import ir
from ..quantized_values import MICROSOFT
from . import (
    affine,
    clamps,
    constants,
    decomposing,
    fusing,
    gates,
    gelu,
    layer_normalization,
    linear_fusing,
    no_ops,
    one_hot_products,
    pads,
    passing,
    reshapes,
    sequences,
    swish,
)
from .driver import Rule, Rules

__all__ = [
    "ASSIGNING_RULES",
    "FUSING_RULES",
    "PIECES_RULES",
    "QUANTIZING_RULES",
    "SIMPLIFYING_RULES",
    "VOLUME_RULES",
]

_IN_PIECES = frozenset(
    ("GroupNormalization", "MeanVarianceNormalization", "QLinearConv", "QLinearMatMul")
)
_SCATTERING = frozenset(("ScatterElements", "ScatterND"))
_QUANTIZED = frozenset(("ConvInteger", "DequantizeLinear", "MatMulInteger", "QuantizeLinear"))


def _in_pieces() -> Iterable[Rule]:
    from . import contrib_attention, contrib_operators, contrib_quantized, qoperators

    return (
        *qoperators.RULES,
        *contrib_operators.RULES,
        *contrib_attention.RULES,
        *contrib_quantized.RULES,
        *decomposing.EARLY_RULES,
    )


def _has_pieces(graph: ir.Graph) -> bool:
    return any(
        node.domain == MICROSOFT or (not node.domain and node.op_type in _IN_PIECES)
        for node in graph
    )


def _assigning() -> Iterable[Rule]:
    from . import slice_assignments

    return slice_assignments.RULES


def _scatters(graph: ir.Graph) -> bool:
    return any(not node.domain and node.op_type in _SCATTERING for node in graph)


def _of_volumes() -> Iterable[Rule]:
    from . import integer_volumes, volumes

    return (*integer_volumes.RULES, *volumes.RULES)


def _has_volumes(graph: ir.Graph) -> bool:
    """Tell whether a result has three spatial axes, or is not known to have none."""
    shapes = (value.shape for node in graph for value in node.outputs)
    return any(shape is None or len(shape) == 5 for shape in shapes)


def _quantizing() -> Iterable[Rule]:
    from . import integer_fusing, qoperators, quantized_moves, quantized_sums

    return (
        *qoperators.INTEGER_RULES,
        *quantized_moves.RULES,
        *quantized_sums.RULES,
        *integer_fusing.RULES,
    )


def _has_integers(graph: ir.Graph) -> bool:
    """Tell whether there are quantized values, or nodes of integers that volumes have left."""
    return any(node.domain or node.op_type in _QUANTIZED for node in graph)


PIECES_RULES = Rules(_in_pieces, _has_pieces)
"""Rules that decompose operators; applied once, before all others."""

SIMPLIFYING_RULES = Rules(
    lambda: (
        *no_ops.RULES,
        *one_hot_products.RULES,
        *sequences.RULES,
        *reshapes.RULES,
        *pads.RULES,
        *clamps.RULES,
        *swish.RULES,
        *gelu.RULES,
        *layer_normalization.RULES,
        *affine.RULES,
        *passing.SIMPLIFYING_RULES,
        *constants.RULES,
        *gates.RULES,
        *decomposing.RULES,
    )
)
"""Rules between ONNX's own operators; applied before shapes are known, and again after."""

ASSIGNING_RULES = Rules(_assigning, _scatters)
"""Rules that keep sizes from depending on data; shapes have to be known."""

VOLUME_RULES = Rules(_of_volumes, _has_volumes)
"""Rules that make sums of images of volumes, after factors have gone into the weights."""

QUANTIZING_RULES = Rules(_quantizing, _has_integers)
"""Rules that make nodes of integers, for which shapes have to be known."""

FUSING_RULES = Rules(lambda: (*linear_fusing.RULES, *fusing.RULES, *passing.FUSING_RULES))
"""Rules that make nodes of the domain ``pplconv``, for which shapes have to be known."""

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
`passing`                 activations, scales and offsets before reshapes, transposes and joins
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

`driver` applies the rules; `contrib` takes onnxruntime's operators apart; `fused_activations` maps
operators to activations.
"""

from . import (
    affine,
    clamps,
    constants,
    contrib_attention,
    contrib_operators,
    contrib_quantized,
    decomposing,
    fusing,
    gates,
    gelu,
    integer_fusing,
    integer_volumes,
    layer_normalization,
    linear_fusing,
    no_ops,
    one_hot_products,
    pads,
    passing,
    qoperators,
    quantized_moves,
    quantized_sums,
    reshapes,
    sequences,
    slice_assignments,
    swish,
    volumes,
)
from .driver import Rules

__all__ = [
    "ASSIGNING_RULES",
    "FUSING_RULES",
    "PIECES_RULES",
    "QUANTIZING_RULES",
    "SIMPLIFYING_RULES",
    "VOLUME_RULES",
]

PIECES_RULES = Rules(
    (
        *qoperators.RULES,
        *contrib_operators.RULES,
        *contrib_attention.RULES,
        *contrib_quantized.RULES,
        *decomposing.EARLY_RULES,
    )
)
"""Rules that decompose operators; applied once, before all others."""

SIMPLIFYING_RULES = Rules(
    (
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

ASSIGNING_RULES = Rules(slice_assignments.RULES)
"""Rules that keep sizes from depending on data; shapes have to be known."""

VOLUME_RULES = Rules((*integer_volumes.RULES, *volumes.RULES))
"""Rules that make sums of images of volumes, after factors have gone into the weights."""

QUANTIZING_RULES = Rules(
    (
        *qoperators.INTEGER_RULES,
        *quantized_moves.RULES,
        *quantized_sums.RULES,
        *integer_fusing.RULES,
    )
)
"""Rules that make nodes of integers, for which shapes have to be known."""

FUSING_RULES = Rules((*linear_fusing.RULES, *fusing.RULES, *passing.FUSING_RULES))
"""Rules that make nodes of the domain ``pplconv``, for which shapes have to be known."""

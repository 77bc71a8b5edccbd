"""The table of operators: one row each, with every fact that the network's passes use.

To add an operator, write its function, and a row here of its family (`families`).
`docs/networks.md`, "Operators", has an example of each kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..._lazy import functions_later
from ...activations import CURVES
from ...activations import KINDS as ACTIVATIONS
from ..integer_nodes import RESIDUAL
from ..numpy_operators import elements, moves, views
from ..numpy_operators.types import Compute
from . import (
    batch_rules,
    convolution,
    costs,
    expressions,
    linear_steps,
    movement,
    moving,
    row_rules,
    row_steps,
    truths,
    window_steps,
)
from .expressions import Write
from .families import (
    along_rows,
    arithmetic,
    blocks,
    convolved,
    decomposed,
    images,
    in_pairs,
    in_python,
    indexed,
    integers,
    looped,
    ours,
    product,
    program,
    recurrence,
    reduced_otherwise,
    reduction,
    reshaped,
    strided,
)
from .table_row import Decomposition, Format, Layout, Loops, Moves, Python, Row, always, either

if TYPE_CHECKING:
    from ..numpy_operators import (
        contractions,
        fills,
        normalizations,
        pools,
        reductions,
        regions,
        sampling,
        searches,
        sequence_values,
        text_values,
        transposed_sums,
    )
    from . import (
        attentions,
        axis_resampling,
        border_pads,
        decompositions,
        dynamic_quantization,
        einsums,
        exact_products,
        indexed_steps,
        integer_steps,
        integer_transposed,
        integer_windows,
        moments,
        place_steps,
        product_steps,
        region_steps,
        resampling,
        transposed_steps,
        unpooling,
    )
else:
    # A network has few of these operators.
    contractions = functions_later(__package__, ".numpy_operators.contractions")
    fills = functions_later(__package__, ".numpy_operators.fills")
    normalizations = functions_later(__package__, ".numpy_operators.normalizations")
    pools = functions_later(__package__, ".numpy_operators.pools")
    reductions = functions_later(__package__, ".numpy_operators.reductions")
    regions = functions_later(__package__, ".numpy_operators.regions")
    sampling = functions_later(__package__, ".numpy_operators.sampling")
    searches = functions_later(__package__, ".numpy_operators.searches")
    sequence_values = functions_later(__package__, ".numpy_operators.sequence_values")
    text_values = functions_later(__package__, ".numpy_operators.text_values")
    transposed_sums = functions_later(__package__, ".numpy_operators.transposed_sums")
    attentions = functions_later(__package__, "attentions")
    axis_resampling = functions_later(__package__, "axis_resampling")
    border_pads = functions_later(__package__, "border_pads")
    decompositions = functions_later(__package__, "decompositions")
    dynamic_quantization = functions_later(__package__, "dynamic_quantization")
    einsums = functions_later(__package__, "einsums")
    exact_products = functions_later(__package__, "exact_products")
    indexed_steps = functions_later(__package__, "indexed_steps")
    integer_steps = functions_later(__package__, "integer_steps")
    integer_transposed = functions_later(__package__, "integer_transposed")
    integer_windows = functions_later(__package__, "integer_windows")
    moments = functions_later(__package__, "moments")
    place_steps = functions_later(__package__, "place_steps")
    product_steps = functions_later(__package__, "product_steps")
    region_steps = functions_later(__package__, "region_steps")
    resampling = functions_later(__package__, "resampling")
    transposed_steps = functions_later(__package__, "transposed_steps")
    unpooling = functions_later(__package__, "unpooling")

__all__ = ["COMPUTED", "EXPRESSIONS", "OF_INTEGERS", "ROWS", "row_of"]

_CONV = Loops(convolution.lower_conv, convolution.serves_conv)
_CONV_TRANSPOSE = Loops(
    transposed_steps.lower_conv_transpose, transposed_steps.serves_conv_transpose
)
_POOL = Loops(window_steps.lower_pool, window_steps.serves_pool)
_INTEGER_POOL = Loops(window_steps.lower_pool, integer_windows.serves_pool)
_PLACES = Loops(place_steps.lower_places, place_steps.serves_places)
_PADS = either(
    Loops(movement.lower_pad, movement.serves_pad),
    Loops(border_pads.lower_pad, border_pads.serves_pad),
)
_RESIZES = either(
    either(
        Loops(window_steps.lower_resize, window_steps.serves_resize),
        Loops(integer_windows.lower_resize, integer_windows.serves_resize),
    ),
    either(
        Loops(axis_resampling.lower_resize, axis_resampling.serves_resize),
        Loops(resampling.lower_resize, resampling.serves_resize),
    ),
)
_MATRICES = either(
    Loops(linear_steps.lower_matmul, linear_steps.serves_matmul),
    Loops(product_steps.lower_product, product_steps.serves_product),
)
_CURVES_IN_NUMPY: Mapping[str, Compute] = {
    "Sigmoid": elements.sigmoid, "Tanh": elements.computed(np.tanh)
}  # fmt: skip
# Inputs that a fused node adds to images: residual, and the second one of a gate.
_ADDED = (3, 6)

ROWS: Mapping[str, Row] = {
    "Abs": arithmetic(expressions.plain("ABSOLUTE"), python=elements.computed(np.abs)),
    "Acos": program(expressions.plain("ARC_COSINE")),
    "Acosh": program(expressions.plain("AREA_COSINE")),
    "Add": arithmetic(expressions.plain("ADD"), python=elements.computed(np.add)),
    "And": arithmetic(expressions.plain("AND"), python=elements.computed(np.logical_and)),
    "ArgMax": indexed(indexed_steps.lower_arg, indexed_steps.serves_arg, searches.arg_max),
    "ArgMin": indexed(indexed_steps.lower_arg, indexed_steps.serves_arg, searches.arg_min),
    "Asin": program(expressions.plain("ARC_SINE")),
    "Asinh": program(expressions.plain("AREA_SINE")),
    "Atan": program(expressions.plain("ARC_TANGENT")),
    "Atanh": program(expressions.plain("AREA_TANGENT")),
    "Attention": decomposed(
        "Attention in pieces", attentions.attention, early=False, outputs=4
    ),
    "AveragePool": images(
        _POOL, format=Format.FOLLOWS, moves=Moves.NOTHING, rows=row_rules.windows(),
        python=pools.average_pool,
    ),
    "BatchNormalization": decomposed(
        "BatchNormalization to Mul, Add", moments.batch_norm, early=False, outputs=3
    ),
    "BitShift": in_python(elements.bit_shift, shapes=()),
    "BitwiseAnd": in_python(elements.computed(np.bitwise_and), shapes=()),
    "BitwiseNot": in_python(elements.computed(np.invert), shapes=()),
    "BitwiseOr": in_python(elements.computed(np.bitwise_or), shapes=()),
    "BitwiseXor": in_python(elements.computed(np.bitwise_xor), shapes=()),
    "Cast": arithmetic(
        truths.cast, python=elements.cast,
        loops=Loops(movement.lower_reformat, movement.serves_cast),
    ),
    "CastLike": decomposed("CastLike as Cast", decompositions.cast_like, early=False),
    "Ceil": program(expressions.plain("CEIL"), python=elements.computed(np.ceil)),
    "Celu": program(expressions.celu),
    "Clip": arithmetic(expressions.clip, python=elements.clip),
    "Col2Im": in_python(transposed_sums.image_of_columns, shapes=(1, 2)),
    "Compress": in_python(moves.compress, shapes=()),
    "Concat": looped(
        Loops(movement.lower_concat, always), batches=batch_rules.concatenation,
        format=Format.FOLLOWS, rows=row_rules.joined, layout=Layout.FREE, moves=Moves.ALL,
        shapes=(), python=views.concat,
    ),
    "ConcatFromSequence": in_python(sequence_values.concat_from_sequence, shapes=()),
    "Constant": in_python(fills.constant, shapes=()),
    "ConstantOfShape": in_python(fills.constant_of_shape, shapes=(0,)),
    "Conv": convolved(_CONV, layout=Layout.PRICED, flops=costs.convolution),
    "ConvInteger": decomposed(
        "ConvInteger as an exact Conv", exact_products.conv_integer, early=False
    ),
    "ConvTranspose": convolved(
        _CONV_TRANSPOSE, rows=row_rules.transposed(), layout=Layout.PIXELS,
        flops=costs.transposed_convolution,
        python=transposed_sums.conv_transpose,
    ),
    "Cos": program(expressions.plain("COSINE")),
    "Cosh": program(expressions.plain("HYPERBOLIC_COSINE")),
    "CumSum": in_python(reductions.cumulative_sum, shapes=()),
    "DepthToSpace": blocks(
        "DepthToSpace", movement.lower_depth_to_space, decompositions.depth_to_space
    ),
    "DequantizeLinear": integers(
        integer_steps.lower_dequantize, integer_steps.serves_dequantize, batches=batch_rules.scales
    ),
    "Div": arithmetic(expressions.plain("DIVIDE"), python=elements.divide),
    "Dropout": in_python(views.dropout, shapes=()),
    "DynamicQuantizeLinear": integers(
        dynamic_quantization.lower_dynamic, dynamic_quantization.serves_dynamic,
        batches=batch_rules.mixed, layout=Layout.KEPT,
    ),
    "Einsum": decomposed(
        "Einsum as a product of matrices", einsums.einsum, early=False,
        python=contractions.einsum,
    ),
    "Elu": program(expressions.elu),
    "Equal": arithmetic(expressions.plain("EQUAL"), python=elements.computed(np.equal)),
    "Erf": program(expressions.plain("ERROR_FUNCTION")),
    "Exp": program(expressions.plain("EXPONENTIAL"), python=elements.computed(np.exp)),
    "Expand": strided(
        Loops(movement.lower_expand, always), batches=batch_rules.expansion, layout=Layout.ANY,
        moves=Moves.NOTHING, shapes=(1,), python=views.expand,
    ),
    "EyeLike": in_python(fills.eye_like, shapes=()),
    "Flatten": reshaped(python=views.flatten),
    "Floor": program(expressions.plain("FLOOR"), python=elements.computed(np.floor)),
    "GRU": recurrence(),
    "Gather": strided(
        either(
            Loops(movement.lower_gather, movement.serves_gather),
            Loops(indexed_steps.lower_gather, indexed_steps.serves_gather),
        ),
        batches=batch_rules.along(0),
        layout=Layout.ANY, moves=Moves.FIRST, shapes=(), python=views.gather,
    ),
    "GatherElements": indexed(
        indexed_steps.lower_gather_elements, indexed_steps.serves_gather_elements,
        moves.gather_elements,
    ),
    "GatherND": indexed(
        indexed_steps.lower_gather_nd, indexed_steps.serves_gather_nd, moves.gather_nd
    ),
    "Gelu": program(expressions.gelu),
    "Gemm": product(
        Loops(linear_steps.lower_gemm, linear_steps.serves_gemm), batches=batch_rules.gemm
    ),
    "GlobalAveragePool": reduction("SUM", "DIVIDE", shapes=()),
    "GlobalLpPool": decomposed(
        "GlobalLpPool as sums of powers", decompositions.global_lp_pool, early=False,
        python=pools.global_lp_pool,
    ),
    "GlobalMaxPool": reduction("MAX", shapes=(), python=pools.global_max_pool),
    "Greater": arithmetic(truths.swapped("LESS"), python=elements.computed(np.greater)),
    "GreaterOrEqual": arithmetic(
        truths.swapped("LESS_OR_EQUAL"), python=elements.computed(np.greater_equal)
    ),
    "GridSample": in_python(sampling.grid_sample, shapes=()),
    "GroupNormalization": decomposed(
        "GroupNormalization in pieces", decompositions.group_norm, early=True
    ),
    "HardSigmoid": program(expressions.hard_sigmoid),
    "Hardmax": in_python(elements.hardmax, shapes=()),
    "Identity": reshaped(layout=Layout.KEPT, python=views.identity),
    "InstanceNormalization": decomposed(
        "InstanceNormalization as LayerNormalization", decompositions.instance_norm, early=False
    ),
    "IsInf": program(truths.infinite),
    "IsNaN": program(truths.not_a_number, python=elements.computed(np.isnan)),
    "LRN": decomposed(
        "LRN as AveragePool of squares", decompositions.local_response_norm, early=False,
        python=normalizations.local_response,
    ),
    "LSTM": recurrence(),
    "LayerNormalization": along_rows(
        row_steps.lower_layer_norm, row_steps.serves_layer_norm, batch_rules.layer_norm,
        decomposition=Decomposition(
            "LayerNormalization with its means in pieces", False, moments.layer_norm, 3
        ),
    ),
    "LeakyRelu": program(expressions.leaky_relu),
    "Less": arithmetic(expressions.plain("LESS"), python=elements.computed(np.less)),
    "LessOrEqual": arithmetic(
        expressions.plain("LESS_OR_EQUAL"), python=elements.computed(np.less_equal)
    ),
    "Log": program(expressions.plain("LOGARITHM"), python=elements.computed(np.log)),
    "LogSoftmax": along_rows(row_steps.lower_softmax, row_steps.serves_rows, batch_rules.along(-1)),
    "LpNormalization": decomposed(
        "LpNormalization as a norm and a quotient", decompositions.lp_normalization, early=False,
        python=normalizations.by_length,
    ),
    "LpPool": decomposed(
        "LpPool as AveragePool of powers", decompositions.lp_pool, early=False,
        python=pools.lp_pool,
    ),
    "MatMul": product(
        Loops(_MATRICES.lower, product_steps.serves_product), batches=batch_rules.product
    ),
    "MatMulInteger": decomposed(
        "MatMulInteger as an exact MatMul", exact_products.matmul_integer, early=False
    ),
    "Max": in_pairs(
        "Max", expressions.chain("MAXIMUM"), of_integers=True, python=elements.joined(np.maximum)
    ),
    "MaxPool": images(
        either(either(_POOL, _INTEGER_POOL), _PLACES), batches=batch_rules.pools,
        format=Format.FOLLOWS, moves=Moves.FIRST, rows=row_rules.windows(), python=pools.max_pool,
    ),
    "MaxUnpool": decomposed("MaxUnpool as ScatterElements", unpooling.max_unpool, early=False),
    "Mean": in_pairs("Mean", expressions.mean),
    "MeanVarianceNormalization": decomposed(
        "MeanVarianceNormalization in pieces", decompositions.mean_variance, early=True
    ),
    "Min": in_pairs(
        "Min", expressions.chain("MINIMUM"), of_integers=True, python=elements.joined(np.minimum)
    ),
    "Mod": arithmetic(expressions.modulo, python=elements.modulo),
    "Mul": arithmetic(expressions.plain("MULTIPLY"), python=elements.computed(np.multiply)),
    "Neg": arithmetic(expressions.plain("NEGATE"), python=elements.computed(np.negative)),
    "NonMaxSuppression": in_python(regions.non_max_suppression, shapes=()),
    "NonZero": in_python(searches.non_zero, shapes=()),
    "Not": arithmetic(expressions.plain("NOT"), python=elements.computed(np.logical_not)),
    "OneHot": indexed(
        indexed_steps.lower_one_hot, indexed_steps.serves_one_hot, moves.one_hot, shapes=(1,)
    ),
    "Optional": in_python(sequence_values.optional, shapes=()),
    "OptionalGetElement": in_python(sequence_values.optional_get_element, shapes=()),
    "OptionalHasElement": in_python(sequence_values.optional_has_element, shapes=()),
    "Or": arithmetic(expressions.plain("OR"), python=elements.computed(np.logical_or)),
    "PRelu": program(expressions.plain("SLOPE")),
    "Pad": looped(
        _PADS, batches=batch_rules.padding, format=Format.FOLLOWS, layout=Layout.PIXELS,
        moves=Moves.FIRST, moves_if=moving.pads_with_zeros, shapes=(1, 3), python=moves.pad,
    ),
    "Pow": program(expressions.power),
    "QLinearMatMul": decomposed(
        "QLinearMatMul as an exact MatMul", exact_products.qlinear_matmul, early=False
    ),
    "QuantizeLinear": integers(
        integer_steps.lower_quantize, integer_steps.serves_quantize, batches=batch_rules.scales
    ),
    "RMSNormalization": decomposed(
        "RMSNormalization in pieces", decompositions.rms_norm, early=False
    ),
    "RNN": recurrence(),
    "Range": in_python(fills.arange, shapes=(0, 1, 2)),
    "Reciprocal": program(expressions.reciprocal),
    "ReduceL1": reduced_otherwise("ReduceL1", reductions.absolute_sum),
    "ReduceL2": reduction("SQUARES", "SQUARE_ROOT", python=reductions.length),
    "ReduceLogSum": reduced_otherwise("ReduceLogSum", reductions.log_sum),
    "ReduceLogSumExp": reduced_otherwise("ReduceLogSumExp", reductions.log_sum_exp),
    "ReduceMax": reduction("MAX", python=reductions.largest),
    "ReduceMean": reduction("SUM", "DIVIDE", python=reductions.mean),
    "ReduceMin": reduction("MIN", python=reductions.smallest),
    "ReduceProd": in_python(reductions.product, shapes=(1,)),
    "ReduceSum": reduction("SUM", python=reductions.total),
    "ReduceSumSquare": reduction("SQUARES", python=reductions.squares),
    "Relu": arithmetic(expressions.relu, python=elements.relu),
    "Reshape": reshaped(1, python=views.reshape),
    "Resize": images(
        _RESIZES, batches=batch_rules.resized, format=Format.FOLLOWS, moves=Moves.FIRST,
        moves_if=moving.repeats_pixels, arrays=1, rows=row_rules.resized, shapes=(1, 2, 3),
    ),
    "RoiAlign": indexed(
        region_steps.lower_roi_align, region_steps.serves_roi_align, regions.roi_align
    ),
    "RotaryEmbedding": decomposed(
        "RotaryEmbedding in pieces", attentions.rotary_embedding, early=False
    ),
    "Round": program(expressions.plain("ROUND"), python=elements.computed(np.rint)),
    "ScatterElements": indexed(
        indexed_steps.lower_scatter_elements, indexed_steps.serves_scatter_elements,
        moves.scatter_elements,
    ),
    "ScatterND": indexed(
        indexed_steps.lower_scatter_nd, indexed_steps.serves_scatter_nd, moves.scatter_nd
    ),
    "Selu": program(expressions.selu),
    "SequenceAt": in_python(sequence_values.sequence_at, shapes=()),
    "SequenceConstruct": in_python(sequence_values.sequence_construct, shapes=()),
    "SequenceEmpty": in_python(sequence_values.sequence_empty, shapes=()),
    "SequenceErase": in_python(sequence_values.sequence_erase, shapes=()),
    "SequenceInsert": in_python(sequence_values.sequence_insert, shapes=()),
    "SequenceLength": in_python(sequence_values.sequence_length, shapes=()),
    "Shape": in_python(views.shape, shapes=()),
    "Shrink": program(expressions.shrink, python=elements.shrink),
    "Sign": arithmetic(truths.sign, python=elements.computed(np.sign)),
    "Sin": program(expressions.plain("SINE")),
    "Sinh": program(expressions.plain("HYPERBOLIC_SINE")),
    "Size": in_python(views.size, shapes=()),
    "Slice": strided(
        Loops(movement.lower_slice, movement.serves_slice), batches=batch_rules.slicing,
        layout=Layout.KEPT, moves=Moves.FIRST, shapes=(1, 2, 3, 4), python=moves.slices,
    ),
    "Softmax": along_rows(row_steps.lower_softmax, row_steps.serves_rows, batch_rules.along(-1)),
    "Softsign": program(expressions.softsign),
    "SpaceToDepth": blocks(
        "SpaceToDepth", movement.lower_space_to_depth, decompositions.space_to_depth
    ),
    "Split": strided(
        Loops(movement.lower_split, always), batches=batch_rules.along(0), layout=Layout.KEPT,
        moves=Moves.NOTHING, shapes=(1,), python=views.split,
    ),
    "SplitToSequence": in_python(sequence_values.split_to_sequence, shapes=()),
    "Sqrt": program(expressions.plain("SQUARE_ROOT"), python=elements.computed(np.sqrt)),
    "Squeeze": reshaped(1, layout=Layout.KEPT, python=views.squeeze),
    "Sub": arithmetic(expressions.plain("SUBTRACT"), python=elements.computed(np.subtract)),
    "Sum": in_pairs(
        "Sum", expressions.chain("ADD"), of_integers=True, python=elements.joined(np.add)
    ),
    "Swish": program(expressions.swish),
    "Tan": program(expressions.tangent),
    "Tanh": program(expressions.plain("HYPERBOLIC_TANGENT"), python=elements.computed(np.tanh)),
    "Tile": indexed(indexed_steps.lower_tile, indexed_steps.serves_tile, moves.tile, shapes=(1,)),
    "TopK": in_python(searches.top_k, shapes=(1,)),
    "Transpose": strided(
        Loops(movement.lower_transpose, always), batches=batch_rules.transposition,
        layout=Layout.ANY, moves=Moves.FIRST, shapes=(), python=views.transpose,
    ),
    "Trilu": in_python(moves.trilu, shapes=()),
    "Unique": in_python(searches.unique, shapes=()),
    "Unsqueeze": reshaped(1, layout=Layout.KEPT, python=views.unsqueeze),
    "Where": arithmetic(expressions.plain("WHERE"), python=elements.computed(np.where)),
    "Xor": arithmetic(truths.exclusive_or, python=elements.computed(np.logical_xor)),
    **{
        kind.onnx: program(
            expressions.plain(kind.instruction),
            python=_CURVES_IN_NUMPY.get(kind.onnx, Python.REFERENCE),
        )
        for name, kind in ACTIVATIONS.items()
        if name in CURVES and not kind.onnx_attributes
    },
    "ai.onnx.ml.LabelEncoder": in_python(text_values.label_encoder, shapes=()),
    "pplconv.Conv": convolved(
        _CONV, *_ADDED, layout=Layout.PRICED, flops=costs.convolution
    ),
    "pplconv.ConvTranspose": convolved(
        _CONV_TRANSPOSE, *_ADDED, rows=row_rules.transposed(*_ADDED), layout=Layout.PIXELS,
        flops=costs.transposed_convolution,
    ),
    "pplconv.Linear": product(
        Loops(linear_steps.lower_linear, linear_steps.serves_matmul),
        batches=batch_rules.with_residual,
    ),
    "pplconv.QuantizedAdd": ours(
        integer_steps.lower_add, batches=batch_rules.images(0, 1), rows=row_rules.same(0, 1)
    ),
    "pplconv.QuantizedAverage": ours(
        integer_windows.lower_average, batches=batch_rules.images(), rows=row_rules.windows()
    ),
    "pplconv.QuantizedConv": ours(
        integer_steps.lower_conv, batches=batch_rules.images(RESIDUAL),
        rows=row_rules.windows(RESIDUAL),
    ),
    "pplconv.QuantizedConvTranspose": ours(
        integer_transposed.lower_transposed, batches=batch_rules.images(),
        rows=row_rules.transposed(),
    ),
    "pplconv.QuantizedLinear": ours(
        integer_steps.lower_linear, batches=batch_rules.images(RESIDUAL)
    ),
    "pplconv.Reformat": ours(
        movement.lower_reformat, always, batches=batch_rules.images(), rows=row_rules.same(0),
        layout=Layout.KEPT,
    ),
}  # fmt: skip
"""Rows of ONNX's operators in opset `opsets.OPSET`; those of other domains, and ours, with them."""

_WITHOUT_ROW = in_python(shapes=())


def row_of(op: str) -> Row:
    """Give the row of an operator; an operator without one runs in ONNX's reference."""
    return ROWS.get(op, _WITHOUT_ROW)


EXPRESSIONS: Mapping[str, Write] = {
    op: row.expression for op, row in ROWS.items() if row.expression is not None
}
"""Element-wise operators, with the functions that write their instructions."""

OF_INTEGERS = frozenset(op for op, row in ROWS.items() if row.of_integers)
"""Element-wise operators whose instructions compute integers as well."""

COMPUTED: Mapping[str, Compute] = {
    op: row.python for op, row in ROWS.items() if not isinstance(row.python, Python)
}
"""Operators with functions in NumPy, for nodes that no loop serves."""

"""The contracts of all operations, in the order of the C header."""

from __future__ import annotations

from asm.contract.depthwise import (
    DEPTHWISE_BYTES_CHANNELS,
    DEPTHWISE_BYTES_PIXELS,
    DEPTHWISE_CHANNELS,
    DEPTHWISE_PIXELS,
    PACK_DEPTHWISE,
    PACK_DEPTHWISE_BYTES,
)
from asm.contract.elementwise import (
    CONVERT_IN,
    CONVERT_OUT,
    CURVE,
    ELEMENTWISE,
    EXACT_SUMS,
    FILTER_FLOATS,
    FILTER_MIRRORED,
    FILTER_ROW,
    FILTER_SQUARES,
    PIXEL_COLUMNS,
    READ_PIXELS,
    ROUND_SUMS,
    WHOLE_SUMS,
    ZERO_LANES,
)
from asm.contract.gemm import FMA_PEAK, GEMM, RELEASE_TILES
from asm.contract.indices import ARG_COLUMNS, COPY_INDEXED, SUPPRESS, TOP_COLUMNS
from asm.contract.packing import (
    COPY_STRIDED,
    PACK_CHANNELS,
    PACK_PIXELS,
    PACK_ROWS,
    PACK_WEIGHTS,
    PAD_CHANNELS,
    STORE_TRANSPOSED,
)
from asm.contract.pairs import PAIR_PIXELS, PAIR_SUMS
from asm.contract.quantized import (
    DEQUANTIZE,
    LOOKUP,
    QUANTIZE,
    REQUANTIZE,
    RESCALE,
    SUM_BYTES,
)
from asm.contract.reductions import LAYER_NORM, REDUCE_COLUMNS, REDUCE_ROWS, SOFTMAX
from asm.contract.sparse import PACK_SPARSE, SPARSE_CHANNELS, SPARSE_PIXELS
from asm.contract.windows import POOL, POOL_PLACES, RESAMPLE
from asm.contract.winograd import (
    DIRECT_SUMS,
    WINOGRAD_INPUT,
    WINOGRAD_OUTPUT,
    WINOGRAD_WEIGHTS,
)

_ALL = (
    GEMM,
    SPARSE_PIXELS,
    SPARSE_CHANNELS,
    PACK_SPARSE,
    PACK_PIXELS,
    PACK_ROWS,
    PACK_CHANNELS,
    PACK_WEIGHTS,
    PAD_CHANNELS,
    STORE_TRANSPOSED,
    CURVE,
    ELEMENTWISE,
    WINOGRAD_INPUT,
    WINOGRAD_OUTPUT,
    DIRECT_SUMS,
    WINOGRAD_WEIGHTS,
    ZERO_LANES,
    ROUND_SUMS,
    EXACT_SUMS,
    FILTER_FLOATS,
    FILTER_ROW,
    FILTER_SQUARES,
    FILTER_MIRRORED,
    PAIR_PIXELS,
    PAIR_SUMS,
    PIXEL_COLUMNS,
    WHOLE_SUMS,
    READ_PIXELS,
    CONVERT_IN,
    CONVERT_OUT,
    DEPTHWISE_PIXELS,
    DEPTHWISE_CHANNELS,
    PACK_DEPTHWISE,
    DEPTHWISE_BYTES_PIXELS,
    DEPTHWISE_BYTES_CHANNELS,
    PACK_DEPTHWISE_BYTES,
    POOL,
    POOL_PLACES,
    RESAMPLE,
    REDUCE_ROWS,
    REDUCE_COLUMNS,
    ARG_COLUMNS,
    TOP_COLUMNS,
    SOFTMAX,
    LAYER_NORM,
    COPY_STRIDED,
    COPY_INDEXED,
    SUPPRESS,
    REQUANTIZE,
    QUANTIZE,
    DEQUANTIZE,
    RESCALE,
    SUM_BYTES,
    LOOKUP,
    RELEASE_TILES,
    FMA_PEAK,
)

CONTRACTS = {contract.op: contract for contract in _ALL}

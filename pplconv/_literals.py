"""The words that arguments take, as types: editors complete them, checkers name a wrong one.

Each is that of one table at run time (`tests/packaging/test_literals.py` compares them). They stand
here, below all rooms, so that stubs and modules share one definition.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Algorithm: TypeAlias = Literal[
    "auto", "depthwise", "sparse", "pointwise", "winograd", "direct", "im2col"
]
Search: TypeAlias = Literal["estimate", "measure", "exhaustive"]
SearchContext: TypeAlias = Literal["hot", "cold"]
Layout: TypeAlias = Literal["NCHW", "NHWC", "NCHWc"]
# Of quantized operators, which have no blocks of channels.
PlainLayout: TypeAlias = Literal["NCHW", "NHWC"]
Precision: TypeAlias = Literal["auto", "fp32", "fp16", "bf16", "low", "low_bf16"]
Sparse: TypeAlias = Literal["auto"] | bool
PaddingWord: TypeAlias = Literal["valid", "same", "same_upper", "same_lower"]
TransposedPaddingWord: TypeAlias = Literal["valid", "same_upper", "same_lower"]
# How ranges of numbers are found for quantization.
Method: TypeAlias = Literal["minmax", "percentile", "mse"]

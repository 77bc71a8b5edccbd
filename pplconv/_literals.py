"""The words that arguments take, as types: editors complete them, checkers name a wrong one.

Each type has the words of one table at run time (`tests/packaging/test_literals.py` compares them).
This module is below all packages, so that stubs and modules share one definition.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Algorithm: TypeAlias = Literal[
    "auto", "depthwise", "sparse", "pointwise", "winograd", "direct", "im2col"
]
Search: TypeAlias = Literal["estimate", "measure", "exhaustive"]
SearchContext: TypeAlias = Literal["hot", "cold"]
Layout: TypeAlias = Literal["NCHW", "NHWC", "NCHWc"]
# Layouts of quantized operators, which have no blocks of channels.
PlainLayout: TypeAlias = Literal["NCHW", "NHWC"]
Precision: TypeAlias = Literal["auto", "fp32", "fp16", "bf16", "low", "low_bf16"]
Sparse: TypeAlias = Literal["auto"] | bool
PaddingWord: TypeAlias = Literal["valid", "same", "same_upper", "same_lower"]
TransposedPaddingWord: TypeAlias = Literal["valid", "same_upper", "same_lower"]
PaddingMode: TypeAlias = Literal["zeros", "reflect", "replicate", "circular"]
SignalLayout: TypeAlias = Literal["NCW", "NWC"]
VolumeLayout: TypeAlias = Literal["NCDHW", "NDHWC"]
# Borders of image filters.
Border: TypeAlias = Literal["reflect101", "reflect", "replicate", "wrap", "constant"]
FilterMode: TypeAlias = Literal["same", "valid"]
FilterMethod: TypeAlias = Literal["direct", "auto", "fft"]
SignalMode: TypeAlias = Literal["full", "valid", "same"]
SignalBoundary: TypeAlias = Literal["fill", "wrap", "symm"]
# What a network does with operators that only ONNX's reference computes.
Fallback: TypeAlias = Literal["warn", "error", "silent"]
# How ranges of numbers are found for quantization.
Method: TypeAlias = Literal["minmax", "percentile", "mse"]

"""Numbers that kernels and their callers agree on."""

from __future__ import annotations

FLAGS = {
    "ACCUMULATE": 1,  # start from what c holds instead of zero
    "BIAS_ROW": 2,  # bias[m] is added to row m; excludes BIAS_COLUMN
    "BIAS_COLUMN": 4,  # bias[n] is added to column n; excludes BIAS_ROW
    "RESIDUAL": 8,  # residual[m, n] is added
    "CLIP": 16,  # min(max(x, clip[0]), clip[1]); NaN passes through
    "B_PADDED": 32,  # whole vectors of b may be read, whatever n is
}

# Longest chain of products that GEMM in half precision adds in half precision. A segment's k is
# cut into pieces of so many terms from its start; a piece goes on with the chain under way if the
# chain then is no longer than this, and otherwise begins a new one. Chains are added in float32,
# in their order, and the total is rounded to half precision once, before the epilogue. The end of
# a chain costs four vector operations for each accumulator's 64 FMAs. Measured as the largest
# error over the largest output of 24 x 24 sums of normal numbers, of 64 terms: 2.1e-3; of 512:
# 1.3e-3 (one chain for all: 6.1e-3); of 4608: 1.3e-3 (1.7e-2). Chains of 32 have 1.1e-3, of 128
# 1.8e-3 to 3.4e-3.
HALF_CHAIN = 64

# What `activate` computes, x being an element. NaN stays NaN and infinities give the limits.
ACTIVATIONS = {
    "LEAKY": 1,  # x < 0 ? slope[0] * x : x; a slope of zero gives zero, also for -inf
    "PRELU_ROW": 2,  # the same with slope[row]
    "PRELU_COLUMN": 3,  # the same with slope[column]
    "HARDSWISH": 4,  # x * clip(x + 3, 0, 6) / 6
    "SIGMOID": 5,  # 1 / (1 + exp(-x))
    "SILU": 6,  # x / (1 + exp(-x))
}

# By name in C, one enumeration each.
ENUMERATIONS = (
    {f"PPLCONV_{name}": value for name, value in FLAGS.items()},
    {f"PPLCONV_ACTIVATE_{name}": value for name, value in ACTIVATIONS.items()},
    {"PPLCONV_HALF_CHAIN": HALF_CHAIN},
)

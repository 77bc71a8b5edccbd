"""Constants that kernels and their callers share: flags, instructions, kinds of reductions."""

from __future__ import annotations

FLAGS = {
    "ACCUMULATE": 1,  # start from what c holds instead of zero
    "BIAS_ROW": 2,  # bias[m] is added to row m; excludes BIAS_COLUMN
    "BIAS_COLUMN": 4,  # bias[n] is added to column n; excludes BIAS_ROW
    "RESIDUAL": 8,  # residual[m, n] is added
    "CLIP": 16,  # min(max(x, clip[0]), clip[1]); NaN passes through
    "B_PADDED": 32,  # whole vectors of b may be read, whatever n is
    "STORE_BF16": 64,  # c and residual are bfloat16; excludes ACCUMULATE; see `Kernel.rounds`
}

# Longest chain of products that GEMM in half precision adds in half precision. A segment's k is
# cut, from its start, into pieces of HALF_CHAIN terms. A piece continues the current chain if the
# chain then has at most HALF_CHAIN terms; otherwise it begins a new one. The terms of sparse
# weights are cut into pieces of HALF_CHAIN terms from the first of the list on. Chains are added in
# float32, in their order, and the total is rounded to half precision once, before the epilogue. The
# end of a chain costs four vector operations for each accumulator's 64 FMAs. Measured as the
# largest error over the largest output of 24 x 24 sums of normal numbers: sums of 64 terms have
# 2.1e-3; of 512 terms 1.3e-3 (one chain for all: 6.1e-3); of 4608 terms 1.3e-3 (1.7e-2). Chains of
# 32 terms have 1.1e-3, chains of 128 terms 1.8e-3 to 3.4e-3.
HALF_CHAIN = 64

# Instructions of `elementwise`, and the result of each for elements a, b and c. Unless a comment
# says otherwise, NaN stays NaN. The comparisons and the logic give 1 or 0.
INSTRUCTIONS = {
    "COPY": 0,  # a
    "ADD": 1,  # a + b
    "SUBTRACT": 2,  # a - b
    "MULTIPLY": 3,  # a * b
    "DIVIDE": 4,  # a / b
    "MULTIPLY_ADD": 5,  # a * b + c, fused where the level fuses
    "MINIMUM": 6,  # of a and b
    "MAXIMUM": 7,
    "CLIP": 8,  # a, at least b, then at most c
    "NEGATE": 9,  # -a
    "ABSOLUTE": 10,
    "SQUARE_ROOT": 11,
    "FLOOR": 12,
    "CEIL": 13,
    "ROUND": 14,  # to the nearest integer, ties to even
    "POWER": 15,  # a to the b
    "EXPONENTIAL": 16,
    "LOGARITHM": 17,
    "HYPERBOLIC_TANGENT": 18,
    "ERROR_FUNCTION": 19,
    # Activations: infinities give the limits.
    "SIGMOID": 20,  # 1 / (1 + exp(-a))
    "SILU": 21,  # a / (1 + exp(-a))
    "HARDSWISH": 22,  # a * clip(a + 3, 0, 6) / 6
    "SLOPE": 23,  # a < 0 ? b * a : a; a slope of zero gives zero, also for -inf
    "LESS": 24,  # a < b
    "LESS_OR_EQUAL": 25,
    "EQUAL": 26,
    "NOT": 27,  # a == 0
    "AND": 28,  # a != 0 and b != 0
    "OR": 29,
    "WHERE": 30,  # a != 0 ? b : c
    "SOFTPLUS": 31,  # log(1 + exp(a))
    "MISH": 32,  # a * tanh(log(1 + exp(a)))
    "SINE": 33,
    "COSINE": 34,
    "ARC_SINE": 35,
    "ARC_COSINE": 36,
    "ARC_TANGENT": 37,
    "HYPERBOLIC_SINE": 38,
    "HYPERBOLIC_COSINE": 39,
    "AREA_SINE": 40,  # the inverse of HYPERBOLIC_SINE
    "AREA_COSINE": 41,
    "AREA_TANGENT": 42,
    "REMAINDER": 43,  # of a / b rounded toward zero; it has the sign of a
    "GELU": 44,  # a * (1 + erf(a / sqrt(2))) / 2, an activation
}
MOST_REGISTERS = 32
# Instructions that `curve` computes.
CURVES = ("SIGMOID", "SILU", "HARDSWISH", "SLOPE")
# Instructions of programs of integers. Sums, differences and products wrap around; quotients are
# rounded toward zero, and those by zero are 0.
OF_INTEGERS = (
    *("COPY", "ADD", "SUBTRACT", "MULTIPLY", "DIVIDE", "REMAINDER", "MULTIPLY_ADD", "MINIMUM"),
    *("MAXIMUM", "CLIP", "NEGATE", "ABSOLUTE", "LESS", "LESS_OR_EQUAL", "EQUAL", "NOT", "AND"),
    *("OR", "WHERE"),
)

# Types of a stream's elements that `elementwise` converts from and to the type of its registers.
# Numbers become integers by truncation toward zero, and larger integers smaller ones by wrapping
# around. Results are open for numbers beyond the type, and for NaN.
STORED = {
    "TRUTH": 1,  # a byte: 0 or 1 on its way in and out, 1 for all that is not 0
    "U8": 2,
    "S8": 3,
    "S32": 4,
    "S64": 5,
    "F32": 6,
    "F64": 7,
    "BF16": 8,  # in programs of float alone; rounded to the nearest, ties to even
}

# Ways in which `pool` combines the taps of an output; see the contract.
POOLINGS = {
    "MAX": 1,  # the largest, or NaN if one of them is NaN
    "SUM": 2,  # their sum, times scale[0]
}

# What an operand of `rescale` is.
OPERANDS = {
    "NONE": 0,
    "ONE": 1,  # a float for all columns of a row
    "COLUMNS": 2,  # a float for each column
    "BYTES": 3,  # an integer of the kernel's type for each column: its distance from zero, scaled
}

# Reductions that `reduce_rows` and `reduce_columns` compute; MAX and MIN alone of integers.
REDUCTIONS = {
    "SUM": 1,
    "MAX": 2,  # NaN if one of them is NaN; -inf if there are none
    "MIN": 3,  # NaN if one of them is NaN; inf if there are none
    "SQUARES": 4,  # the sum of their squares
}

# Element types of images that `read_pixels` reads.
PIXELS = {
    "U8": 1,
    "S8": 2,
    "U16": 3,
    "S16": 4,
    "F32": 5,
    "F64": 6,
}

# What `filter_row` makes of its sums.
SUMS = {
    "KEPT": 0,  # nothing
    "SIGNED": 1,  # signed integers, shifted and rounded to even
    "UNSIGNED": 2,  # unsigned ones, shifted and rounded to even
    "DIVIDED": 3,  # unsigned ones, divided
}

# Words of scratch that `exact_sums` keeps for each row: digits of its sum and of its tap.
EXACT_LIMBS = 97

# Rows that `pixel_columns` makes together.
PIXEL_LINES = 4

# Filters of 16-bit integers in pairs: most channels of a pixel, results of a vector, at most and
# at least, results of a block, which others divide.
PAIR_CHANNELS = 4
PAIR_RESULTS = 32
LEAST_PAIR_RESULTS = 16
PAIR_BLOCK = 128

# The most taps of `box_rows`.
BOX_TAPS = 128

# Numbers from the first to the last pixel of a row that `filter_strips` adds up, at most: a vector
# of AVX-512.
STRIP_BESIDE = 16

# Numbers from the first to the last pixel of a row that `filter_means` adds up, at most.
MEANS_BESIDE = 1024

# Constants that the library lists, by the first word of their C names, PPLCONV_<word>_<name>.
NUMBERS = {
    "DO": INSTRUCTIONS,
    "CURVE": {name: INSTRUCTIONS[name] for name in CURVES},
    "WHOLE": {name: INSTRUCTIONS[name] for name in OF_INTEGERS},
    "STORED": STORED,
    "POOL": POOLINGS,
    "OPERAND": OPERANDS,
    "REDUCE": REDUCTIONS,
    "PIXELS": PIXELS,
    "SUMS": SUMS,
}

# Values by their C names; each dictionary becomes an enumeration.
ENUMERATIONS = (
    {f"PPLCONV_{name}": value for name, value in FLAGS.items()},
    *(
        {f"PPLCONV_{word}_{name}": value for name, value in names.items()}
        for word, names in NUMBERS.items()
    ),
    {
        "PPLCONV_HALF_CHAIN": HALF_CHAIN,
        "PPLCONV_MOST_REGISTERS": MOST_REGISTERS,
        "PPLCONV_EXACT_LIMBS": EXACT_LIMBS,
        "PPLCONV_PIXEL_LINES": PIXEL_LINES,
        "PPLCONV_BOX_TAPS": BOX_TAPS,
        "PPLCONV_MEANS_BESIDE": MEANS_BESIDE,
        "PPLCONV_STRIP_BESIDE": STRIP_BESIDE,
        "PPLCONV_PAIR_CHANNELS": PAIR_CHANNELS,
        "PPLCONV_PAIR_RESULTS": PAIR_RESULTS,
        "PPLCONV_LEAST_PAIR_RESULTS": LEAST_PAIR_RESULTS,
        "PPLCONV_PAIR_BLOCK": PAIR_BLOCK,
    },
)

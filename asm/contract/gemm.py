"""Argument structs of the matrix product, and of the loop that measures its peak throughput."""

from __future__ import annotations

from asm.contract.fields import CONST_POINTER, INT, POINTER, Contract, Field

GEMM = Contract(
    "gemm",
    "C[0:MR, 0:n] = epilogue(sum over segments and k of A[:, k] * B[k, :]), in ascending order",
    (
        Field("a", CONST_POINTER, "A, read one element at a time and broadcast"),
        Field("b", CONST_POINTER, "B, read in vectors along its rows"),
        Field("c", POINTER, "C, in rows of vectors; only its first n columns are touched"),
        Field("segments", CONST_POINTER, "struct pplconv_segment [segment_count]"),
        Field("segment_count", INT, "0: A and B lie at a and b; else A and B of each segment"),
        Field(
            "k",
            INT,
            "length of the sum, of each segment if there are any; >= 0. Kernels that take KR k "
            "together read A and B in whole groups of KR; beyond k, one of them is zero and the "
            "other finite",
        ),
        Field("a_rs", INT, "A: from one row (m) to the next"),
        Field(
            "a_ks",
            INT,
            "A: from one group of k to the next; a_rs or a_ks is one group (AMX: a_ks)",
        ),
        Field("b_ks", INT, "B: from one group of k to the next"),
        Field("b_ahead", INT, "B: how far ahead of the first row to prefetch"),
        Field("b_ahead_ks", INT, "prefetches of B: from one k to the next; a hint, b_ks on Arm"),
        Field("c_rs", INT, "C: from one row to the next"),
        Field("c_vs", INT, "C: from one vector of a row to the next"),
        Field("n", INT, "columns, 1 <= n <= NR"),
        Field("bias", CONST_POINTER, "MR or n elements, by flag"),
        Field("residual", CONST_POINTER, "in rows of vectors like C, by flag"),
        Field("residual_rs", INT, "residual: from one row to the next"),
        Field("residual_vs", INT, "residual: from one vector of a row to the next"),
        Field("clip", CONST_POINTER, "two elements, low and high, by flag"),
        Field("flags", INT, "PPLCONV_* bits"),
        Field(
            "tiles",
            POINTER,
            "AMX: an int64_t of the calling thread, 0 before its first kernel, where kernels "
            "store the number of the loaded tile configuration; other kernels do not read it",
        ),
    ),
)

RELEASE_TILES = Contract(
    "release_tiles",
    "releases the tile registers: TILERELEASE, and sets the number in tiles to 0",
    (Field("tiles", POINTER, "the int64_t that the thread's GEMM kernels used"),),
)

FMA_PEAK = Contract(
    "fma_peak",
    "independent chains of products in registers: the peak that benchmarks compare with",
    (
        Field("iterations", INT, "turns of the loop"),
        Field("operations", POINTER, "int64_t, set to the operations of a turn: 2 a product"),
    ),
)

"""Argument structs of operations that reduce whole rows or columns of a matrix."""

from __future__ import annotations

from asm.contract.fields import CONST_POINTER, INT, POINTER, Contract, Field

REDUCE_ROWS = Contract(
    "reduce_rows",
    "dst[j] = reduction of src[i, j] over 0 <= i < rows, for 0 <= j < columns; with ACCUMULATE, of "
    "dst[j], too. Sums: each 64 rows have four chains, one for every fourth row, which are added "
    "in pairs; these totals are added in ascending order, in float for half precision. So the "
    "order depends on rows only",
    (
        Field("src", CONST_POINTER, "rows of contiguous elements"),
        Field("src_rs", INT, "src: from one row to the next"),
        Field("dst", POINTER, "columns contiguous elements"),
        Field("rows", INT, "rows, >= 0"),
        Field("columns", INT, "elements in a row, >= 0"),
        Field("kind", INT, "PPLCONV_REDUCE_*"),
        Field("flags", INT, "PPLCONV_ACCUMULATE or none"),
    ),
)

REDUCE_COLUMNS = Contract(
    "reduce_columns",
    "dst[i] = reduction of src[i, j] over 0 <= j < columns, for 0 <= i < rows; sums of blocks of "
    "64 vectors are added in double, in an order that depends on columns only",
    (
        Field("src", CONST_POINTER, "rows of contiguous elements"),
        Field("src_rs", INT, "src: from one row to the next"),
        Field("dst", POINTER, "one element for each row"),
        Field("dst_rs", INT, "dst: from one element to the next"),
        Field("rows", INT, "rows, >= 0"),
        Field("columns", INT, "elements in a row, >= 0"),
        Field("kind", INT, "PPLCONV_REDUCE_*"),
    ),
)

SOFTMAX = Contract(
    "softmax",
    "dst[i, j] = exp(src[i, j] - m) / s for 0 <= i < rows, 0 <= j < columns, where m is the "
    "largest of row i and s the sum of its exp(src[i, j] - m); with log, src[i, j] - m - log(s). "
    "A row with NaN or inf, or of -inf only, becomes NaN",
    (
        Field("src", CONST_POINTER, "rows of contiguous elements"),
        Field("src_rs", INT, "src: from one row to the next"),
        Field("dst", POINTER, "rows of contiguous elements; may be src, row for row"),
        Field("dst_rs", INT, "dst: from one row to the next"),
        Field("rows", INT, "rows, >= 0"),
        Field("columns", INT, "elements in a row, >= 0"),
        Field("log", INT, "1: the logarithm, else 0"),
    ),
)

LAYER_NORM = Contract(
    "layer_norm",
    "dst[i, j] = (src[i, j] - mean) / sqrt(variance + epsilon) * scale[j] + offset[j] for "
    "0 <= i < rows, 0 <= j < columns, where mean is that of row i and variance the mean of its "
    "squared differences from it",
    (
        Field("src", CONST_POINTER, "rows of contiguous elements"),
        Field("src_rs", INT, "src: from one row to the next"),
        Field("dst", POINTER, "rows of contiguous elements; may be src, row for row"),
        Field("dst_rs", INT, "dst: from one row to the next"),
        Field("rows", INT, "rows, >= 0"),
        Field("columns", INT, "elements in a row, >= 0"),
        Field("epsilon", CONST_POINTER, "one double"),
        Field("scale", CONST_POINTER, "columns elements, or NULL for ones"),
        Field("offset", CONST_POINTER, "columns elements, or NULL for zeros"),
    ),
)

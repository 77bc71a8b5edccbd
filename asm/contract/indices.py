"""Argument structs of operations that read or give indices."""

from __future__ import annotations

from asm.contract.fields import CONST_POINTER, INT, POINTER, Contract, Field

COPY_INDEXED = Contract(
    "copy_indexed",
    "items of `size` bytes to or from places that indices name: for 0 <= i < count, the item at "
    "src + i * src_step + f becomes that at dst + i * dst_step + t, where f and t are the sums of "
    "index d times src_strides[d] and dst_strides[d] bytes for 0 <= d < depth. An index below zero "
    "counts from the end. If one is none of its dimension, the item is left out, and `refused` "
    "becomes 1 and the index, clamped to 32 bits. Items are copied in order",
    (
        Field("src", CONST_POINTER, "the first item"),
        Field("src_step", INT, "src: bytes from one item to the next"),
        Field("dst", POINTER, "the first item; apart from src"),
        Field("dst_step", INT, "dst: bytes from one item to the next"),
        Field("size", INT, "bytes of an item, >= 1"),
        Field("index", CONST_POINTER, "the first item's indices, of the kernel's type"),
        Field("index_step", INT, "index: bytes from one item to the next"),
        Field("count", INT, "items, >= 0"),
        Field("depth", INT, "indices of an item, contiguous, >= 1"),
        Field("limits", CONST_POINTER, "int64_t [depth]: sizes of the dimensions"),
        Field("src_strides", CONST_POINTER, "int64_t [depth]: strides of src in bytes"),
        Field("dst_strides", CONST_POINTER, "int64_t [depth]: strides of dst in bytes"),
        Field("refused", POINTER, "int32_t [2]; other threads may write it, too"),
    ),
)

ARG_COLUMNS = Contract(
    "arg_columns",
    "dst[i] = the number of the largest or smallest element of row i, NaN before all others, for "
    "0 <= i < rows; of several, the first or the last",
    (
        Field("src", CONST_POINTER, "rows of contiguous elements"),
        Field("src_rs", INT, "src: from one row to the next"),
        Field("dst", POINTER, "one int64_t for each row"),
        Field("dst_rs", INT, "dst: from one number to the next"),
        Field("rows", INT, "rows, >= 0"),
        Field("columns", INT, "elements in a row, >= 1"),
        Field("kind", INT, "PPLCONV_REDUCE_MAX or PPLCONV_REDUCE_MIN"),
        Field("last", INT, "1: the last of several, else 0"),
    ),
)

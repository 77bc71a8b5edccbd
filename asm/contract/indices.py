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

TOP_COLUMNS = Contract(
    "top_columns",
    "places[i, j] = the number of the element that is the j-th largest or smallest one of row i, "
    "and values[i, j] = this element, for 0 <= i < rows, 0 <= j < count. NaN is larger than all "
    "numbers; of equal elements the first comes first",
    (
        Field("src", CONST_POINTER, "rows of contiguous elements"),
        Field("src_rs", INT, "src: from one row to the next"),
        Field("values", POINTER, "rows of contiguous elements"),
        Field("values_rs", INT, "values: from one row to the next"),
        Field("places", POINTER, "rows of contiguous int64_t"),
        Field("places_rs", INT, "places: from one row to the next"),
        Field("rows", INT, "rows, >= 0"),
        Field("columns", INT, "elements in a row of src"),
        Field("count", INT, "elements in a row of the results, 0 <= count <= columns"),
        Field("kind", INT, "PPLCONV_REDUCE_MAX or PPLCONV_REDUCE_MIN"),
    ),
)

SUPPRESS = Contract(
    "suppress",
    "takes boxes in their order, at most `most` of them, and leaves out a box that overlaps one "
    "taken before by more than threshold[0]: their intersection over their union. Boxes without "
    "an area overlap none. places[j] = the number of the j-th box taken, and found[0] = how many "
    "there are",
    (
        Field("boxes", CONST_POINTER, "float [4][count]: y and x of one corner, of the larger one"),
        Field("count", INT, "boxes, >= 0"),
        Field("most", INT, "boxes to take, 0 <= most <= count"),
        Field("threshold", CONST_POINTER, "one float"),
        Field("taken", POINTER, "scratch: float [5][taken_rs bytes]"),
        Field("taken_rs", INT, "taken: from one row to the next, with room for `most` elements, "
                               "and for whole vectors of 64 bytes"),
        Field("places", POINTER, "int64_t [most]"),
        Field("found", POINTER, "int64_t [1]"),
    ),
)  # fmt: skip

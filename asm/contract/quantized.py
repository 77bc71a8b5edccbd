"""Argument structs of the operations on quantized arrays besides products."""

from __future__ import annotations

from asm.contract.fields import CONST_POINTER, INT, POINTER, Contract, Field

REQUANTIZE = Contract(
    "requantize",
    "rows of int32 sums to the type of an array, in these steps: add the offset, exactly; convert "
    "to float and multiply by the scale; add the residual; apply the gate; clip to low and high; "
    "round to an integer, ties to even; add zero and saturate; look up in the table. Each step in "
    "float32 rounds once, none is fused. Kernels of s32 only add the offset; kernels of f32 do not "
    "round to integers, add zero or read a table. With a gate there is no residual, and products "
    "of sums and scales are finite",
    (
        Field("src", CONST_POINTER, "rows of int32"),
        Field("src_rs", INT, "src: from one row to the next"),
        Field("dst", POINTER, "rows of the kernel's type"),
        Field("dst_rs", INT, "dst: from one row to the next"),
        Field("rows", INT, "rows, >= 0"),
        Field("columns", INT, "elements in a row, >= 0"),
        Field("offset", CONST_POINTER, "int32 by BIAS_ROW or BIAS_COLUMN, one of which is set"),
        Field("scale", CONST_POINTER, "float like offset; s32 kernels do not read it"),
        Field("residual", CONST_POINTER, "rows of the kernel's type, by RESIDUAL; not for s32"),
        Field("residual_rs", INT, "residual: from one row to the next"),
        Field("parameters", CONST_POINTER, "struct pplconv_quantization"),
        Field("flags", INT, "BIAS_ROW or BIAS_COLUMN, for offset and scale; RESIDUAL"),
    ),
)

QUANTIZE = Contract(
    "quantize",
    "rows of float to the kernel's type: x / scale, rounded to an integer, ties to even, plus "
    "zero, saturated. The quotient is float32's own, as ONNX defines it. NaN becomes the least "
    "number",
    (
        Field("src", CONST_POINTER, "rows of float"),
        Field("src_rs", INT, "src: from one row to the next"),
        Field("dst", POINTER, "rows of the kernel's type"),
        Field("dst_rs", INT, "dst: from one row to the next"),
        Field("rows", INT, "rows, >= 0"),
        Field("columns", INT, "elements in a row, >= 0"),
        Field("scale", CONST_POINTER, "float > 0, finite: by BIAS_ROW or BIAS_COLUMN, else one"),
        Field("zero", CONST_POINTER, "int32 like scale, within the range of the kernel's type"),
        Field("flags", INT, "BIAS_ROW, BIAS_COLUMN or none, for scale and zero"),
    ),
)

DEQUANTIZE = Contract(
    "dequantize",
    "rows of the kernel's type to float: (q - zero) * scale; the difference is exact in int32, its "
    "conversion and the product are rounded to float32",
    (
        Field("src", CONST_POINTER, "rows of the kernel's type"),
        Field("src_rs", INT, "src: from one row to the next"),
        Field("dst", POINTER, "rows of float"),
        Field("dst_rs", INT, "dst: from one row to the next"),
        Field("rows", INT, "rows, >= 0"),
        Field("columns", INT, "elements in a row, >= 0"),
        Field("scale", CONST_POINTER, "float by BIAS_ROW or BIAS_COLUMN, else one"),
        Field("zero", CONST_POINTER, "int32 like scale"),
        Field("flags", INT, "BIAS_ROW, BIAS_COLUMN or none, for scale and zero"),
    ),
)

RESCALE = Contract(
    "rescale",
    "rows to the kernel's type: src times factor, plus addend, between low and high, divided by "
    "scale, rounded and stored as `quantize` does. What is none is left out. Each step in float32 "
    "rounds once, none is fused; bytes are read as `dequantize` reads them",
    (
        Field("src", CONST_POINTER, "rows of float, or of the kernel's type"),
        Field("src_rs", INT, "src: from one row to the next"),
        Field("src_kind", INT, "PPLCONV_OPERAND_COLUMNS or _BYTES"),
        Field("src_numbers", CONST_POINTER, "of bytes: a float scale, then an int32 zero"),
        Field("factor", CONST_POINTER, "floats, or integers of the kernel's type"),
        Field("factor_rs", INT, "factor: from one row to the next"),
        Field("factor_kind", INT, "PPLCONV_OPERAND_*"),
        Field("factor_numbers", CONST_POINTER, "like src_numbers"),
        Field("addend", CONST_POINTER, "floats, or integers of the kernel's type"),
        Field("addend_rs", INT, "addend: from one row to the next"),
        Field("addend_kind", INT, "PPLCONV_OPERAND_*"),
        Field("addend_numbers", CONST_POINTER, "like src_numbers"),
        Field("low", CONST_POINTER, "float, by CLIP"),
        Field("high", CONST_POINTER, "float, by CLIP"),
        Field("dst", POINTER, "rows of the kernel's type"),
        Field("dst_rs", INT, "dst: from one row to the next"),
        Field("rows", INT, "rows, >= 0"),
        Field("columns", INT, "elements in a row, >= 0"),
        Field("scale", CONST_POINTER, "one float > 0, finite"),
        Field("zero", CONST_POINTER, "one int32 within the range of the kernel's type"),
        Field("flags", INT, "CLIP or none"),
    ),
)

SUM_BYTES = Contract(
    "sum_bytes",
    "dst[j] = sum of src[i, j] over 0 <= i < rows, for 0 <= j < columns, modulo 2**32",
    (
        Field("src", CONST_POINTER, "rows of the kernel's type"),
        Field("src_rs", INT, "src: from one row to the next"),
        Field("dst", POINTER, "columns contiguous int32"),
        Field("rows", INT, "rows, >= 1"),
        Field("columns", INT, "elements in a row, >= 0"),
    ),
)

LOOKUP = Contract(
    "lookup",
    "rows of bytes by a table: dst[i, j] = table[src[i, j]] for 0 <= i < rows, 0 <= j < columns",
    (
        Field("src", CONST_POINTER, "rows of bytes, read as uint8"),
        Field("src_rs", INT, "src: from one row to the next"),
        Field("dst", POINTER, "rows of bytes; src itself, or no overlap"),
        Field("dst_rs", INT, "dst: from one row to the next"),
        Field("rows", INT, "rows, >= 0"),
        Field("columns", INT, "elements in a row, >= 0"),
        Field("table", CONST_POINTER, "256 bytes"),
    ),
)

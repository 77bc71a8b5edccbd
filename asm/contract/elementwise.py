"""Argument structs of operations that change an array element by element."""

from __future__ import annotations

from asm.contract.fields import CONST_POINTER, INT, POINTER, Contract, Field

ELEMENTWISE = Contract(
    "elementwise",
    "a program for every element: registers hold those of the inputs, instructions compute others "
    "from them, outputs are stored; for 0 <= i < rows, 0 <= j < columns. An output may be an input "
    "that lies in the same way, or apart from all inputs",
    (
        Field("inputs", CONST_POINTER, "struct pplconv_stream, by number"),
        Field("input_count", INT, "inputs, >= 0"),
        Field("code", CONST_POINTER, "struct pplconv_instruction, in their order"),
        Field("code_count", INT, "instructions, >= 0"),
        Field("outputs", CONST_POINTER, "struct pplconv_stream with a step of 1"),
        Field("output_count", INT, "outputs, >= 1"),
        Field("rows", INT, "rows, >= 0"),
        Field("columns", INT, "elements of a row, >= 0"),
    ),
)

# The same arguments as `elementwise`: nearly all programs that follow the store of a tile are
# curves.
CURVE = Contract(
    "curve",
    "an elementwise program of one instruction in place, one of PPLCONV_CURVE_*, of the first "
    "input, which is the output. The second is SLOPE's b: one element for all, or one for each row "
    "or each column, one behind the other",
    ELEMENTWISE.fields,
)

ZERO_LANES = Contract(
    "zero_lanes",
    "dst[i, c] = 0 for 0 <= i < pixels, 0 <= c < lanes: channels that a blocked array lacks",
    (
        Field("dst", POINTER, "first element of the first pixel"),
        Field("dst_ps", INT, "from one pixel to the next"),
        Field("pixels", INT, "pixels, >= 1"),
        Field("lanes", INT, "elements of each pixel, >= 1"),
    ),
)

ROUND_SUMS = Contract(
    "round_sums",
    "sums to integers, at least low and at most high, for 0 <= i < count. Without a divisor, "
    "dst[i] is src[i] rounded, ties to even; it is open where what lies within the error of "
    "src[i] has several such integers, or src[i] is NaN. With one, src[i] is an integer, exact, "
    "and dst[i] is src[i] / divisor rounded; half way, it is away from zero for a direction "
    "of 1, towards zero for -1, even for 2, and open for 0. If there are rows, what is open "
    "is computed once more: the sum of the window of rows x columns elements that begins at "
    "pixels[i], times taps, in double, with an error of its own. Without a divisor it is "
    "rounded as src[i] was, and i is open where it has several integers again; with one it says "
    "by its sign which neighbour it is, the even one if sum and error are zero, and i is open "
    "where it is within its error. Digits, if there are any, say which neighbour that is: their "
    "sums, exact in double, add up to the distance from half way, or differ from it by a multiple "
    "of the last one's modulus, which is more than four times as large. What is open in the end is "
    "listed, and dst[i] is low, or the lower neighbour",
    (
        Field("src", CONST_POINTER, "sums, one after the other"),
        Field("dst", POINTER, "integers, one after the other, apart from src"),
        Field("count", INT, "sums, >= 0"),
        Field("size", INT, "bytes of an integer, 1, 2 or 4: its lowest ones"),
        Field(
            "parameters",
            CONST_POINTER,
            "five elements: error >= 0; low and high, integers of a magnitude of at most 65536, in "
            "double 2**31; an integer below 2**18, in double 2**47, as divisor, or 0, whose "
            "magnitude is less than 2**24, in double 2**53, when added to that of any sum; the "
            "direction",
        ),
        Field("open", POINTER, "int64_t [count], of which as many are written as are open"),
        Field("open_count", POINTER, "one int64_t"),
        Field("pixels", CONST_POINTER, "first elements of windows; not read without rows"),
        Field("pixels_rs", INT, "pixels: from one row of a window to the next"),
        Field("step", INT, "elements from one column of a window to the next"),
        Field("rows", INT, "of a window, >= 0"),
        Field("columns", INT, "of a window, >= 0"),
        Field(
            "again",
            CONST_POINTER,
            "double: the error, how many digits, taps [rows][columns]; for each digit, the lowest "
            "first, its modulus, a power of two, and taps, whole multiples of the modulus before",
        ),
    ),
)

EXACT_SUMS = Contract(
    "exact_sums",
    "for each result of a list, the exact sum of the window of rows x columns elements that begins "
    "at its place in src, integers of a magnitude of at most 65536, times taps, rounded once, ties "
    "to even, at least low and at most high",
    (
        Field("src", CONST_POINTER, "first elements of windows, as far as the list names them"),
        Field("src_rs", INT, "src: from one row to the next"),
        Field("step", INT, "elements from one column of a window to the next"),
        Field("rows", INT, "of a window, >= 1"),
        Field("columns", INT, "of a window, >= 1"),
        Field("taps", CONST_POINTER, "finite double [rows][columns], or [rows] and [columns]"),
        Field("separable", INT, "whether taps are products of a column and a row"),
        Field("low", INT, "the least result, of a magnitude of at most 2**31"),
        Field("high", INT, "the largest result"),
        Field("dst", POINTER, "integers, apart from src"),
        Field("dst_rs", INT, "dst: from one row to the next"),
        Field("size", INT, "bytes of an integer, 1, 2 or 4: its lowest ones"),
        Field(
            "open",
            CONST_POINTER,
            "int64_t [count]: column * pitch + row of each result; ascending, if separable",
        ),
        Field("count", INT, "results, >= 0"),
        Field("pitch", INT, "more than any row"),
        Field("scratch", POINTER, "int64_t [rows * PPLCONV_EXACT_LIMBS], if separable"),
    ),
)

READ_PIXELS = Contract(
    "read_pixels",
    "pixels as numbers: dst[i] = src[i] for 0 <= i < count; double is rounded to float",
    (
        Field("src", CONST_POINTER, "pixels, one after the other"),
        Field("dst", POINTER, "elements, one after the other, apart from src"),
        Field("count", INT, "pixels, >= 0"),
        Field("kind", INT, "PPLCONV_PIXELS_*"),
    ),
)

CONVERT_IN = Contract(
    "convert_in",
    "arrays of the storage type to the compute type: dst[i, j] = src[i, j] for 0 <= i < rows, "
    "0 <= j < columns. float to half or bfloat16 is rounded to the nearest, ties to even; between "
    "u8 and s8, in place too, 128 is added or taken away; bytes become s16 of the same value. With "
    "ACCUMULATE, between float and half alone, it is added to what dst holds",
    (
        Field("src", CONST_POINTER, "rows of the storage type"),
        Field("src_rs", INT, "src: from one row to the next"),
        Field("dst", POINTER, "rows of the compute type"),
        Field("dst_rs", INT, "dst: from one row to the next"),
        Field("rows", INT, "rows, >= 0"),
        Field("columns", INT, "elements in a row, >= 0"),
        Field("flags", INT, "PPLCONV_ACCUMULATE or none"),
    ),
)

CONVERT_OUT = Contract(
    "convert_out",
    "what was computed to arrays of the storage type, between float and half or bfloat16, rounded "
    "to the nearest, ties to even: dst[i, j] = epilogue(src[i, j]) for 0 <= i < rows, "
    "0 <= j < columns, and zero for columns <= j < fill",
    (
        Field("src", CONST_POINTER, "rows of the compute type"),
        Field("src_rs", INT, "src: from one row to the next"),
        Field("dst", POINTER, "rows of the storage type"),
        Field("dst_rs", INT, "dst: from one row to the next"),
        Field("rows", INT, "rows, >= 0"),
        Field("columns", INT, "elements in a row of src, >= 0"),
        Field("fill", INT, "elements written of each row; none beyond columns if it is less"),
        Field("residual", CONST_POINTER, "rows like those of dst, by flag"),
        Field("residual_rs", INT, "residual: from one row to the next"),
        Field("clip", CONST_POINTER, "two elements, low and high, by flag"),
        Field("flags", INT, "PPLCONV_* bits"),
    ),
)

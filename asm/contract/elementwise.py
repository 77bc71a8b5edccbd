"""Argument structs of operations that change an array element by element."""

from __future__ import annotations

from asm.contract.fields import CONST_POINTER, INT, POINTER, Contract, Field

ELEMENTWISE = Contract(
    "elementwise",
    "a program for every element (i, j), 0 <= i < rows, 0 <= j < columns: registers are loaded "
    "from the inputs, instructions compute others from them, outputs are stored. An output may be "
    "an input with the same strides and type; otherwise it does not overlap any input.",
    (
        Field("inputs", CONST_POINTER, "struct pplconv_stream [input_count]"),
        Field("input_count", INT, "inputs, >= 0"),
        Field("code", CONST_POINTER, "struct pplconv_instruction [code_count], in order"),
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
    "an elementwise program of one instruction, one of PPLCONV_CURVE_*, on the first input, in "
    "place. The second input is SLOPE's b: one element, or contiguous elements for each row or for "
    "each column. All streams have the registers' type",
    ELEMENTWISE.fields,
)

ZERO_LANES = Contract(
    "zero_lanes",
    "dst[i, c] = 0 for 0 <= i < pixels, 0 <= c < lanes: padding lanes of a blocked array",
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
    "dst[i] is src[i] rounded, ties to even; the result is open if numbers within the error of "
    "src[i] round to different integers, or if src[i] is NaN. With a divisor, src[i] is an exact "
    "integer and dst[i] is src[i] / divisor rounded; a tie goes away from zero for direction 1, "
    "towards zero for -1, to even for 2, and is open for 0. If rows > 0, open results are computed "
    "once more: the sum of the window of rows x columns elements that begins at pixels[i], times "
    "taps, in double, with an error of its own. Without a divisor this sum is rounded as src[i] "
    "was, and i stays open if several integers are possible; with one, its sign selects the "
    "neighbour (the even one if sum and error are zero), and i stays open if the sum is within its "
    "error. Digits, if there are any, then select the neighbour: their sums, exact in double, add "
    "up to the distance from half way, modulo the last digit's modulus, which is more than four "
    "times as large. Results that are still open are listed, and dst[i] is low, or the lower "
    "neighbour",
    (
        Field("src", CONST_POINTER, "sums, one after the other"),
        Field("dst", POINTER, "integers, one after the other, apart from src"),
        Field("count", INT, "sums, >= 0"),
        Field("size", INT, "bytes of an integer, 1, 2 or 4: its lowest ones"),
        Field(
            "parameters",
            CONST_POINTER,
            "five elements: error >= 0; low and high, integers of magnitude <= 65536 (in double "
            "2**31); the divisor, an integer < 2**18 (in double 2**47), or 0 for none, where "
            "divisor + |sum| < 2**24 (in double 2**53) for all sums; the direction",
        ),
        Field("open", POINTER, "int64_t [count]: becomes the indices of open results"),
        Field("open_count", POINTER, "one int64_t"),
        Field("pixels", CONST_POINTER, "first elements of windows; not read without rows"),
        Field("pixels_rs", INT, "pixels: from one row of a window to the next"),
        Field("step", INT, "elements from one column of a window to the next"),
        Field("rows", INT, "of a window, >= 0"),
        Field("columns", INT, "of a window, >= 0"),
        Field(
            "again",
            CONST_POINTER,
            "double: the error, the number of digits, taps [rows][columns]; then each digit, the "
            "lowest first: its modulus, a power of two, and its taps, multiples of the previous "
            "modulus",
        ),
    ),
)

EXACT_SUMS = Contract(
    "exact_sums",
    "for each result of a list, the exact sum of the window of rows x columns elements that begins "
    "at its place in src, integers of magnitude <= 65536, times taps, rounded once, ties to even, "
    "at least low and at most high",
    (
        Field("src", CONST_POINTER, "image; only windows of the list's results are read"),
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
        Field("pitch", INT, "factor of the column in `open`, larger than any row"),
        Field("scratch", POINTER, "int64_t [rows * PPLCONV_EXACT_LIMBS], if separable"),
    ),
)

FILTER_ROW = Contract(
    "filter_row",
    "integers of an exact filter: s[i] = the sum over t of weights[t] * x[i], where x is at src + "
    "places[t], modulo 2^16, for 0 <= i < count. dst[i] is s[i] for KEPT; for SIGNED and UNSIGNED, "
    "(s[i] + add + e) >> shift, where e is bit `shift` of s[i] if shift > 0, else 0; for DIVIDED, "
    "(s[i] + add) * factor >> 16 >> shift; all but KEPT at most high, and SIGNED at least low. No "
    "sum with its addends exceeds 16 bits",
    (
        Field(
            "src",
            CONST_POINTER,
            "bytes, or integers of 16 bits; where results are fewer than a vector of 16-bit "
            "integers, these can be read for as many",
        ),
        Field("dst", POINTER, "integers of `size` bytes, apart from src"),
        Field("places", CONST_POINTER, "taps int64_t: bytes from src to the first element of each"),
        Field("weights", CONST_POINTER, "taps uint16_t, modulo 2^16; NULL for ones"),
        Field("taps", INT, "taps, >= 1"),
        Field("count", INT, "results, >= 1"),
        Field("kind", INT, "bytes of an element of src, 1 or 2"),
        Field("size", INT, "bytes of a result, 1 or 2; 2 for KEPT"),
        Field("mode", INT, "PPLCONV_SUMS_*"),
        Field("add", INT, "0 <= add < 2^16"),
        Field("factor", INT, "0 <= factor < 2^16"),
        Field("shift", INT, "0 <= shift < 16"),
        Field("low", INT, "least result"),
        Field("high", INT, "largest result"),
    ),
)

FILTER_SQUARES = Contract(
    "filter_squares",
    "filters of bytes that are a row times a column, several rows at a time: s[y, i] = the sum "
    "over 0 <= r, k < side of weights[side + r] * weights[k] * byte i + k * step of row y + r, "
    "modulo 2^16, for 0 <= y < rows and 0 <= i < count. dst[y, i] is made of s[y, i] as by "
    "`filter_row`, for UNSIGNED and DIVIDED. No sum with its addends exceeds 16 bits, and no "
    "result 8 bits",
    (
        Field(
            "src", CONST_POINTER, "rows + side - 1 addresses of rows of count + (side - 1) * step"
        ),
        Field("dst", POINTER, "bytes, apart from the rows"),
        Field("dst_rs", INT, "dst: from one row to the next"),
        Field("weights", CONST_POINTER, "2 * side uint16_t, modulo 2^16; NULL for ones"),
        Field("rows", INT, "rows of results, >= 1"),
        Field("count", INT, "results of a row, >= 64"),
        Field("step", INT, "bytes from one pixel to the next, >= 1"),
        Field("side", INT, "rows and columns of the filter: 3, or 5 without weights"),
        Field("mode", INT, "PPLCONV_SUMS_UNSIGNED or PPLCONV_SUMS_DIVIDED"),
        Field("add", INT, "0 <= add < 2^16"),
        Field("factor", INT, "0 <= factor < 2^16"),
        Field("shift", INT, "0 <= shift < 16"),
    ),
)


def _as_squares(*fields: Field) -> tuple[Field, ...]:
    """Give the fields of `filter_squares`, some described anew: the same loops call all kernels."""
    anew = {field.name: field for field in fields}
    return tuple(anew.get(field.name, field) for field in FILTER_SQUARES.fields)


FILTER_MEANS = Contract(
    "filter_means",
    "means of squares of pixels of 16 bits or 8, several rows at a time: dst[y, i] = factor times "
    "the sum over 0 <= r, k < side of number i + k * step / size of row y + r, rounded half to "
    "even from the exact product, for 0 <= y < rows, 0 <= i < count / size. No result exceeds a "
    "pixel",
    _as_squares(
        Field(
            "src",
            CONST_POINTER,
            "rows + side - 1 addresses of rows of count + (side - 1) * step bytes",
        ),
        Field("dst", POINTER, "of the type of the pixels, apart from the rows"),
        Field(
            "weights",
            CONST_POINTER,
            "one double, the factor, >= 0; a float for bytes and for sides up to 16",
        ),
        Field("count", INT, "bytes of a row of results, >= 64, whole numbers"),
        Field("step", INT, "bytes from one pixel to the next, >= 1, whole numbers"),
        Field(
            "side",
            INT,
            "rows and columns of the filter, 3 to 32, of bytes 6 to 32; (side - 1) * step is at "
            "most PPLCONV_MEANS_BESIDE numbers",
        ),
        Field(
            "mode",
            INT,
            "PPLCONV_SUMS_UNSIGNED; or PPLCONV_SUMS_SIGNED: 2^15 is added to pixels, which are "
            "signed, and taken from results",
        ),
        Field("add", INT, "not read"),
        Field("factor", INT, "not read"),
        Field("shift", INT, "not read"),
    ),
)

FILTER_MIRRORED = Contract(
    "filter_mirrored",
    "filters of bytes whose rows and columns are mirrored, several rows at a time: s[y, i] = the "
    "sum over 0 <= r, k < side of w[abs(r - m), abs(k - m)] * byte i + k * step of row y + r, with "
    "m = (side - 1) / 2, for 0 <= y < rows and 0 <= i < count. dst[y, i] is s[y, i] rounded; no "
    "s[y, i] is below 0, or rounded above 255. A block of results is listed where one of its sums "
    "is within 2^-15 of half way, or half way: its results may be wrong",
    (
        *_as_squares(
            Field(
                "weights",
                CONST_POINTER,
                "int16_t: high digits, then low ones, of a pair of weights each: w = (high + low / "
                "2^15) / 2^16, 0 <= high, abs(low) <= 2^14. side 3: w[0, 0], w[0, 1]; w[1, 0], "
                "w[1, 1]. side 5, where w[r, k] = w[k, r]: w[0, 0], w[0, 1]; w[1, 1], w[0, 2]; "
                "w[1, 2], w[2, 2]",
            ),
            Field("side", INT, "rows and columns of the filter: 3 or 5"),
        ),
        Field(
            "open",
            POINTER,
            "int64_t: becomes y * count + i of each listed block, which begins "
            "with result i of row y; a vector of 16-bit integers each, and one more a row",
        ),
        Field("open_count", POINTER, "one int64_t"),
    ),
)

FILTER_FLOATS = Contract(
    "filter_floats",
    "sums of a filter for some rows of results: dst[l][i] = the sum over r and t of "
    "weights[r * across + t] * x[i], in the order of r and then of t, where x is at "
    "rows[l + r] + places[t], for 0 <= l < lines and 0 <= i < count. With down, it is the sum over "
    "r of down[r] times the sum over t of weights[t] * x[i]",
    (
        Field("rows", CONST_POINTER, "lines + tap_rows - 1 pointers to rows of elements"),
        Field("dst", POINTER, "rows of elements, apart from what is read"),
        Field("dst_rs", INT, "bytes from row to row of dst"),
        Field("places", CONST_POINTER, "across int64_t: bytes from a row to each tap's first one"),
        Field("weights", CONST_POINTER, "tap_rows * across elements; with down, across"),
        Field("down", CONST_POINTER, "tap_rows elements, or NULL; fast for 3x3 and 5x5 floats"),
        Field("lines", INT, "rows of results, >= 1; four or more share what they load"),
        Field("tap_rows", INT, "rows of taps, >= 1"),
        Field("across", INT, "taps of a row, >= 1"),
        Field("count", INT, "results of a row, >= 1"),
        Field("stream", INT, "whether caches may be passed by: results are not read soon"),
    ),
)

FILTER_STRIPS = Contract(
    "filter_strips",
    "sums of a square filter for some rows of results, with what is outside an image's rows: "
    "dst[l][i] = the sum over 0 <= r, t < side of weights[r * side + t] * x, in the order of r and "
    "then of t, where x is number i + t * step - left of row l + r, for 0 <= l < lines and 0 <= i "
    "< count. With down, it is the sum over r of down[r] times the sum over t of weights[t] * x",
    (
        Field("rows", CONST_POINTER, "lines + side - 1 pointers to number 0 of rows of elements"),
        Field("dst", POINTER, "rows of elements, apart from what is read"),
        Field("dst_rs", INT, "bytes from row to row of dst"),
        Field("weights", CONST_POINTER, "side * side elements; with down, side"),
        Field("down", CONST_POINTER, "side elements, or NULL"),
        Field(
            "border",
            CONST_POINTER,
            "int64_t for each pixel that is seen before number 0, and "
            "then for each that is seen from `numbers` on: the number that stands for its first; "
            "or NULL, where `value` stands for all numbers outside",
        ),
        Field("value", CONST_POINTER, "one element"),
        Field("lines", INT, "rows of results, >= 1"),
        Field("side", INT, "rows and columns of the filter: 3 or 5"),
        Field("step", INT, "numbers of a pixel, >= 1; side - 1 pixels are at most a vector"),
        Field("left", INT, "numbers of pixels before number 0, 0 <= left <= (side - 1) * step"),
        Field("numbers", INT, "numbers of a row, >= 1"),
        Field("count", INT, "results of a row, >= 1, <= left + numbers"),
        Field("far", INT, "whether rows of the image lie beyond L2"),
        Field(
            "moves",
            INT,
            "whether AVX-512 moves vectors of grey pixels from tap to tap",
        ),
        Field("stream", INT, "whether caches may be passed by: results are not read soon"),
    ),
)

BOX_COLUMNS = Contract(
    "box_columns",
    "sums of columns whose taps are equal: dst[l][i] = the sum over 0 <= r < taps of weight * "
    "rows[l + r][i], for 0 <= l < lines and 0 <= i < count. Results of a block share sums: the one "
    "k rows behind the first of its block is the sum, from the last on, of its first taps - k "
    "terms, plus the sum of the others",
    (
        Field("rows", CONST_POINTER, "lines + taps - 1 pointers to rows of elements"),
        Field("dst", POINTER, "rows of elements, apart from what is read"),
        Field("dst_rs", INT, "bytes from row to row of dst, whole elements"),
        Field("weight", CONST_POINTER, "one element"),
        Field("lines", INT, "rows of results, >= 1"),
        Field("taps", INT, "rows that a sum sees, >= 1"),
        Field("block", INT, "rows of results of a block, 1 <= block <= taps"),
        Field("past", INT, "rows of the first block that are before the first row, < block"),
        Field("count", INT, "results of a row, >= 1"),
    ),
)

BOX_ROWS = Contract(
    "box_rows",
    "sums along rows whose taps are equal: dst[l][i] = the sum over 0 <= t < taps of weight * "
    "src[l][i + t], for 0 <= l < lines and 0 <= i < count, by way of sums of 2, 4, 8 and 16",
    (
        Field(
            "src",
            CONST_POINTER,
            "rows of elements, which can be read beyond count + taps up to six vectors",
        ),
        Field("src_rs", INT, "bytes from row to row of src"),
        Field("dst", POINTER, "rows of elements, apart from src"),
        Field("dst_rs", INT, "bytes from row to row of dst"),
        Field("weight", CONST_POINTER, "one element"),
        Field("lines", INT, "rows, >= 1"),
        Field("taps", INT, "elements that a sum sees, 1 <= taps <= PPLCONV_BOX_TAPS"),
        Field("count", INT, "results of a row, >= 1"),
        Field("stream", INT, "whether caches may be passed by: results are not read soon"),
    ),
)

NEAR_ROWS = Contract(
    "near_rows",
    "sums along rows whose taps are equal: dst[l][i] = the sum over 0 <= t < taps of weight * "
    "src[l][i + t * step], for 0 <= l < lines and 0 <= i < count, by way of sums of neighbours",
    (
        Field(
            "src",
            CONST_POINTER,
            "rows of elements, which can be read beyond count + (taps - 1) * step up to six "
            "vectors",
        ),
        Field("src_rs", INT, "bytes from row to row of src"),
        Field("dst", POINTER, "rows of elements, apart from src"),
        Field("dst_rs", INT, "bytes from row to row of dst"),
        Field(
            "near",
            POINTER,
            "scratch of count + (taps - neighbours) * step elements and six vectors; read and "
            "written if there are neighbours",
        ),
        Field("weight", CONST_POINTER, "one element"),
        Field("lines", INT, "rows, >= 1"),
        Field("taps", INT, "elements that a sum sees, >= 1"),
        Field("step", INT, "elements from one to the next of these, >= 1"),
        Field("neighbours", INT, "elements that are summed up first, or 0; <= taps"),
        Field("count", INT, "results of a row, >= 1"),
        Field("stream", INT, "whether caches may be passed by: results are not read soon"),
    ),
)

PIXEL_COLUMNS = Contract(
    "pixel_columns",
    "sums of columns of pixels, which are integers, in PPLCONV_PIXEL_LINES rows: dst[l][i] = the "
    "sum over r of weights[r] * rows[l + r][i], in the order of r, for 0 <= i < count",
    (
        Field("rows", CONST_POINTER, "PPLCONV_PIXEL_LINES + taps - 1 pointers to rows of pixels"),
        Field("kind", INT, "PPLCONV_PIXELS_U8, _U16 or _S16"),
        Field("dst", POINTER, "rows of elements, apart from what is read"),
        Field("dst_rs", INT, "bytes from row to row of dst"),
        Field("weights", CONST_POINTER, "taps elements"),
        Field("taps", INT, "rows that a sum sees, >= 1"),
        Field("count", INT, "pixels of a row, >= 1"),
    ),
)

WHOLE_SUMS = Contract(
    "whole_sums",
    "sums along rows, rounded to integers: s[i] = the sum over t of weights[t] * x[i], in the "
    "order of t, where x is at src + places[t], for 0 <= i < count, in each of some rows. dst[i] "
    "is s[i] rounded, ties to even, then saturated. Numbers of results are listed where a block "
    "begins with a distance abs(s[i] - dst[i]), before saturation, above `near`",
    (
        Field(
            "src",
            CONST_POINTER,
            "rows of elements, which can be read beyond `count` up to four vectors",
        ),
        Field("src_rs", INT, "src: from one row to the next"),
        Field("places", CONST_POINTER, "taps int64_t: bytes from src to the first element of each"),
        Field("weights", CONST_POINTER, "taps elements"),
        Field("taps", INT, "taps, >= 1"),
        Field("dst", POINTER, "integers, apart from src"),
        Field("dst_rs", INT, "dst: from one row to the next"),
        Field("kind", INT, "PPLCONV_PIXELS_*, of 8 or 16 bits: the type of the integers"),
        Field("lines", INT, "rows, >= 0"),
        Field("count", INT, "results of a row, >= 1"),
        Field(
            "parameters",
            CONST_POINTER,
            "three elements: near <= 0.5; the least and the largest integer of this type. The "
            "magnitude of sums is < 2^22 in float, < 2^31 in double",
        ),
        Field(
            "open",
            POINTER,
            "int64_t: becomes line * count + i for each listed block, which begins with result i "
            "of a row, in this order: one for four vectors of results, and one more for each row",
        ),
        Field("open_count", POINTER, "one int64_t"),
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
    "u8 and s8, also in place, 128 is added or subtracted; bytes become s16 of the same value. "
    "With ACCUMULATE, between float and half and from bfloat16 to float, the values are added to "
    "dst",
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
    "results of the compute type to the storage type, between float and half or bfloat16, rounded "
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

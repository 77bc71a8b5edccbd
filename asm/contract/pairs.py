"""Argument structs of filters of integers whose pixels are multiplied in pairs."""

from __future__ import annotations

from asm.contract.fields import CONST_POINTER, INT, POINTER, Contract, Field

PAIR_PIXELS = Contract(
    "pair_pixels",
    "numbers of 16 bits of a row of pixels in pairs: dst[2 * c + s] = src[s * channels + c] for "
    "each channel c and s = 0, 1, and so on for the next 2 * channels numbers, for all numbers of "
    "src. With `back`, src has the pairs, and dst becomes the pixels",
    (
        Field("src", CONST_POINTER, "count numbers; with `back`, whole pairs of pixels"),
        Field("dst", POINTER, "apart from src; without `back`, with room for whole pairs"),
        Field("count", INT, "numbers of the pixels, a multiple of channels, >= channels"),
        Field("channels", INT, "1 <= channels <= PPLCONV_PAIR_CHANNELS"),
        Field("back", INT, "whether pairs become pixels"),
    ),
)

PAIR_ROWS = Contract(
    "pair_rows",
    "two rows of bytes as pairs of 16-bit integers: dst[2 * i] = first[i] and dst[2 * i + 1] = "
    "second[i] for 0 <= i < count",
    (
        Field("first", CONST_POINTER, "count bytes"),
        Field("second", CONST_POINTER, "count bytes"),
        Field("dst", POINTER, "2 * count numbers of 16 bits, apart from the rows"),
        Field("count", INT, "bytes, >= 0"),
    ),
)

PAIR_SUMS = Contract(
    "pair_sums",
    "a row of a filter of 16-bit integers, which lie in pairs: result 2 * i + s is the sum over "
    "0 <= r < tap_rows, 0 <= k < pairs and e = 0, 1 of w[r, k, s, e] * x, rounded, where x is "
    "number 2 * i + e of what lies k * step bytes behind rows[r]; for all results below count. "
    "With flip, numbers x are 2^15 less, and so are results; they are saturated. With `second`, "
    "results are bytes of two rows: dst[i] of 2 * i, and second[i] of 2 * i + 1. The sum is made "
    "of two digits first: (start + the sum of high * x + (2^(shift - 1) + the sum of low * x) >> "
    "shift of each `together` rows) >> fraction, modulo 2^32. Where the fraction is at most twice "
    "`near`, it is made again: (fine start + the sum of fine weights * x) >> fine fraction. A "
    "vector of results is listed where this fraction is within `fine near` of 0 or one: its "
    "results may be wrong",
    (
        Field(
            "rows",
            CONST_POINTER,
            "tap_rows addresses of rows of numbers, which can be read up to a vector of results "
            "beyond what the last one sees",
        ),
        Field("tap_rows", INT, "rows of weights, >= 1"),
        Field("pairs", INT, "pairs of weights of a row, >= 1"),
        Field("step", INT, "bytes from a pair to the next one of a channel, a multiple of 4"),
        Field("weights", CONST_POINTER, "int16_t [tap_rows][pairs][2: high, low][2: s][2: e]"),
        Field("fine", CONST_POINTER, "int64_t [tap_rows][pairs][2: s][2: e]"),
        Field(
            "parameters",
            CONST_POINTER,
            "nine int64_t: fraction, shift, start, near and together of two digits, 1 <= shift <= "
            "16, 1 <= fraction <= 16 and 1 <= together; fraction, start and near of fine weights; "
            "flip, 0 or 2^15",
        ),
        Field("dst", POINTER, "numbers of 16 bits or bytes, apart from the rows"),
        Field("second", POINTER, "bytes, apart from the others; or NULL"),
        Field("count", INT, "results, >= 1; of bytes, a multiple of 2"),
        Field(
            "open",
            POINTER,
            "int64_t: becomes the number of the first result of each listed vector, in this order, "
            "of at most PPLCONV_PAIR_RESULTS results",
        ),
        Field("open_count", POINTER, "one int64_t"),
    ),
)

PAIR_ROW_SUMS = Contract(
    "pair_row_sums",
    "sums along a row of 16-bit integers: of number i and what lies k * step bytes behind it, "
    "x[k], the sum of high[k] * x[k] over 0 <= k < 2 * pairs, and of (2^(shift - 1) + the sum of "
    "low[k] * x[k]) >> shift of each `together` pairs, modulo 2^32. With flip, numbers x are 2^15 "
    "less. Of each 16 bytes of numbers, a vector has the sums of the first half, and the next "
    "vector those of the second half; in whole blocks of up to PPLCONV_PAIR_BLOCK results",
    (
        Field(
            "src",
            CONST_POINTER,
            "numbers, which can be read up to a block of results beyond what the last one sees",
        ),
        Field("pairs", INT, "pairs of weights, >= 1"),
        Field("step", INT, "bytes from a number to the next one of a channel, a multiple of 2"),
        Field("weights", CONST_POINTER, "int16_t [pairs][2: high, low][2]"),
        Field(
            "parameters",
            CONST_POINTER,
            "three int64_t: 1 <= shift <= 16, together >= 1, flip, 0 or 2^15",
        ),
        Field("dst", POINTER, "int32_t, whole blocks, apart from src"),
        Field("count", INT, "results, >= 1"),
    ),
)

PAIR_COLUMN_SUMS = Contract(
    "pair_column_sums",
    "results of columns of sums as pair_row_sums leaves them: with u = first[r] + second[r], "
    "modulo 2^32, and its halves u = high * 2^16 + low + 2^15, (start + the sum of w[r] * high + "
    "(2^(shift - 1) + the sum of c[r] * low + d[r] * high) >> shift) >> fraction, over 0 <= r < "
    "taps, modulo 2^32 and saturated to 16 bits; with flip, 2^15 more. A result is listed where "
    "the fraction is at most twice `near`",
    (
        Field("first", CONST_POINTER, "taps addresses of rows of sums, in whole blocks"),
        Field("second", CONST_POINTER, "taps addresses of rows of sums, in whole blocks"),
        Field("taps", INT, ">= 1"),
        Field("weights", CONST_POINTER, "int16_t [taps][4]: 0, w, c, d"),
        Field(
            "parameters",
            CONST_POINTER,
            "five int64_t: 1 <= fraction <= 16, start, near, 1 <= shift <= 16, flip, 0 or 2^15",
        ),
        Field("dst", POINTER, "numbers of 16 bits, apart from the rows"),
        Field("count", INT, "results, >= 1"),
        Field("open", POINTER, "count int64_t: becomes the number of each listed result"),
        Field("open_count", POINTER, "one int64_t"),
    ),
)

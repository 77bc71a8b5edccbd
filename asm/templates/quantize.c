/* Rows of float to bytes: the quotient by the scale, rounded, plus zero. As in `requantize` the
 * bounds of the type, less zero, are applied before the rounding, so that nothing has to saturate
 * behind it. */
#include "words.h"

/* The bound where x is NaN, which at_least would pass on. */
INLINE vector at_least_number(vector x, vector low) {
#if PPLCONV_VECTOR_BYTES == 64
    return (vector)_mm512_max_ps((__m512)x, (__m512)low);
#elif PPLCONV_VECTOR_BYTES == 32
    return (vector)_mm256_max_ps((__m256)x, (__m256)low);
#else
    return select_lanes(x > low, x, low);
#endif
}

INLINE words quantized(vector x, vector scale, words zero) {
    const vector low = to_float(splat_word(LEAST_STORED) - zero);
    const vector high = to_float(splat_word(MOST_STORED) - zero);
    return rounded(at_most(at_least_number(x / scale, low), high)) + zero;
}

/* Scale and zero of each column, or one for all of the row. */
INLINE void quantize_row(const float *src, stored *dst, const float *scale, const int32_t *zero,
                         int64_t columns, const int by_column) {
    const vector one_scale = by_column ? splat(1) : splat(*scale);
    const words one_zero = by_column ? splat_word(0) : splat_word(*zero);
#define ONE(i, n)                                                                                  \
    quantized(load_vector(src + (i), n), by_column ? load_vector(scale + (i), n) : one_scale,      \
              by_column ? (words)load_vector(zero + (i), n) : one_zero)
    int64_t i = 0;
    for (; i + 4 * LANES <= columns; i += 4 * LANES) {
        words w[4];
        UNROLL for (int v = 0; v < 4; v++)
            w[v] = ONE(i + v * LANES, LANES);
        store_four(dst + i, w);
    }
    for (; i + LANES <= columns; i += LANES) store_stored(dst + i, ONE(i, LANES), LANES);
    if (i < columns) store_stored(dst + i, ONE(i, columns - i), columns - i);
#undef ONE
}

INLINE void quantize(const struct pplconv_quantize_args *a, const int by_column) {
    const int by_row = (a->flags & PPLCONV_BIAS_ROW) != 0;
    for (int64_t r = 0; r < a->rows; r++) {
        quantize_row(AT_CONST(float, a->src, r * a->src_rs), AT(stored, a->dst, r * a->dst_rs),
                     (const float *)a->scale + (by_row ? r : 0),
                     (const int32_t *)a->zero + (by_row ? r : 0), a->columns, by_column);
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_quantize_args *a = argument;
    if (a->flags & PPLCONV_BIAS_COLUMN) {
        quantize(a, 1);
    } else {
        quantize(a, 0);
    }
    clean_registers();
}

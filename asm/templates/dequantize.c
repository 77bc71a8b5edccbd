/* Rows of integers to float: the distance from zero times the scale. */
#include "words.h"

INLINE vector dequantized(words q, vector scale, words zero) { return to_float(q - zero) * scale; }

/* Each column has its own scale and zero, or the whole row shares one pair. */
INLINE void dequantize_row(const stored *src, float *dst, const float *scale, const int32_t *zero,
                           int64_t columns, const int by_column) {
    const vector one_scale = by_column ? splat(1) : splat(float_at(scale));
    const words one_zero = by_column ? splat_word(0) : splat_word(word_at(zero));
#define ONE(i, n)                                                                                  \
    dequantized(load_stored(src + (i), n), by_column ? load_vector(scale + (i), n) : one_scale,    \
                by_column ? (words)load_vector(zero + (i), n) : one_zero)
    int64_t i = 0;
    for (; i + LANES <= columns; i += LANES) store_vector(dst + i, ONE(i, LANES), LANES);
    if (i < columns) store_vector(dst + i, ONE(i, columns - i), columns - i);
#undef ONE
}

INLINE void dequantize(const struct pplconv_dequantize_args *a, const int by_column) {
    const int by_row = (a->flags & PPLCONV_BIAS_ROW) != 0;
    for (int64_t r = 0; r < a->rows; r++) {
        dequantize_row(AT_CONST(stored, a->src, r * a->src_rs), AT(float, a->dst, r * a->dst_rs),
                       (const float *)a->scale + (by_row ? r : 0),
                       (const int32_t *)a->zero + (by_row ? r : 0), a->columns, by_column);
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_dequantize_args *a = argument;
    if (a->flags & PPLCONV_BIAS_COLUMN) {
        dequantize(a, 1);
    } else {
        dequantize(a, 0);
    }
    clean_registers();
}

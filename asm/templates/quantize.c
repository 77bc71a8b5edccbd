/* Rows of float to bytes: the quotient by the scale, rounded, plus zero. As in `requantize`, the
 * bounds of the type, less zero, are applied before the rounding, so that no later step has to
 * saturate. */
#include "quotients.h"

/* Each column has its own scale and zero, or the row shares one pair, whose scale may be
 * moderate. */
INLINE void quantize_row(const float *src, stored *dst, const float *scale, const int32_t *zero,
                         int64_t columns, const int by_column, const int moderate) {
    const struct divisor one =
        by_column ? divisor_of(1, 0) : divisor_of(float_at(scale), word_at(zero));
    const words one_zero = by_column ? splat_word(0) : splat_word(word_at(zero));
#define QUOTIENT(i, n)                                                                             \
    (moderate ? divided(load_vector(src + (i), n), &one)                                           \
              : (vector)(load_vector(src + (i), n) /                                               \
                         (by_column ? load_vector(scale + (i), n) : one.scale)))
#define ONE(i, n)                                                                                  \
    quantized(QUOTIENT(i, n), by_column ? (words)load_vector(zero + (i), n) : one_zero)
    int64_t i = 0;
    for (; i + 4 * LANES <= columns; i += 4 * LANES) {
        if (by_column) {
            words w[4];
            UNROLL for (int v = 0; v < 4; v++)
                w[v] = ONE(i + v * LANES, LANES);
            store_four(dst + i, w);
        } else {
            vector x[4];
            UNROLL for (int v = 0; v < 4; v++)
                x[v] = load_vector(src + i + v * LANES, LANES);
            store_quotients(dst + i, x, &one, one_zero, moderate);
        }
    }
    for (; i + LANES <= columns; i += LANES) store_stored(dst + i, ONE(i, LANES), LANES);
    if (i < columns) store_stored(dst + i, ONE(i, columns - i), columns - i);
#undef ONE
#undef QUOTIENT
}

INLINE void quantize(const struct pplconv_quantize_args *a, const int by_column) {
    const int by_row = (a->flags & PPLCONV_BIAS_ROW) != 0;
    for (int64_t r = 0; r < a->rows; r++) {
        const float *src = AT_CONST(float, a->src, r * a->src_rs);
        stored *dst = AT(stored, a->dst, r * a->dst_rs);
        const float *scale = (const float *)a->scale + (by_row ? r : 0);
        const int32_t *zero = (const int32_t *)a->zero + (by_row ? r : 0);
        if (!by_column && a->columns > 0 && is_moderate(float_at(scale))) {
            quantize_row(src, dst, scale, zero, a->columns, 0, 1);
        } else {
            quantize_row(src, dst, scale, zero, a->columns, by_column, 0);
        }
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

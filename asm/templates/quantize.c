/* Rows of float to bytes: the quotient by the scale, rounded, plus zero. As in `requantize`, the
 * bounds of the type, less zero, are applied before the rounding, so that no later step has to
 * saturate. */
#include "words.h"

/* at_least that returns the bound where x is NaN, instead of passing NaN on. */
INLINE vector at_least_number(vector x, vector low) {
#if PPLCONV_VECTOR_BYTES == 64
    return (vector)_mm512_max_ps((__m512)x, (__m512)low);
#elif PPLCONV_VECTOR_BYTES == 32
    return (vector)_mm256_max_ps((__m256)x, (__m256)low);
#else
    return select_lanes(x > low, x, low);
#endif
}

/* a * b + c, rounded once, where a level has it. */
#if PPLCONV_VECTOR_BYTES == 64
#define FUSED(a, b, c) (vector) _mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#elif PPLCONV_VECTOR_BYTES == 32
#define FUSED(a, b, c) (vector) _mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#elif PPLCONV_NEON && defined(__aarch64__)
#define FUSED(a, b, c) (vector) vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b))
#endif

/* Values shared by all elements of a row with one scale. */
struct divisor {
    vector scale, reciprocal, least, most;
};

/* Whether quotients by this scale may be computed without a division, which takes as long as all
 * the rest together. */
INLINE int is_moderate(float scale) { return scale >= 0x1p-60f && scale <= 0x1p60f; }

INLINE struct divisor divisor_of(float scale, int32_t zero) {
    const float least = (float)(LEAST_STORED - zero - 2), most = (float)(MOST_STORED - zero + 2);
    return (struct divisor){splat(scale), splat(1 / scale), splat(least * scale),
                            splat(most * scale)};
}

/* The quotient that a division gives, for numbers within the bounds. The first product may be off
 * by more than a unit in the last place. One correction by the remainder brings it within a unit; a
 * second one rounds it correctly, since the reciprocal is correctly rounded (Markstein, 1990).
 * Numbers so small that remainders vanish become zero in any case. */
INLINE vector divided(vector x, const struct divisor *d) {
#if defined(FUSED)
    x = at_most(at_least_number(x, d->least), d->most);
    vector q = x * d->reciprocal;
    q = FUSED(FUSED(-q, d->scale, x), d->reciprocal, q);
    return FUSED(FUSED(-q, d->scale, x), d->reciprocal, q);
#else
    return x / d->scale;
#endif
}

INLINE words quantized(vector quotient, words zero) {
    const vector low = to_float(splat_word(LEAST_STORED) - zero);
    const vector high = to_float(splat_word(MOST_STORED) - zero);
    return rounded(at_most(at_least_number(quotient, low), high)) + zero;
}

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
        words w[4];
        UNROLL for (int v = 0; v < 4; v++)
            w[v] = ONE(i + v * LANES, LANES);
        store_four(dst + i, w);
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

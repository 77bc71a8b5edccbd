/* Rounded quotients of float32 by a scale, as bytes. */
#ifndef PPLCONV_QUOTIENTS_H
#define PPLCONV_QUOTIENTS_H

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

/* Whether the quotients of `divided` are so near to the type's range that `store_four`, which
 * saturates, needs no other bounds. */
#if defined(FUSED) && !PPLCONV_NO_PACKING
enum { STORE_BOUNDS = 1 };
#else
enum { STORE_BOUNDS = 0 };
#endif

/* Four vectors of quotients by one scale, stored. */
INLINE void store_quotients(stored *p, const vector x[4], const struct divisor *d, words zero,
                            const int moderate) {
    words w[4];
    UNROLL for (int v = 0; v < 4; v++) {
        if (moderate && STORE_BOUNDS) w[v] = rounded(divided(x[v], d)) + zero;
        else w[v] = quantized(moderate ? divided(x[v], d) : (vector)(x[v] / d->scale), zero);
    }
    store_four(p, w);
}

#endif

/* Sine and cosine of a vector. asm/sines.py says how they are computed. */
#ifndef PPLCONV_SINES_H
#define PPLCONV_SINES_H

#include <math.h>

#include "exponential.h"

/* A function of the mathematical library. */
#if PPLCONV_F64
#define OF_LIBRARY(name) name
#else
#define OF_LIBRARY(name) name##f
#endif

#if PPLCONV_F64 || !FUSES
/* The sine, or the cosine, which is the sine a quarter of a turn further on. */
static inline vector sine(vector x, int quarter) {
    EACH_LANE
    x[j] = quarter ? OF_LIBRARY(cos)(x[j]) : OF_LIBRARY(sin)(x[j]);
    return x;
}
#else
static inline int some_lane(vector_bits mask) {
#if PPLCONV_VECTOR_BYTES == 64
    return _mm512_movepi32_mask((__m512i)mask) != 0;
#elif PPLCONV_VECTOR_BYTES == 32
    return _mm256_movemask_ps((__m256)mask) != 0;
#else
    return (mask[0] | mask[1] | mask[2] | mask[3]) != 0;
#endif
}

static inline vector sine(vector x, int quarter) {
    static const element near_terms[] = SINE_NEAR, far_terms[] = SINE_FAR, parts[] = SINE_HALF_PI;
    const vector zero = {0}, one = zero + (element)1;
    const vector_bits minus = (vector_bits)(zero * (element)-1), sign = (vector_bits)x & minus;
    const vector magnitude = (vector)((vector_bits)x & ~minus);
    const vector_bits far = ~(magnitude <= zero + SINE_LIMIT); /* NaN, too */
    const vector y = (vector)((vector_bits)magnitude & ~far);
    const vector sum = multiply_add(y, zero + SINE_TWO_OVER_PI, zero + SINE_MAGIC);
    const vector n = sum - SINE_MAGIC;
    vector r = multiply_add(n, zero - parts[0], y); /* exact */
    r = multiply_add(n, zero - parts[1], r);
    r = multiply_add(n, zero - parts[2], r);
    const vector square = r * r;
    vector p = zero + near_terms[SINE_NEAR_TERMS - 1], q = zero + far_terms[SINE_FAR_TERMS - 1];
    for (int i = SINE_NEAR_TERMS - 2; i >= 0; i--)
        p = multiply_add(p, square, zero + near_terms[i]);
    for (int i = SINE_FAR_TERMS - 2; i >= 0; i--) q = multiply_add(q, square, zero + far_terms[i]);
    p = multiply_add(p * square, r, r);
    q = multiply_add(multiply_add(q, square, zero - (element)0.5), square, one);
    /* Quarters of a turn: odd ones take the other function, the third and fourth change signs. */
    const vector_unsigned quarters = (vector_unsigned)sum + (uint32_t)quarter;
    const vector_bits odd = -(vector_bits)(quarters & 1);
    const vector_bits turned = (vector_bits)(quarters << 30) & minus;
    const vector found = select_lanes(odd, q, p);
    x = select_lanes(far, x, (vector)((vector_bits)found ^ turned));
    if (!quarter) x = (vector)((vector_bits)x ^ (sign & ~far)); /* the cosine is even */
    if (some_lane(far)) {
        EACH_LANE {
            if (far[j]) x[j] = quarter ? OF_LIBRARY(cos)(x[j]) : OF_LIBRARY(sin)(x[j]);
        }
    }
    return x;
}
#endif

#endif

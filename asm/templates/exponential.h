/* exp() of a vector, for kernels that get the EXP_* constants, which asm/exponential.py explains.
 */
#ifndef PPLCONV_EXPONENTIAL_H
#define PPLCONV_EXPONENTIAL_H

#include "lanes.h"

/* Shifts that drop high bits are defined for unsigned numbers only. */
#if PPLCONV_F64
typedef uint64_t vector_unsigned __attribute__((vector_size(PPLCONV_VECTOR_BYTES), may_alias));
#else
typedef uint32_t vector_unsigned __attribute__((vector_size(PPLCONV_VECTOR_BYTES), may_alias));
#endif

static inline vector power_of_two(vector_unsigned n) {
    return (vector)((n + EXP_BIAS) << EXP_MANTISSA);
}

/* p times 2 to the n, rounded once; sum is n + EXP_MAGIC. */
static inline vector scaled(vector p, vector n, vector sum) {
#if PPLCONV_VECTOR_BYTES == 64 && PPLCONV_F64
    (void)sum;
    return (vector)_mm512_scalef_pd((__m512d)p, (__m512d)n);
#elif PPLCONV_VECTOR_BYTES == 64
    (void)sum;
    return (vector)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    (void)n;
    /* Two factors: one alone may overflow, or be subnormal, where the product is neither. They take
     * n from the low bits of the sum, and power_of_two drops the others. */
    const vector_unsigned half = (vector_unsigned)sum >> 1;
    return p * power_of_two(half) * power_of_two((vector_unsigned)sum - half);
#endif
}

#if PPLCONV_VECTOR_BYTES == 64
/* p, times 2 to the n where the sign bit of x is set. */
static inline vector scaled_if_negative(vector x, vector p, vector n) {
#if PPLCONV_F64
    const __mmask8 negative = _mm512_movepi64_mask((__m512i)x);
    return (vector)_mm512_mask_scalef_pd((__m512d)p, negative, (__m512d)p, (__m512d)n);
#else
    const __mmask16 negative = _mm512_movepi32_mask((__m512i)x);
    return (vector)_mm512_mask_scalef_ps((__m512)p, negative, (__m512)p, (__m512)n);
#endif
}
#endif

/* exp(x + low) for x <= EXP_LIMIT, and NaN for NaN; low is less than a rounding error of 1, or
 * anything where x is below -EXP_LIMIT. There the result is a plain zero: a product that underflows
 * to it would take as long as a hundred others. */
static inline vector bounded_exponential(vector x, vector low) {
    static const element coefficients[EXP_TERMS] = EXP_COEFFICIENTS;
    const vector zero = {0}, one = zero + (element)1;
    const vector_bits above = ~(x < zero - EXP_LIMIT);
    const vector y = (vector)(above & (vector_bits)x);
    const vector sum = multiply_add(y, zero + EXP_LOG2E, zero + EXP_MAGIC);
    const vector n = sum - EXP_MAGIC;
    vector r = multiply_add(n, zero - EXP_LN2_HIGH, y); /* exact */
    r = multiply_add(n, zero - EXP_LN2_LOW, r) + (vector)(above & (vector_bits)low);
    vector p = zero + coefficients[EXP_TERMS - 1];
    for (int i = EXP_TERMS - 2; i >= 0; i--) p = multiply_add(p, r, zero + coefficients[i]);
    p = one + multiply_add(p, r * r, r);
    return (vector)(above & (vector_bits)scaled(p, n, sum));
}

/* exp(x) of any x, within one and a half rounding errors: infinity or zero outside the range of the
 * type, subnormal numbers if the machine's mode has them, NaN for NaN. */
static inline vector exponential(vector x) {
    const vector zero = {0};
    return bounded_exponential(at_most(x, zero + EXP_LIMIT), zero);
}

#endif

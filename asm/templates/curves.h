/* Activations that no clip expresses, of a vector. asm/exponential.py says where the EXP_*
 * constants come from. */
#ifndef PPLCONV_CURVES_H
#define PPLCONV_CURVES_H

#include "storage.h"

#include "exponential.h"

/* x where it is not below zero, slope * x where it is; a slope of zero gives zero for -inf. */
static inline vector piecewise(vector x, vector slope) {
    const vector zero = {0};
    return if_less(x, zero, (vector)((vector_bits)(slope * x) & (slope != zero)), x);
}

static inline vector hardswish(vector x) {
    const vector zero = {0}, three = zero + (element)3;
    x = at_least(x, zero - three); /* so that -inf meets no zero; NaN stays */
    return x * (at_most(x + three, three + three) * (element)(1.0 / 6));
}

#if FUSES
/* SiLU has the sign of x, which a zero's product and sum lose. */
static inline vector with_sign(vector x, vector sign, int silu) {
    const vector minus_zero = (vector){0} * (element)-1;
    return silu ? (vector)((vector_bits)x | ((vector_bits)sign & (vector_bits)minus_zero)) : x;
}

/* sigmoid(x), or x * sigmoid(x): 1 / (1 + e) or x / (1 + e) with e = exp(-x), which is at most 1
 * for x >= 0; below zero e / (1 + e) or x * e / (1 + e) with e = exp(x). There 2**n of e = 2**n * p
 * is applied to the quotient, last: e itself may be subnormal or zero where x * e is not.
 *
 * Error, in units of u = eps / 2, the largest of one rounding: with p = 1 + s, s = r * (1 + ...), r
 * contributes 1/4, the rounding of 1 + ... another 1/4, that of s 0.35. The numerator of SiLU,
 * y + y * s, adds 1, 1 + e and the quotient 1 each: 3.85 in all, where the contract allows 4.
 * Sigmoid has one rounding less. */
static inline vector logistic(vector x, int silu) {
    static const element coefficients[EXP_TERMS] = EXP_COEFFICIENTS;
    const vector zero = {0}, one = zero + (element)1, minus_zero = zero * (element)-1;
    /* -|x|, and below it the limit; NaN stays. */
    vector y = (vector)((vector_bits)x | (vector_bits)minus_zero);
    y = at_least(y, zero - EXP_LIMIT);
    const vector sum = multiply_add(y, zero + EXP_LOG2E, zero + EXP_MAGIC);
    const vector n = sum - EXP_MAGIC;
    vector r = multiply_add(n, zero - EXP_LN2_HIGH, y);
    r = multiply_add(n, zero - EXP_LN2_LOW, r);
    vector p = zero + coefficients[EXP_TERMS - 1];
    for (int i = EXP_TERMS - 2; i >= 0; i--) p = multiply_add(p, r, zero + coefficients[i]);
    p = multiply_add(p, r, one);
    if (silu) {
        const vector s = r * p;
        p = s + one;
        y = multiply_add(y, s, y); /* spares y * (1 + s) the rounding of 1 + s */
    } else {
        p = multiply_add(p, r, one);
    }
#if PPLCONV_VECTOR_BYTES == 64
    const vector numerator = silu ? if_negative(x, y, x) : if_negative(x, p, one);
    const vector quotient = numerator / (scaled(p, n, sum) + one);
    return with_sign(scaled_if_negative(x, quotient, n), x, silu);
#else
    /* 2**n in two factors: it may lie below all exponents. */
    const vector_unsigned half = (vector_unsigned)sum >> 1;
    const vector rest = power_of_two((vector_unsigned)sum - half), scale = power_of_two(half);
    p *= scale;
    const vector numerator = silu ? if_negative(x, y * scale, x) : if_negative(x, p, one);
    return with_sign(numerator / (p * rest + one) * if_negative(x, rest, one), x, silu);
#endif
}
#else
/* The same where each product and each sum is rounded on its own, so that more is kept apart for
 * longer: what the reduction rounds off r, all of exp(r) - 1 but r itself, and in SiLU y + y * s
 * instead of y * (1 + s). Only the roundings of s, 0.35 u, and of that small rest, 0.15, are left;
 * y * s adds 0.25 of its own: 3.75. */
static inline vector logistic(vector x, int silu) {
    static const element coefficients[EXP_TERMS] = EXP_COEFFICIENTS;
    const vector zero = {0}, one = zero + (element)1, lowest = zero - EXP_LIMIT;
    const vector_bits negative = (vector_bits)x < (vector_bits)zero;
    vector y = select_lanes(negative, x, -x); /* -|x|, and below it the limit; NaN stays */
    y = select_lanes(y < lowest, lowest, y);
    const vector sum = y * EXP_LOG2E + EXP_MAGIC; /* the integer lies in its low bits */
    const vector n = sum - EXP_MAGIC;
    const vector high = y - n * EXP_LN2_HIGH, low = n * EXP_LN2_LOW;
    const vector r = high - low, lost = (high - r) - low;
    vector p = zero + coefficients[EXP_TERMS - 1];
    for (int i = EXP_TERMS - 2; i >= 0; i--) p = p * r + coefficients[i];
    const vector s = r + (p * r * r + lost);
    p = s + one;
    const vector_unsigned half = (vector_unsigned)sum >> 1;
    const vector rest = power_of_two((vector_unsigned)sum - half);
    const vector scale = power_of_two(half);
    p *= scale;
    vector numerator = select_lanes(negative, p, one);
    if (silu) numerator = select_lanes(negative, (y + y * s) * scale, x);
    return numerator / (one + p * rest) * select_lanes(negative, rest, one);
}
#endif

#endif

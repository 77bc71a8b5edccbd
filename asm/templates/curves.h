/* Activations that no clip expresses, of a vector. asm/x86_64/activate.py says how sigmoid and
 * SiLU are computed, asm/exponential.py where the EXP_* constants come from; here each product
 * and each sum is rounded on its own, so that more is kept apart for longer: what the reduction
 * rounds off r, all of exp(r) - 1 but r itself, and in SiLU y + y * s instead of y * (1 + s). */
#ifndef PPLCONV_CURVES_H
#define PPLCONV_CURVES_H

#include "storage.h"

#include "exponential.h"

/* x where it is not below zero, slope * x where it is; a slope of zero gives zero for -inf. */
static inline vector piecewise(vector x, vector slope) {
    const vector zero = {0};
    return select_lanes(x < zero, select_lanes(slope == zero, zero, slope * x), x);
}

static inline vector hardswish(vector x) {
    const vector zero = {0}, three = zero + (element)3, six = three + three;
    x = select_lanes(x < -three, -three, x); /* so that -inf meets no zero */
    const vector gate = x + three;
    return x * (select_lanes(gate > six, six, gate) * (element)(1.0 / 6));
}

/* sigmoid(x), or x * sigmoid(x). */
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

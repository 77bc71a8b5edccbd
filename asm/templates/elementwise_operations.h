/* Instructions of element-wise programs, on whole vectors. */
#ifndef PPLCONV_ELEMENTWISE_OPERATIONS_H
#define PPLCONV_ELEMENTWISE_OPERATIONS_H

#include "curves.h"
#include "sines.h"
#include "truths.h"

/* Of two numbers; NaN if one of them is. */
static inline vector smaller(vector a, vector b) {
    return select_lanes(a != a, a, select_lanes(a < b, a, b));
}
static inline vector larger(vector a, vector b) {
    return select_lanes(a != a, a, select_lanes(a > b, a, b));
}

static inline vector absolute(vector x) {
    const vector sign = (vector){0} * (element)-1;
    return (vector)((vector_bits)x & ~(vector_bits)sign);
}

/* Near zero by its series: by way of sigmoid, the result would be lost to rounding. */
static inline vector hyperbolic_tangent(vector x) {
#if PPLCONV_F64
    EACH_LANE x[j] = tanh(x[j]);
    return x;
#else
    const vector zero = {0}, one = zero + (element)1, near = zero + (element)0.3;
    const vector square = x * x;
    vector p = zero + (element)(-1382.0 / 155925);
    p = multiply_add(p, square, zero + (element)(62.0 / 2835));
    p = multiply_add(p, square, zero + (element)(-17.0 / 315));
    p = multiply_add(p, square, zero + (element)(2.0 / 15));
    p = multiply_add(p, square, zero + (element)(-1.0 / 3));
    /* A zero keeps its sign. */
    const vector small = select_lanes(x == zero, x, multiply_add(p * square, x, x));
    const vector y = at_most(absolute(x), zero + (element)20);
    const vector e = exponential(y + y);
    const vector large = one - (element)2 / (e + one);
    const vector signed_large = select_lanes(x < zero, -large, large);
    const vector far = select_lanes(x != x, x, signed_large);
    return select_lanes(absolute(x) < near, small, far);
#endif
}

/* asm/error_function.py says how it is computed. */
static inline vector error_function(vector x) {
#if PPLCONV_F64
    EACH_LANE x[j] = erf(x[j]);
    return x;
#else
    static const element near_terms[] = ERF_NEAR, far_terms[] = ERF_FAR;
    const vector zero = {0}, one = zero + (element)1;
    const vector square = x * x, y = at_most(absolute(x), zero + ERF_END); /* NaN stays */
    vector p = zero + near_terms[ERF_NEAR_TERMS - 1], q = zero + far_terms[ERF_FAR_TERMS - 1];
    for (int i = ERF_NEAR_TERMS - 2; i >= 0; i--) p = multiply_add(p, square, zero + near_terms[i]);
    for (int i = ERF_FAR_TERMS - 2; i >= 0; i--) q = multiply_add(q, y, zero + far_terms[i]);
    const vector far = one - exponential(q);
    const vector_bits sign = (vector_bits)x & (vector_bits)(zero * (element)-1);
    /* A zero keeps its sign. */
    return select_lanes(y < zero + ERF_BEND, multiply_add(p, x, x),
                        (vector)((vector_bits)far | sign));
#endif
}

/* asm/error_function.py says how it is computed. */
static inline vector gelu(vector x) {
#if PPLCONV_F64
    EACH_LANE {
        const double y = x[j] < -64 ? -64 : x[j]; /* so that -inf meets no zero; NaN stays */
        x[j] = y * erfc(y * -0.7071067811865476) * 0.5;
    }
    return x;
#else
    static const element terms[] = GELU_COEFFICIENTS;
    const vector zero = {0};
    const vector end = zero + GELU_END * GELU_END, square = x * x;
    const vector s = multiply_add(square, zero + 2 / (GELU_END * GELU_END), zero - (element)1);
#if PPLCONV_VECTOR_BYTES >= 32
    /* Even and odd terms, two chains of products: one would be most of the time. Without fused
     * products, two chains would round off more. */
    _Static_assert(GELU_TERMS % 2 == 0, "as many even terms as odd ones");
    const vector step = s * s;
    vector even = zero + terms[GELU_TERMS - 2], odd = zero + terms[GELU_TERMS - 1];
    for (int i = GELU_TERMS - 4; i >= 0; i -= 2) {
        even = multiply_add(even, step, zero + terms[i]);
        odd = multiply_add(odd, step, zero + terms[i + 1]);
    }
    const vector p = multiply_add(odd, s, even);
#else
    vector p = zero + terms[GELU_TERMS - 1];
    for (int i = GELU_TERMS - 2; i >= 0; i--) p = multiply_add(p, s, zero + terms[i]);
#endif
    const vector near = x * multiply_add(p, x, zero + (element)0.5); /* NaN stays */
    return if_less(end, square, at_least(x, zero), near);
#endif
}

/* log(1 + u) for 0 <= u <= 1. Above sqrt(2) - 1 it is log(2) + log((1 + u) / 2). With
 * s = f / (2 + f), log(1 + f) = 2 atanh(s) = f - f * f / 2 + s * (f * f / 2 + r), where r is the
 * rest of the series: what is rounded most is added to f last. */
static inline vector logarithm_of_sum(vector u) {
#if PPLCONV_F64
    EACH_LANE u[j] = log1p(u[j]);
    return u;
#else
    const vector zero = {0}, half = zero + (element)0.5, bend = zero + (element)0.41421356;
    const vector f = if_less(bend, u, (u - (element)1) * half, u);
    const vector s = f / (f + (element)2), z = s * s, square = f * f * half;
    vector r = multiply_add(z, zero + (element)(2.0 / 9), zero + (element)(2.0 / 7));
    r = multiply_add(z, r, zero + (element)(2.0 / 5));
    r = multiply_add(z, r, zero + (element)(2.0 / 3)) * z;
    const vector rest = multiply_add(s, square + r, -square);
    return f + if_less(bend, u, rest + (element)0.69314718, rest);
#endif
}

static inline vector softplus(vector x) {
    const vector zero = {0};
    const vector magnitude = if_negative(x, x, -x); /* minus that; NaN stays */
    return at_least(x, zero) + logarithm_of_sum(exponential(magnitude));
}

/* With e = exp(x), tanh(log(1 + e)) = (e * e + 2 * e) / (e * e + 2 * e + 2). Above zero both are
 * divided by e * e, which may be infinite. Far below zero e is subnormal where x * e is not. There
 * e is computed from x + far, which is exact between -2 * far and -far / 2, and x * e is scaled. */
static inline vector mish(vector x) {
#if PPLCONV_F64
    const element far = 512, scale = 4.377491037053051e-223; /* exp(-far) */
#else
    const element far = 64, scale = (element)1.603810890548638e-28; /* exp(-far) */
#endif
    const vector zero = {0}, one = zero + (element)1, two = one + one;
    x = at_least(x, zero - 2 * far); /* NaN stays */
    const vector y = if_negative(x, x, -x);
    const vector_bits is_far = (vector_bits)(x < zero - far);
    const vector shifted = exponential(y + select_lanes(is_far, zero + far, zero));
    const vector factor = select_lanes(is_far, zero + scale, one), e = shifted * factor;
    const vector product = x * shifted * factor, above = e + e + one;
    const vector numerator = if_negative(x, multiply_add(product, e, product + product), above);
    const vector divisor =
        if_negative(x, multiply_add(e, e + two, two), multiply_add(two * e, e, above));
    const vector quotient = numerator / divisor;
    return if_negative(x, quotient, x * quotient);
}

static inline vector square_root(vector x) {
#if PPLCONV_VECTOR_BYTES == 64 && PPLCONV_F64
    return (vector)_mm512_sqrt_pd((__m512d)x);
#elif PPLCONV_VECTOR_BYTES == 64
    return (vector)_mm512_sqrt_ps((__m512)x);
#elif PPLCONV_VECTOR_BYTES == 32 && PPLCONV_F64
    return (vector)_mm256_sqrt_pd((__m256d)x);
#elif PPLCONV_VECTOR_BYTES == 32
    return (vector)_mm256_sqrt_ps((__m256)x);
#else
    for (int64_t j = 0; j < LANES; j++) x[j] = OF_LIBRARY(sqrt)(x[j]);
    return x;
#endif
}

/* Name, and result for x, y and z. Many programs consist of one of these instructions. */
#define SHORT_OPERATIONS(X)                                                                        \
    X(ADD, x + y)                                                                                  \
    X(SUBTRACT, x - y)                                                                             \
    X(MULTIPLY, (x) * (y))                                                                         \
    X(MULTIPLY_ADD, multiply_add(x, y, z))                                                         \
    X(CLIP, at_most(at_least(x, y), z))

#define STRAIGHT_OPERATIONS(X)                                                                     \
    SHORT_OPERATIONS(X)                                                                            \
    X(SIGMOID, logistic(x, 0))                                                                     \
    X(SILU, logistic(x, 1))                                                                        \
    X(HARDSWISH, hardswish(x))                                                                     \
    X(SLOPE, piecewise(x, y))                                                                      \
    X(SOFTPLUS, softplus(x))                                                                       \
    X(MISH, mish(x))                                                                               \
    X(GELU, gelu(x))

#define OTHER_OPERATIONS(X)                                                                        \
    X(COPY, x)                                                                                     \
    X(DIVIDE, x / y)                                                                               \
    X(MINIMUM, smaller(x, y))                                                                      \
    X(MAXIMUM, larger(x, y))                                                                       \
    X(NEGATE, -x)                                                                                  \
    X(ABSOLUTE, absolute(x))                                                                       \
    X(SQUARE_ROOT, square_root(x))                                                                 \
    X(EXPONENTIAL, exponential(x))                                                                 \
    X(HYPERBOLIC_TANGENT, hyperbolic_tangent(x))                                                   \
    X(ERROR_FUNCTION, error_function(x))                                                           \
    X(SINE, sine(x, 0))                                                                            \
    X(COSINE, sine(x, 1))                                                                          \
    X(LESS, truth(x < y))                                                                          \
    X(LESS_OR_EQUAL, truth(x <= y))                                                                \
    X(EQUAL, truth(x == y))                                                                        \
    X(NOT, truth(x == zero))                                                                       \
    X(AND, truth((x != zero) & (y != zero)))                                                       \
    X(OR, truth((x != zero) | (y != zero)))                                                        \
    X(WHERE, select_lanes(x != zero, y, z))

#endif

/* Loads and stores of the first n lanes of a vector, 0 <= n <= LANES, that touch nothing
 * beyond them: mask registers on AVX-512, mask vectors on AVX2, a copy elsewhere. */
#ifndef PPLCONV_LANES_H
#define PPLCONV_LANES_H

#include "template.h"

#if PPLCONV_VECTOR_BYTES == 64
#include <immintrin.h>

typedef uint16_t lane_mask;

static inline lane_mask first_lanes(int64_t n) { return (lane_mask)((1u << n) - 1u); }

#if PPLCONV_F64
static inline vector load_masked(const element *p, lane_mask m) {
    return (vector)_mm512_maskz_loadu_pd((__mmask8)m, p);
}
static inline void store_masked(element *p, vector v, lane_mask m) {
    _mm512_mask_storeu_pd(p, (__mmask8)m, (__m512d)v);
}
#else
static inline vector load_masked(const element *p, lane_mask m) {
    return (vector)_mm512_maskz_loadu_ps((__mmask16)m, p);
}
static inline void store_masked(element *p, vector v, lane_mask m) {
    _mm512_mask_storeu_ps(p, (__mmask16)m, (__m512)v);
}
#endif

#if PPLCONV_F64
static inline vector larger(vector bound, vector x) {
    return (vector)_mm512_max_pd((__m512d)bound, (__m512d)x);
}
static inline vector smaller(vector bound, vector x) {
    return (vector)_mm512_min_pd((__m512d)bound, (__m512d)x);
}
#else
static inline vector larger(vector bound, vector x) {
    return (vector)_mm512_max_ps((__m512)bound, (__m512)x);
}
static inline vector smaller(vector bound, vector x) {
    return (vector)_mm512_min_ps((__m512)bound, (__m512)x);
}
#endif

static inline vector load_lanes(const element *p, int64_t n) {
    return load_masked(p, first_lanes(n));
}
static inline void store_lanes(element *p, vector v, int64_t n) {
    store_masked(p, v, first_lanes(n));
}

#elif PPLCONV_VECTOR_BYTES == 32
#include <immintrin.h>

/* Lanes begin <= i < end as a mask vector. */
static inline vector_bits lanes_between(int64_t begin, int64_t end) {
#if PPLCONV_F64
    const vector_bits lane = {0, 1, 2, 3};
#else
    const vector_bits lane = {0, 1, 2, 3, 4, 5, 6, 7};
#endif
    return (lane >= (element_bits)begin) & (lane < (element_bits)end);
}

#if PPLCONV_F64
static inline vector load_masked(const element *p, vector_bits m) {
    return (vector)_mm256_maskload_pd(p, (__m256i)m);
}
static inline void store_lanes(element *p, vector v, int64_t n) {
    _mm256_maskstore_pd(p, (__m256i)lanes_between(0, n), (__m256d)v);
}
static inline vector larger(vector bound, vector x) {
    return (vector)_mm256_max_pd((__m256d)bound, (__m256d)x);
}
static inline vector smaller(vector bound, vector x) {
    return (vector)_mm256_min_pd((__m256d)bound, (__m256d)x);
}
#else
static inline vector load_masked(const element *p, vector_bits m) {
    return (vector)_mm256_maskload_ps(p, (__m256i)m);
}
static inline void store_lanes(element *p, vector v, int64_t n) {
    _mm256_maskstore_ps(p, (__m256i)lanes_between(0, n), (__m256)v);
}
static inline vector larger(vector bound, vector x) {
    return (vector)_mm256_max_ps((__m256)bound, (__m256)x);
}
static inline vector smaller(vector bound, vector x) {
    return (vector)_mm256_min_ps((__m256)bound, (__m256)x);
}
#endif

static inline vector load_lanes(const element *p, int64_t n) {
    return load_masked(p, lanes_between(0, n));
}

#else

static inline vector load_lanes(const element *p, int64_t n) {
    vector v = {0};
    for (int64_t i = 0; i < n; i++) v[i] = p[i];
    return v;
}
static inline void store_lanes(element *p, vector v, int64_t n) {
    for (int64_t i = 0; i < n; i++) p[i] = v[i];
}
static inline vector larger(vector bound, vector x) { return select_lanes(bound > x, bound, x); }
static inline vector smaller(vector bound, vector x) { return select_lanes(bound < x, bound, x); }

#endif

/* Zeros in n elements. */
static inline void clear(element *dst, int64_t n) {
    const vector zero = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) *(unaligned_vector *)(dst + i) = zero;
    if (i < n) store_lanes(dst + i, zero, n - i);
}

#endif

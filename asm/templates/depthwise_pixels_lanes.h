/* The vectors of a strip: a row of one plane or, where planes are narrow and vectors long, half a
 * row of each of two planes. */
#ifndef PPLCONV_DEPTHWISE_PIXELS_LANES_H
#define PPLCONV_DEPTHWISE_PIXELS_LANES_H

#include "depthwise_pixels.h"

/* The part of a vector that lies inside a row of the image. */
#if PPLCONV_NEON
typedef struct window reach;
INLINE reach reach_at(int64_t start, int64_t size) { return window_at(start, size); }
INLINE vector load_reach(const element *p, int64_t start, const reach *r) {
    return load_window(p - start, r);
}
#else
typedef lane_mask reach;
INLINE reach reach_at(int64_t start, int64_t size) { return lanes_between(-start, size - start); }
INLINE vector load_reach(const element *p, int64_t start, const reach *r) {
    (void)start;
    return load_masked(p, *r);
}
#endif

#if PPLCONV_VECTOR_BYTES == 64
typedef element half_vector __attribute__((vector_size(32), may_alias));
typedef element unaligned_half
    __attribute__((vector_size(32), aligned(sizeof(element)), may_alias));

INLINE vector join(half_vector low, half_vector high) {
    return (vector)_mm512_insertf64x4(_mm512_castpd256_pd512((__m256d)low), (__m256d)high, 1);
}
INLINE half_vector load_half(const element *p, lane_mask m) {
#if PPLCONV_F64
    return (half_vector)_mm256_maskz_loadu_pd((__mmask8)(m & 15), p);
#else
    return (half_vector)_mm256_maskz_loadu_ps((__mmask8)m, p);
#endif
}
INLINE vector load_halves(const element *a, const element *b, lane_mask m) {
    return join(load_half(a, m), load_half(b, m));
}
INLINE vector broadcast_two(element a, element b, lane_mask second) {
#if PPLCONV_F64
    return (vector)_mm512_mask_broadcastsd_pd((__m512d)broadcast(a), (__mmask8)second,
                                              _mm_set_sd(b));
#else
    return (vector)_mm512_mask_broadcastss_ps((__m512)broadcast(a), (__mmask16)second,
                                              _mm_set_ss(b));
#endif
}
INLINE void store_halves(element *a, element *b, vector v, int64_t n, int whole) {
    const __m256d low = _mm512_castpd512_pd256((__m512d)v);
    const __m256d high = _mm512_extractf64x4_pd((__m512d)v, 1);
    if (whole) {
        *(unaligned_half *)a = (half_vector)low;
        *(unaligned_half *)b = (half_vector)high;
    } else {
        store_lanes(a, v, n);
        store_lanes(b, (vector)_mm512_castpd256_pd512(high), n);
    }
}

/* Four elements, as far as the mask has them; later lanes of the vector do not matter. */
INLINE vector load_four(const element *p, lane_mask m) {
#if PPLCONV_F64
    return (vector)_mm512_castpd256_pd512(_mm256_maskz_loadu_pd((__mmask8)(m & 15), p));
#else
    return (vector)_mm512_castps128_ps512(_mm_maskz_loadu_ps((__mmask8)(m & 15), p));
#endif
}
#else
/* For vectors that never hold two planes. */
INLINE vector load_halves(const element *a, const element *b, reach m) {
    (void)b;
    return load_reach(a, 0, &m);
}
INLINE vector broadcast_two(element a, element b, lane_mask second) {
    (void)b, (void)second;
    return broadcast(a);
}
INLINE void store_halves(element *a, element *b, vector v, int64_t n, int whole) {
    (void)b, (void)whole;
    store_lanes(a, v, n);
}
#endif

/* At stride 2, one shuffle within 16 bytes takes every second element of two long vectors. It
 * leaves an order such as 0 1 4 5 2 3 6 7, which the sums keep until `in_order`. */
#define GROUP (16 / (int)sizeof(element))
#define HALF (GROUP / 2)

/* Output that lane i of a sum holds, and lane that holds output i. */
INLINE int output_in(const int i) {
    return i / GROUP * HALF + i % HALF + (i % GROUP < HALF ? 0 : LANES / 2);
}
INLINE int place_of_output(const int i) {
    const int j = i % (LANES / 2);
    return j / HALF * GROUP + j % HALF + (i < LANES / 2 ? 0 : HALF);
}

/* Every second element of two neighbouring vectors. */
INLINE vector every_second_of(vector low, vector high, const int from) {
#if PPLCONV_NEON
    return every_second(low, high, from);
#else
    vector_bits lane;
    UNROLL for (int i = 0; i < LANES; i++)
        lane[i] = 2 * output_in(i) + from;
    return shuffle(low, high, lane);
#endif
}

/* Every second element from tap k on. x has those from tap k & 1 on, and `more` has the elements
 * that follow all of those that x was made of. */
INLINE vector moved(vector x, vector more, const int k) {
    vector_bits lane;
    UNROLL for (int i = 0; i < LANES; i++) {
        const int to = output_in(i) + k / 2;
        lane[i] = to < LANES ? place_of_output(to) : LANES + 2 * (to - LANES) + (k & 1);
    }
    return shuffle(x, more, lane);
}

/* Sums in the order of the outputs. */
INLINE vector in_order(vector x) {
    if ((int)LANES == GROUP) return x;
#if PPLCONV_VECTOR_BYTES == 32 && !PPLCONV_F64
    /* GCC does not see that pairs of lanes move together. */
    return (vector)_mm256_permute4x64_pd((__m256d)x, 0xd8);
#else
    vector_bits lane;
    UNROLL for (int i = 0; i < LANES; i++)
        lane[i] = place_of_output(i);
    return shuffle(x, x, lane);
#endif
}

/* Lanes begin .. end - 1 of a vector of sums, of each half if `planes` is 2. */
static inline lane_mask lanes_of_sums(int64_t begin, int64_t end, int stride, int planes) {
    const int64_t lanes = LANES / planes;
    begin = least(begin, lanes);
    end = least(end, lanes);
    lane_mask m = lanes_between(begin, end);
    if (planes == 2) m |= lanes_between(begin + lanes, end + lanes);
    if (stride == 1 || (int)LANES == GROUP) return m;
    lane_mask in_sums = {0};
    for (int i = 0; i < LANES; i++) {
#if PPLCONV_VECTOR_BYTES == 64
        in_sums |= (lane_mask)((m >> output_in(i) & 1) << i);
#else
        in_sums[i] = m[output_in(i)];
#endif
    }
    return in_sums;
}

/* w in the lanes of the mask, -0 in the others: `none` has -0 there, and 0 in those of the mask. */
INLINE vector weight_where(lane_mask m, vector none, vector w) {
#if PPLCONV_VECTOR_BYTES == 64 && PPLCONV_F64
    return (vector)_mm512_mask_mov_pd((__m512d)none, (__mmask8)m, (__m512d)w);
#elif PPLCONV_VECTOR_BYTES == 64
    return (vector)_mm512_mask_mov_ps((__m512)none, (__mmask16)m, (__m512)w);
#else
    return (vector)((m & (vector_bits)w) | (vector_bits)none);
#endif
}

/* -0 where the mask has no lane; with masks in registers of their own, in every lane. */
static inline vector minus_zero_beside(lane_mask m) {
    const vector zero = {0};
#if PPLCONV_VECTOR_BYTES == 64
    (void)m;
    return -zero;
#else
    return (vector)(~m & (vector_bits)-zero);
#endif
}

#endif

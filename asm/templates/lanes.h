/* Loads and stores of some lanes of a vector that touch nothing beyond them: mask registers on
 * AVX-512, on AVX2 mask vectors for loads and two overlapping parts for stores, pieces on NEON, a
 * copy elsewhere. And the one product that is fused where the machine can. */
#ifndef PPLCONV_LANES_H
#define PPLCONV_LANES_H

#include "clean.h"
#include "template.h"

/* Whether multiply_add rounds once. */
#define FUSES (PPLCONV_VECTOR_BYTES >= 32 || PPLCONV_NEON)

#if PPLCONV_VECTOR_BYTES == 64
#include <immintrin.h>

typedef uint16_t lane_mask;

static inline lane_mask first_lanes(int64_t n) { return (lane_mask)((1u << n) - 1u); }

static inline int64_t clamp_lane(int64_t n) { return n < 0 ? 0 : n > LANES ? LANES : n; }

/* Lanes begin <= i < end, whatever the two are. */
static inline lane_mask lanes_between(int64_t begin, int64_t end) {
    return first_lanes(clamp_lane(end)) & (lane_mask)~first_lanes(clamp_lane(begin));
}

#if PPLCONV_F64
static inline vector load_masked(const element *p, lane_mask m) {
    return (vector)_mm512_maskz_loadu_pd((__mmask8)m, p);
}
static inline void store_masked(element *p, vector v, lane_mask m) {
    _mm512_mask_storeu_pd(p, (__mmask8)m, (__m512d)v);
}
static inline vector multiply_add(vector a, vector b, vector c) {
    return (vector)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
static inline vector multiply_add_where(lane_mask m, vector a, vector b, vector c) {
    return (vector)_mm512_mask3_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c, (__mmask8)m);
}
static inline vector at_least(vector x, vector low) {
    return (vector)_mm512_max_pd((__m512d)low, (__m512d)x);
}
static inline vector at_most(vector x, vector high) {
    return (vector)_mm512_min_pd((__m512d)high, (__m512d)x);
}
#else
static inline vector load_masked(const element *p, lane_mask m) {
    return (vector)_mm512_maskz_loadu_ps((__mmask16)m, p);
}
static inline void store_masked(element *p, vector v, lane_mask m) {
    _mm512_mask_storeu_ps(p, (__mmask16)m, (__m512)v);
}
static inline vector multiply_add(vector a, vector b, vector c) {
    return (vector)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
static inline vector multiply_add_where(lane_mask m, vector a, vector b, vector c) {
    return (vector)_mm512_mask3_fmadd_ps((__m512)a, (__m512)b, (__m512)c, (__mmask16)m);
}
static inline vector at_least(vector x, vector low) {
    return (vector)_mm512_max_ps((__m512)low, (__m512)x);
}
static inline vector at_most(vector x, vector high) {
    return (vector)_mm512_min_ps((__m512)high, (__m512)x);
}
#endif

/* Lane by lane, yes where x < y and no where it is not, or one of them is NaN. */
static inline vector if_less(vector x, vector y, vector yes, vector no) {
#if PPLCONV_F64
    const __mmask8 less = _mm512_cmp_pd_mask((__m512d)x, (__m512d)y, _CMP_LT_OQ);
    return (vector)_mm512_mask_blend_pd(less, (__m512d)no, (__m512d)yes);
#else
    const __mmask16 less = _mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_LT_OQ);
    return (vector)_mm512_mask_blend_ps(less, (__m512)no, (__m512)yes);
#endif
}

/* The same where the sign bit of x is set. */
static inline vector if_negative(vector x, vector yes, vector no) {
#if PPLCONV_F64
    const __mmask8 negative = _mm512_movepi64_mask((__m512i)x);
    return (vector)_mm512_mask_blend_pd(negative, (__m512d)no, (__m512d)yes);
#else
    const __mmask16 negative = _mm512_movepi32_mask((__m512i)x);
    return (vector)_mm512_mask_blend_ps(negative, (__m512)no, (__m512)yes);
#endif
}

static inline vector load_lanes(const element *p, int64_t n) {
    return load_masked(p, first_lanes(n));
}
static inline void store_lanes(element *p, vector v, int64_t n) {
    store_masked(p, v, first_lanes(n));
}

#elif PPLCONV_VECTOR_BYTES == 32
#include <immintrin.h>

typedef vector_bits lane_mask;

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
static inline vector multiply_add(vector a, vector b, vector c) {
    return (vector)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
static inline vector at_least(vector x, vector low) {
    return (vector)_mm256_max_pd((__m256d)low, (__m256d)x);
}
static inline vector at_most(vector x, vector high) {
    return (vector)_mm256_min_pd((__m256d)high, (__m256d)x);
}
#else
static inline vector load_masked(const element *p, vector_bits m) {
    return (vector)_mm256_maskload_ps(p, (__m256i)m);
}
static inline vector multiply_add(vector a, vector b, vector c) {
    return (vector)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
static inline vector at_least(vector x, vector low) {
    return (vector)_mm256_max_ps((__m256)low, (__m256)x);
}
static inline vector at_most(vector x, vector high) {
    return (vector)_mm256_min_ps((__m256)high, (__m256)x);
}
#endif

static inline vector if_less(vector x, vector y, vector yes, vector no) {
#if PPLCONV_F64
    return (vector)_mm256_blendv_pd((__m256d)no, (__m256d)yes, (__m256d)(x < y));
#else
    return (vector)_mm256_blendv_ps((__m256)no, (__m256)yes, (__m256)(x < y));
#endif
}

static inline vector if_negative(vector x, vector yes, vector no) {
#if PPLCONV_F64
    return (vector)_mm256_blendv_pd((__m256d)no, (__m256d)yes, (__m256d)x);
#else
    return (vector)_mm256_blendv_ps((__m256)no, (__m256)yes, (__m256)x);
#endif
}

static inline vector load_lanes(const element *p, int64_t n) {
    return load_masked(p, lanes_between(0, n));
}

/* Lane i of the result is lane i + by of v, as far as there is one. */
static inline __m256 lanes_from(vector v, int64_t by) {
    const __m256i word = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const int words = (int)by * ((int)sizeof(element) / 4);
    return _mm256_permutevar8x32_ps((__m256)v, _mm256_add_epi32(word, _mm256_set1_epi32(words)));
}

/* The first n lanes, any number of them. Up to Zen 3, AMD's cores take as long for a store under a
 * mask as for some ten plain ones. So the first half of a vector is stored, and the half that ends
 * with lane n - 1: some lanes twice, but none beyond. Of fewer lanes, quarters. */
static inline void store_lanes(element *p, vector v, int64_t n) {
    const int64_t half = LANES / 2;
    if (n >= LANES) {
        *(unaligned_vector *)p = v;
    } else if (n >= half) {
        _mm_storeu_ps((float *)p, _mm256_castps256_ps128((__m256)v));
        _mm_storeu_ps((float *)(p + n - half), _mm256_castps256_ps128(lanes_from(v, n - half)));
#if !PPLCONV_F64
    } else if (n >= 2) {
        _mm_storel_pi((__m64 *)p, _mm256_castps256_ps128((__m256)v));
        _mm_storel_pi((__m64 *)(p + n - 2), _mm256_castps256_ps128(lanes_from(v, n - 2)));
#endif
    } else if (n > 0) {
        *p = v[0];
    }
}

#elif PPLCONV_NEON
#include "lanes_neon.h"
#else

typedef vector_bits lane_mask;

static inline lane_mask lanes_between(int64_t begin, int64_t end) {
    lane_mask m;
    for (int64_t i = 0; i < LANES; i++) m[i] = -(element_bits)(i >= begin && i < end);
    return m;
}
static inline vector load_masked(const element *p, lane_mask m) {
    vector v = {0};
    for (int64_t i = 0; i < LANES; i++) {
        if (m[i]) v[i] = p[i];
    }
    return v;
}
/* NaN compares false and passes through, as it does through the second operand of the
 * instructions above. */
static inline vector at_least(vector x, vector low) { return select_lanes(x < low, low, x); }
static inline vector at_most(vector x, vector high) { return select_lanes(x > high, high, x); }
/* Two roundings: a fused product would be a call of the library for each lane. */
static inline vector multiply_add(vector a, vector b, vector c) { return c + a * b; }

static inline vector if_less(vector x, vector y, vector yes, vector no) {
    return select_lanes(x < y, yes, no);
}
static inline vector if_negative(vector x, vector yes, vector no) {
    return select_lanes((vector_bits)x < 0, yes, no);
}

static inline vector load_lanes(const element *p, int64_t n) {
    vector v = {0};
    for (int64_t i = 0; i < n; i++) v[i] = p[i];
    return v;
}
static inline void store_lanes(element *p, vector v, int64_t n) {
    for (int64_t i = 0; i < n; i++) p[i] = v[i];
}

#endif

#if !PPLCONV_NEON
/* Lane i of the result is lane index[i] of v. */
static inline vector pick_lanes(vector v, vector_bits index) { return shuffle(v, v, index); }

/* Elements begin .. end - 1 of p, each in its lane, as far as they have one. */
static inline vector load_between(const element *p, int64_t begin, int64_t end) {
    return load_masked(p, lanes_between(begin, end));
}
#endif

/* Bytes of a line of a cache. Stores past the caches are fast where they fill lines one by one. */
enum { CACHE_LINE = 64 };

/* Store a vector, past the caches or not. */
static inline void store_past(element *p, vector v, int64_t past) {
#if PPLCONV_VECTOR_BYTES == 64
    if (past) {
        _mm512_stream_si512((void *)p, (__m512i)v);
        return;
    }
#elif PPLCONV_VECTOR_BYTES == 32
    if (past) {
        _mm256_stream_si256((void *)p, (__m256i)v);
        return;
    }
#endif
    (void)past;
    *(unaligned_vector *)p = v;
}

/* How many elements lie before the next line of a cache. */
static inline int64_t before_line(const element *p) {
    return (int64_t)(-(uintptr_t)p % CACHE_LINE / sizeof(element));
}

/* The first n elements, fewer than LANES, from one place to another. */
static inline void copy_lanes(element *dst, const element *src, int64_t n) {
#if PPLCONV_VECTOR_BYTES == 32
    const int64_t half = LANES / 2;
    if (n >= half) {
        const __m128 first = _mm_loadu_ps((const float *)src);
        const __m128 last = _mm_loadu_ps((const float *)(src + n - half));
        _mm_storeu_ps((float *)dst, first);
        _mm_storeu_ps((float *)(dst + n - half), last);
        return;
    }
#endif
    store_lanes(dst, load_lanes(src, n), n);
}

/* The same as load_lanes and store_lanes, for rare tails in kernels that have many of them. Where
 * lanes go one by one, the loop is one function instead of many copies, which took the compiler
 * long. */
#if PPLCONV_VECTOR_BYTES == 16 && !PPLCONV_NEON
#define SELDOM static __attribute__((noinline, unused))
#else
#define SELDOM static inline
#endif
SELDOM vector load_tail(const element *p, int64_t n) { return load_lanes(p, n); }
SELDOM void store_tail(element *p, vector v, int64_t n) { store_lanes(p, v, n); }

/* Whether a part of a vector takes more stores than a whole vector. If so, the end of a row is a
 * whole vector that reaches back. NEON takes more stores too, but nobody has measured it there. */
enum { PREFER_WHOLE = PPLCONV_VECTOR_BYTES == 32 };

/* Zeros in n elements. */
static inline void clear(element *dst, int64_t n) {
    const vector zero = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) *(unaligned_vector *)(dst + i) = zero;
    if (i == n) return;
    if (PREFER_WHOLE && i) *(unaligned_vector *)(dst + n - LANES) = zero;
    else store_lanes(dst + i, zero, n - i);
}

#endif

/* Vectors of LANES 32-bit integers and floats, and arrays of narrower elements that are loaded into
 * them and stored from them: PPLCONV_TYPE_U8, _S8 or _S32, or none of them for float. */
#ifndef PPLCONV_WORDS_H
#define PPLCONV_WORDS_H

#include "lanes.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 4")

typedef uint32_t words __attribute__((vector_size(PPLCONV_VECTOR_BYTES), may_alias));

#if PPLCONV_TYPE_U8
typedef uint8_t stored;
enum { LEAST_STORED = 0, MOST_STORED = 255 };
#elif PPLCONV_TYPE_S8
typedef int8_t stored;
enum { LEAST_STORED = -128, MOST_STORED = 127 };
#elif PPLCONV_TYPE_S32
typedef int32_t stored;
#else
typedef float stored;
#endif

/* A number of an array that a program names, which may lie anywhere. */
INLINE float float_at(const float *p) {
    float number;
    memcpy(&number, p, sizeof number);
    return number;
}
INLINE int32_t word_at(const int32_t *p) {
    int32_t number;
    memcpy(&number, p, sizeof number);
    return number;
}

INLINE words splat_word(int32_t x) { return (words){0} + (uint32_t)x; }
INLINE vector splat(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (vector)((words){0} + bits);
}

/* n lanes, LANES of them where that is constant. */
INLINE vector load_vector(const void *p, int64_t n) {
    return n == LANES ? (vector) * (const unaligned_vector *)p : load_lanes(p, n);
}
INLINE void store_vector(void *p, vector v, int64_t n) {
    if (n == LANES) *(unaligned_vector *)p = v;
    else store_lanes(p, v, n);
}

INLINE vector to_float(words w) {
#if PPLCONV_VECTOR_BYTES == 64
    return (vector)_mm512_cvtepi32_ps((__m512i)w);
#elif PPLCONV_VECTOR_BYTES == 32
    return (vector)_mm256_cvtepi32_ps((__m256i)w);
#else
    return __builtin_convertvector((vector_bits)w, vector);
#endif
}

/* To the nearest, ties to even, for magnitudes below 2^22. On levels that saturate bytes
 * (`narrow.h`) numbers may be up to 2^31, and numbers that are too negative become the least
 * integer. */
INLINE words rounded(vector v) {
#if PPLCONV_VECTOR_BYTES == 64
    return (words)_mm512_cvtps_epi32((__m512)v);
#elif PPLCONV_VECTOR_BYTES == 32
    return (words)_mm256_cvtps_epi32((__m256)v);
#elif PPLCONV_NEON && defined(__aarch64__)
    return (words)vcvtnq_s32_f32((float32x4_t)v);
#else
    /* In the sum the last digit weighs one. */
    return (words)(v + 0x1.8p23f) - 0x4b400000u;
#endif
}

#if PPLCONV_TYPE_U8 || PPLCONV_TYPE_S8

/* As many bytes as a vector has lanes. */
#if PPLCONV_VECTOR_BYTES == 64

INLINE words load_stored(const stored *p, int64_t n) {
    const __m128i bytes =
        n == LANES ? _mm_loadu_si128((const __m128i *)p) : _mm_maskz_loadu_epi8(first_lanes(n), p);
#if PPLCONV_TYPE_U8
    return (words)_mm512_cvtepu8_epi32(bytes);
#else
    return (words)_mm512_cvtepi8_epi32(bytes);
#endif
}
INLINE void store_stored(stored *p, words w, int64_t n) {
    const __m128i bytes = _mm512_cvtepi32_epi8((__m512i)w);
    if (n == LANES) _mm_storeu_si128((__m128i *)p, bytes);
    else _mm_mask_storeu_epi8(p, first_lanes(n), bytes);
}
typedef __m512i pairs;
typedef __m512i quads;

INLINE pairs pairs_of(words a, words b) { return _mm512_packs_epi32((__m512i)a, (__m512i)b); }
INLINE quads quads_of(pairs a, pairs b) {
#if PPLCONV_TYPE_U8
    const __m512i bytes = _mm512_packus_epi16(a, b);
#else
    const __m512i bytes = _mm512_packs_epi16(a, b);
#endif
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, bytes);
}
INLINE void store_quads(stored *p, quads b) { _mm512_storeu_si512(p, b); }

#else

#if PPLCONV_VECTOR_BYTES == 32
typedef uint64_t lane_bytes;
#else
typedef uint32_t lane_bytes;
#endif

/* Bytes of n lanes, in pieces as the bits of n say. */
INLINE lane_bytes load_bytes(const stored *p, int64_t n) {
    lane_bytes all = 0;
    if (n == LANES) {
        memcpy(&all, p, sizeof all);
        return all;
    }
    int64_t at = 0;
#if PPLCONV_VECTOR_BYTES == 32
    if (n & 4) {
        uint32_t four;
        memcpy(&four, p, 4);
        all = four;
        at = 4;
    }
#endif
    if (n & 2) {
        uint16_t two;
        memcpy(&two, p + at, 2);
        all |= (lane_bytes)two << 8 * at;
        at += 2;
    }
    if (n & 1) all |= (lane_bytes)(uint8_t)p[at] << 8 * at;
    return all;
}
INLINE void store_bytes(stored *p, lane_bytes all, int64_t n) {
    if (n == LANES) {
        memcpy(p, &all, sizeof all);
        return;
    }
#if PPLCONV_VECTOR_BYTES == 32
    if (n & 4) {
        memcpy(p, &all, 4);
        all >>= 32;
        p += 4;
    }
#endif
    if (n & 2) {
        memcpy(p, &all, 2);
        all >>= 16;
        p += 2;
    }
    if (n & 1) memcpy(p, &all, 1);
}

#if PPLCONV_VECTOR_BYTES == 32

INLINE words load_stored(const stored *p, int64_t n) {
    const __m128i bytes = _mm_cvtsi64_si128((long long)load_bytes(p, n));
#if PPLCONV_TYPE_U8
    return (words)_mm256_cvtepu8_epi32(bytes);
#else
    return (words)_mm256_cvtepi8_epi32(bytes);
#endif
}
typedef __m256i pairs;
typedef __m256i quads;

INLINE pairs pairs_of(words a, words b) { return _mm256_packs_epi32((__m256i)a, (__m256i)b); }
INLINE quads quads_of(pairs a, pairs b) {
#if PPLCONV_TYPE_U8
    const __m256i bytes = _mm256_packus_epi16(a, b);
#else
    const __m256i bytes = _mm256_packs_epi16(a, b);
#endif
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
INLINE void store_quads(stored *p, quads b) { _mm256_storeu_si256((__m256i *)p, b); }
INLINE lane_bytes first_bytes(quads b) { return (uint64_t)_mm256_extract_epi64(b, 0); }

#elif PPLCONV_NEON && defined(__aarch64__)

INLINE words load_stored(const stored *p, int64_t n) {
    const uint8x8_t bytes = vcreate_u8(load_bytes(p, n));
#if PPLCONV_TYPE_U8
    return (words)vmovl_u16(vget_low_u16(vmovl_u8(bytes)));
#else
    return (words)vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(bytes))));
#endif
}
typedef int16x8_t pairs;
typedef uint8x16_t quads;

INLINE pairs pairs_of(words a, words b) {
    return vqmovn_high_s32(vqmovn_s32((int32x4_t)a), (int32x4_t)b);
}
INLINE quads quads_of(pairs a, pairs b) {
#if PPLCONV_TYPE_U8
    return vqmovun_high_s16(vqmovun_s16(a), b);
#else
    return vreinterpretq_u8_s8(vqmovn_high_s16(vqmovn_s16(a), b));
#endif
}
INLINE void store_quads(stored *p, quads b) { vst1q_u8((uint8_t *)p, b); }
INLINE lane_bytes first_bytes(quads b) { return vgetq_lane_u32(vreinterpretq_u32_u8(b), 0); }

#else
#define PPLCONV_NO_PACKING 1

INLINE words load_stored(const stored *p, int64_t n) {
    words w = {0};
    for (int64_t i = 0; i < n; i++) w[i] = (uint32_t)(int32_t)p[i];
    return w;
}
INLINE void store_stored(stored *p, words w, int64_t n) {
    for (int64_t i = 0; i < n; i++) p[i] = (stored)w[i];
}
INLINE void store_four(stored *p, const words w[4]) {
    for (int v = 0; v < 4; v++) store_stored(p + v * LANES, w[v], LANES);
}

#endif
#endif

#if !PPLCONV_NO_PACKING
/* `pairs` holds twice as many int16 as a vector has lanes, `quads` four times as many bytes. Each
 * is made from two of the step before, saturated. `quads` are in order; the order of `pairs`
 * depends on the level. */
#if PPLCONV_VECTOR_BYTES != 64
INLINE void store_stored(stored *p, words w, int64_t n) {
    const pairs two = pairs_of(w, w);
    store_bytes(p, first_bytes(quads_of(two, two)), n);
}
#endif
INLINE void store_four(stored *p, const words w[4]) {
    store_quads(p, quads_of(pairs_of(w[0], w[1]), pairs_of(w[2], w[3])));
}
#endif

#else

/* Elements as wide as a lane. */
INLINE words load_stored(const stored *p, int64_t n) { return (words)load_vector(p, n); }
INLINE void store_stored(stored *p, words w, int64_t n) { store_vector(p, (vector)w, n); }
INLINE void store_four(stored *p, const words w[4]) {
    UNROLL for (int v = 0; v < 4; v++)
        store_stored(p + v * LANES, w[v], LANES);
}

#endif

#endif

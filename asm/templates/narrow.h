/* The last steps of sums on their way to bytes, where a level has instructions that saturate: the
 * clamp and the zero point follow the rounding. The result equals that of a clamp before the
 * rounding, since rounding, adding and saturating keep the order of numbers: a number between the
 * bounds stays between the converted bounds. So clamp and zero point are applied to two or four
 * numbers in a lane. */
#ifndef PPLCONV_NARROW_H
#define PPLCONV_NARROW_H

#include "words.h"

/* The largest float that is an int32. The instructions of x86 convert larger numbers to the least
 * integer, as they do numbers that are too small; those of Arm saturate. */
enum { LARGEST_WORD = 0x7fffff80 };

#if PPLCONV_VECTOR_BYTES == 64

INLINE pairs splat_pair(int32_t x) { return _mm512_set1_epi16((short)x); }
INLINE pairs add_pairs(pairs a, pairs b) { return _mm512_adds_epi16(a, b); }
#if PPLCONV_TYPE_U8
INLINE quads larger(quads a, quads b) { return _mm512_max_epu8(a, b); }
INLINE quads smaller(quads a, quads b) { return _mm512_min_epu8(a, b); }
#else
INLINE quads larger(quads a, quads b) { return _mm512_max_epi8(a, b); }
INLINE quads smaller(quads a, quads b) { return _mm512_min_epi8(a, b); }
#endif
INLINE int any_bit(words w, uint32_t bit) {
    return _mm512_test_epi32_mask((__m512i)w, _mm512_set1_epi32((int)bit)) != 0;
}
INLINE void store_half(stored *p, quads b, const int half) {
    _mm256_storeu_si256((__m256i *)p,
                        half ? _mm512_extracti64x4_epi64(b, 1) : _mm512_castsi512_si256(b));
}
INLINE void store_quarter(stored *p, quads b, const int quarter, int64_t n) {
    const __m128i bytes = quarter == 0   ? _mm512_castsi512_si128(b)
                          : quarter == 1 ? _mm512_extracti32x4_epi32(b, 1)
                          : quarter == 2 ? _mm512_extracti32x4_epi32(b, 2)
                                         : _mm512_extracti32x4_epi32(b, 3);
    if (n == LANES) _mm_storeu_si128((__m128i *)p, bytes);
    else _mm_mask_storeu_epi8(p, first_lanes(n), bytes);
}

#elif PPLCONV_VECTOR_BYTES == 32

INLINE pairs splat_pair(int32_t x) { return _mm256_set1_epi16((short)x); }
INLINE pairs add_pairs(pairs a, pairs b) { return _mm256_adds_epi16(a, b); }
#if PPLCONV_TYPE_U8
INLINE quads larger(quads a, quads b) { return _mm256_max_epu8(a, b); }
INLINE quads smaller(quads a, quads b) { return _mm256_min_epu8(a, b); }
#else
INLINE quads larger(quads a, quads b) { return _mm256_max_epi8(a, b); }
INLINE quads smaller(quads a, quads b) { return _mm256_min_epi8(a, b); }
#endif
INLINE int any_bit(words w, uint32_t bit) {
    return !_mm256_testz_si256((__m256i)w, _mm256_set1_epi32((int)bit));
}
INLINE void store_half(stored *p, quads b, const int half) {
    _mm_storeu_si128((__m128i *)p,
                     half ? _mm256_extracti128_si256(b, 1) : _mm256_castsi256_si128(b));
}
INLINE void store_quarter(stored *p, quads b, const int quarter, int64_t n) {
    const long long bytes = quarter == 0   ? _mm256_extract_epi64(b, 0)
                            : quarter == 1 ? _mm256_extract_epi64(b, 1)
                            : quarter == 2 ? _mm256_extract_epi64(b, 2)
                                           : _mm256_extract_epi64(b, 3);
    store_bytes(p, (uint64_t)bytes, n);
}

#else

INLINE pairs splat_pair(int32_t x) { return vdupq_n_s16((int16_t)x); }
INLINE pairs add_pairs(pairs a, pairs b) { return vqaddq_s16(a, b); }
#if PPLCONV_TYPE_U8
INLINE quads larger(quads a, quads b) { return vmaxq_u8(a, b); }
INLINE quads smaller(quads a, quads b) { return vminq_u8(a, b); }
#else
INLINE quads larger(quads a, quads b) { return (quads)vmaxq_s8((int8x16_t)a, (int8x16_t)b); }
INLINE quads smaller(quads a, quads b) { return (quads)vminq_s8((int8x16_t)a, (int8x16_t)b); }
#endif
INLINE void store_half(stored *p, quads b, const int half) {
    vst1_u8((uint8_t *)p, half ? vget_high_u8(b) : vget_low_u8(b));
}
INLINE void store_quarter(stored *p, quads b, const int quarter, int64_t n) {
    const uint32x4_t bytes = vreinterpretq_u32_u8(b);
    store_bytes(p,
                quarter == 0   ? vgetq_lane_u32(bytes, 0)
                : quarter == 1 ? vgetq_lane_u32(bytes, 1)
                : quarter == 2 ? vgetq_lane_u32(bytes, 2)
                               : vgetq_lane_u32(bytes, 3),
                n);
}

#endif

/* Values shared by all elements of a call: zero, and the converted bounds. */
struct ends {
    pairs zero;
    quads low, high;
};

/* `huge`: numbers may be beyond LARGEST_WORD. */
INLINE words rounded_within(vector v, const int huge) {
    return rounded(huge ? at_most(v, splat(LARGEST_WORD)) : v);
}

INLINE quads saturated(const words w[4]) {
    return quads_of(pairs_of(w[0], w[1]), pairs_of(w[2], w[3]));
}

/* Four vectors, without the bounds. */
INLINE quads placed(pairs zero, const words w[4]) {
    return quads_of(add_pairs(pairs_of(w[0], w[1]), zero), add_pairs(pairs_of(w[2], w[3]), zero));
}
INLINE quads placed_bound(pairs zero, float bound) {
    const words w = rounded_within(splat(bound), 1);
    return placed(zero, (const words[4]){w, w, w, w});
}
INLINE struct ends ends_of(const struct pplconv_quantization *q) {
    const pairs zero = splat_pair(q->zero);
    return (struct ends){zero, placed_bound(zero, q->low), placed_bound(zero, q->high)};
}
INLINE quads narrowed(const struct ends *e, const words w[4]) {
    return smaller(larger(placed(e->zero, w), e->low), e->high);
}

#if !PPLCONV_NEON
/* Whether products of int32 by these could be beyond half of LARGEST_WORD: whether any of them is a
 * half or more. Then its exponent, or the one after the next, has the topmost bit. */
INLINE int any_huge(const float *scale, int64_t count) {
    words any = {0};
    for (int64_t i = 0; i < count; i += LANES) {
        const words bits = (words)load_vector(scale + i, count - i < LANES ? count - i : LANES);
        any |= bits | (bits + 0x01000000u);
    }
    return any_bit(any, 0x40000000u);
}
#endif

#endif

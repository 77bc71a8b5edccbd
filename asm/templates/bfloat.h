/* bfloat16, the upper half of a float, as it lies in memory, to and from float. Widening is exact;
 * narrowing rounds to the nearest, ties to even. Both are arithmetic on integers, which keeps
 * subnormal numbers whatever flush-to-zero says. The level with x86's conversion instructions,
 * which flush them to zero, narrows by these; flushed.h says where Arm's is used. NaN keeps its
 * sign and the upper bits of its payload, and becomes quiet when it is narrowed. */
#ifndef PPLCONV_BFLOAT_H
#define PPLCONV_BFLOAT_H

#include "flushed.h"
#include "lanes.h"

typedef uint16_t bfloat;
typedef uint32_t float_bits __attribute__((vector_size(PPLCONV_VECTOR_BYTES), may_alias));

#if PPLCONV_VECTOR_BYTES == 64

static inline vector widened(__m256i bfloats) {
    return (vector)_mm512_slli_epi32(_mm512_cvtepu16_epi32(bfloats), 16);
}
static inline __m256i narrowed(vector v) {
#if defined(__AVX512BF16__)
    return (__m256i)_mm512_cvtneps_pbh((__m512)v);
#else
    const __m512i bits = (__m512i)v, one = _mm512_set1_epi32(1);
    const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
    const __mmask16 nan = _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q);
    /* A carry out of the digits goes into the exponent, as it should. */
    const __m512i below = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
    const __m512i even = _mm512_mask_add_epi32(below, odd, below, one);
    const __m512i all = _mm512_mask_or_epi32(even, nan, bits, _mm512_set1_epi32(0x400000));
    const __m512i upper = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0x1f001d, 0x1b0019, 0x170015,
                                           0x130011, 0xf000d, 0xb0009, 0x70005, 0x30001);
    return _mm512_castsi512_si256(_mm512_permutexvar_epi16(upper, all));
#endif
}
static inline vector load_bfloat(const bfloat *p) {
    return widened(_mm256_loadu_si256((const __m256i *)p));
}
static inline void store_bfloat(bfloat *p, vector v) {
    _mm256_storeu_si256((__m256i *)p, narrowed(v));
}

#else

/* The upper half of each lane, rounded, in its lower half. */
static inline float_bits upper_halves(vector v) {
    const float_bits bits = (float_bits)v, upper = bits >> 16;
    /* A carry out of the digits goes into the exponent, as it should. */
    const float_bits rounded = (bits + 0x7fffu + (upper & 1u)) >> 16;
    const vector_bits nan = v != v;
    return ((float_bits)nan & (upper | 0x40u)) | (~(float_bits)nan & rounded);
}

#if PPLCONV_VECTOR_BYTES == 32

static inline vector load_bfloat(const bfloat *p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return (vector)_mm256_slli_epi32(wide, 16);
}
static inline void store_bfloat(bfloat *p, vector v) {
    const __m256i upper = (__m256i)upper_halves(v);
    _mm_storeu_si128((__m128i *)p, _mm_packus_epi32(_mm256_castsi256_si128(upper),
                                                    _mm256_extracti128_si256(upper, 1)));
}

#elif PPLCONV_NEON && defined(__aarch64__)

static inline vector load_bfloat(const bfloat *p) { return (vector)vshll_n_u16(vld1_u16(p), 16); }
static inline void store_bfloat(bfloat *p, vector v) {
    vst1_u16(p, vmovn_u32((uint32x4_t)upper_halves(v)));
}
#if HAS_BFCVTN
static inline void store_flushed_bfloat(bfloat *p, vector v) {
    vst1_u16(p, vreinterpret_u16_bf16(vcvt_bf16_f32((float32x4_t)v)));
}
#endif

#else

typedef bfloat bfloat_vector __attribute__((vector_size(PPLCONV_VECTOR_BYTES / 2)));

static inline vector load_bfloat(const bfloat *p) {
    bfloat_vector b;
    memcpy(&b, p, sizeof b);
    return (vector)(__builtin_convertvector(b, float_bits) << 16);
}
static inline void store_bfloat(bfloat *p, vector v) {
    const bfloat_vector b = __builtin_convertvector(upper_halves(v), bfloat_vector);
    memcpy(p, &b, sizeof b);
}

#endif
#endif

/* The first n lanes: zeros in the others, and nothing behind them is touched. */
#if PPLCONV_VECTOR_BYTES == 64
static inline vector load_bfloat_lanes(const bfloat *p, int64_t n) {
    return widened(_mm256_maskz_loadu_epi16(first_lanes(n), p));
}
static inline void store_bfloat_lanes(bfloat *p, vector v, int64_t n) {
    _mm256_mask_storeu_epi16(p, first_lanes(n), narrowed(v));
}
#else
/* Functions, not copies in each loop. */
#define LAST_LANES static __attribute__((noinline, unused))
LAST_LANES vector load_bfloat_lanes(const bfloat *p, int64_t n) {
    bfloat buffer[LANES] = {0};
    for (int64_t i = 0; i < n; i++) buffer[i] = p[i];
    return load_bfloat(buffer);
}
LAST_LANES void store_bfloat_lanes(bfloat *p, vector v, int64_t n) {
    bfloat buffer[LANES];
    store_bfloat(buffer, v);
    for (int64_t i = 0; i < n; i++) p[i] = buffer[i];
}
#if HAS_BFCVTN
LAST_LANES void store_flushed_bfloat_lanes(bfloat *p, vector v, int64_t n) {
    bfloat buffer[LANES];
    store_flushed_bfloat(buffer, v);
    for (int64_t i = 0; i < n; i++) p[i] = buffer[i];
}
#endif
#endif

#endif

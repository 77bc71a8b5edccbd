/* Half precision (IEEE 754 binary16) as it lies in memory, to and from float. Widening is exact;
 * narrowing rounds to the nearest, ties to even, whatever flush-to-zero says: subnormal halves
 * are normal floats. NaN keeps its sign and the upper bits of its payload, and becomes quiet. */
#ifndef PPLCONV_HALF_H
#define PPLCONV_HALF_H

#include "lanes.h"

#if PPLCONV_F64
#error "half precision is computed in float"
#endif

typedef uint16_t half;

#if PPLCONV_VECTOR_BYTES == 64

static inline vector widened(__m256i halves) { return (vector)_mm512_cvtph_ps(halves); }
static inline __m256i narrowed(vector v) {
    return _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vector load_half(const half *p) {
    return widened(_mm256_loadu_si256((const __m256i *)p));
}
static inline void store_half(half *p, vector v) { _mm256_storeu_si256((__m256i *)p, narrowed(v)); }

#elif PPLCONV_VECTOR_BYTES == 32

static inline vector load_half(const half *p) {
    return (vector)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
static inline void store_half(half *p, vector v) {
    _mm_storeu_si128((__m128i *)p,
                     _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#elif defined(__aarch64__) && PPLCONV_VECTOR_BYTES == 16
#include <arm_neon.h>

static inline vector load_half(const half *p) {
    return (vector)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
static inline void store_half(half *p, vector v) {
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)v)));
}

#else

typedef uint32_t vector_words __attribute__((vector_size(PPLCONV_VECTOR_BYTES), may_alias));

static inline vector_words select_words(vector_words mask, vector_words yes, vector_words no) {
    return (mask & yes) | (~mask & no);
}

static inline vector load_half(const half *p) {
    vector_words h = {0};
    for (int i = 0; i < LANES; i++) h[i] = p[i];
    const vector_words sign = (h & 0x8000u) << 16, rest = h & 0x7fffu;
    const vector_words above = (vector_words)(rest >= 0x7c00u); /* infinities and NaN */
    const vector_words below = (vector_words)(rest < 0x400u);   /* subnormal numbers and zero */
    const vector_words quiet = (vector_words)(rest > 0x7c00u) & 0x400000u;
    /* The exponent's bias differs by 112, and by as much again where it stands for infinity. */
    vector_words bits = (rest << 13) + (112u << 23) + (above & (112u << 23));
    const vector small = __builtin_convertvector((vector_bits)rest, vector) * 0x1p-24f;
    bits = select_words(below, (vector_words)small, bits);
    return (vector)(bits | quiet | sign);
}

static inline void store_half(half *p, vector v) {
    const vector_words bits = (vector_words)v, sign = bits >> 16 & 0x8000u;
    const vector_words rest = bits & 0x7fffffffu;
    const vector_words nan = (vector_words)(rest > 0x7f800000u);
    const vector_words above = (vector_words)(rest >= 0x477ff000u); /* 65520 rounds to infinity */
    const vector_words below = (vector_words)(rest < 0x38800000u);  /* 2^-14, the least normal */
    vector_words h = rest - (112u << 23);
    h = (h + 0xfffu + (h >> 13 & 1u)) >> 13;
    /* In the sum with 0.5 the last bit weighs as much as a half's least number. */
    const vector_words sum = (vector_words)((vector)(rest & below) + 0.5f) - 0x3f000000u;
    h = select_words(below, sum, h);
    h = select_words(above, 0u * rest + 0x7c00u, h);
    h = select_words(nan, 0x7e00u | (rest >> 13 & 0x3ffu), h);
    h |= sign;
    for (int i = 0; i < LANES; i++) p[i] = (half)h[i];
}

#endif

#endif

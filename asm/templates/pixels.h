/* Pixels of integers as vectors of numbers. */
#ifndef PPLCONV_PIXELS_H
#define PPLCONV_PIXELS_H

#include "lanes.h"

typedef int32_t words __attribute__((vector_size(4 * LANES)));

/* x86 widens a vector of small integers by one instruction, which compilers do not find. */
#if PPLCONV_VECTOR_BYTES == 64 && !PPLCONV_F64
#define WIDEN(name, x) _mm512_##name(x)
#define NUMBERS(x) _mm512_cvtepi32_ps((__m512i)(x))
#define LOAD_BYTES(from) _mm_loadu_si128((const __m128i *)(from))
#define LOAD_HALVES(from) _mm256_loadu_si256((const __m256i *)(from))
#elif PPLCONV_VECTOR_BYTES == 64 || (PPLCONV_VECTOR_BYTES == 32 && !PPLCONV_F64)
#define WIDEN(name, x) _mm256_##name(x)
#if PPLCONV_F64
#define NUMBERS(x) _mm512_cvtepi32_pd((__m256i)(x))
#else
#define NUMBERS(x) _mm256_cvtepi32_ps((__m256i)(x))
#endif
#define LOAD_BYTES(from) _mm_loadl_epi64((const __m128i *)(from))
#define LOAD_HALVES(from) _mm_loadu_si128((const __m128i *)(from))
#else
#define LOAD_AS(type)                                                                              \
    ({                                                                                             \
        typedef type few                                                                           \
            __attribute__((vector_size(LANES * sizeof(type)), aligned(1), may_alias));             \
        __builtin_convertvector(__builtin_convertvector(*(const few *)from, words), vector);       \
    })
#endif

/* A vector of pixels of a kind, PPLCONV_PIXELS_*, of 8 or 16 bits. */
static inline __attribute__((always_inline)) vector load_pixels(const char *from,
                                                                const int64_t kind) {
#ifdef WIDEN
    const words whole = kind == PPLCONV_PIXELS_U8   ? (words)WIDEN(cvtepu8_epi32, LOAD_BYTES(from))
                        : kind == PPLCONV_PIXELS_S8 ? (words)WIDEN(cvtepi8_epi32, LOAD_BYTES(from))
                        : kind == PPLCONV_PIXELS_U16
                            ? (words)WIDEN(cvtepu16_epi32, LOAD_HALVES(from))
                            : (words)WIDEN(cvtepi16_epi32, LOAD_HALVES(from));
    return (vector)NUMBERS(whole);
#else
    if (kind == PPLCONV_PIXELS_U8) return LOAD_AS(uint8_t);
    if (kind == PPLCONV_PIXELS_S8) return LOAD_AS(int8_t);
    if (kind == PPLCONV_PIXELS_U16) return LOAD_AS(uint16_t);
    return LOAD_AS(int16_t);
#endif
}

#endif

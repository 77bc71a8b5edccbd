/* Vectors of 16-bit integers for filters of bytes. */
#ifndef PPLCONV_FILTER_ROW_H
#define PPLCONV_FILTER_ROW_H

#include <string.h>

#include "clean.h"
#include "pplconv_kernels.h"

#define PPLCONV_HIDDEN __attribute__((visibility("hidden")))
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 4")

enum { WORDS = PPLCONV_VECTOR_BYTES / 2, TOGETHER = 4 };

typedef uint16_t words __attribute__((vector_size(PPLCONV_VECTOR_BYTES)));
typedef int16_t signed_words __attribute__((vector_size(PPLCONV_VECTOR_BYTES)));
typedef uint8_t bytes __attribute__((vector_size(WORDS)));

/* Parameters in vectors: see the contract. */
struct rounding {
    words add, factor, low, high, one;
    int64_t shift;
};

INLINE struct rounding rounding_of(const struct pplconv_filter_row_args *a) {
    const words zero = {0};
    /* Half of what is shifted out, less one, is added, and one more to odd integers. */
    const int even = a->mode != PPLCONV_SUMS_DIVIDED && a->shift > 0;
    const struct rounding r = {
        .add = zero + (uint16_t)a->add,
        .factor = zero + (uint16_t)a->factor,
        .low = zero + (uint16_t)a->low,
        .high = zero + (uint16_t)a->high,
        .one = zero + (uint16_t)even,
        .shift = a->shift,
    };
    return r;
}

/* Compilers convert long vectors in halves. */
#if PPLCONV_VECTOR_BYTES == 64
INLINE words widened(bytes b) { return (words)_mm512_cvtepu8_epi16((__m256i)b); }
INLINE bytes narrowed(words w) { return (bytes)_mm512_cvtepi16_epi8((__m512i)w); }
INLINE words smaller(words a, words b) { return (words)_mm512_min_epu16((__m512i)a, (__m512i)b); }
INLINE words between(words x, words low, words high) {
    x = (words)_mm512_max_epi16((__m512i)x, (__m512i)low);
    return (words)_mm512_min_epi16((__m512i)x, (__m512i)high);
}
INLINE words upper_halves(words a, words b) {
    return (words)_mm512_mulhi_epu16((__m512i)a, (__m512i)b);
}
INLINE words shifted(words x, int64_t by) {
    return (words)_mm512_srl_epi16((__m512i)x, _mm_cvtsi64_si128(by));
}
#elif PPLCONV_VECTOR_BYTES == 32
INLINE words widened(bytes b) { return (words)_mm256_cvtepu8_epi16((__m128i)b); }
INLINE bytes narrowed(words w) {
    const __m256i low = _mm256_and_si256((__m256i)w, _mm256_set1_epi16(0xff));
    return (bytes)_mm_packus_epi16(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
}
INLINE words smaller(words a, words b) { return (words)_mm256_min_epu16((__m256i)a, (__m256i)b); }
INLINE words between(words x, words low, words high) {
    x = (words)_mm256_max_epi16((__m256i)x, (__m256i)low);
    return (words)_mm256_min_epi16((__m256i)x, (__m256i)high);
}
INLINE words upper_halves(words a, words b) {
    return (words)_mm256_mulhi_epu16((__m256i)a, (__m256i)b);
}
INLINE words shifted(words x, int64_t by) {
    return (words)_mm256_srl_epi16((__m256i)x, _mm_cvtsi64_si128(by));
}
#else
INLINE words widened(bytes b) { return __builtin_convertvector(b, words); }
INLINE bytes narrowed(words w) { return __builtin_convertvector(w, bytes); }
INLINE words pick(signed_words mask, words yes, words no) {
    return ((words)mask & yes) | (~(words)mask & no);
}
INLINE words smaller(words a, words b) { return pick((signed_words)(a < b), a, b); }
INLINE words between(words x, words low, words high) {
    x = pick((signed_words)x < (signed_words)low, low, x);
    return pick((signed_words)x > (signed_words)high, high, x);
}
INLINE words upper_halves(words a, words b) {
    typedef uint32_t longs __attribute__((vector_size(2 * PPLCONV_VECTOR_BYTES)));
    const longs product = __builtin_convertvector(a, longs) * __builtin_convertvector(b, longs);
    return __builtin_convertvector(product >> 16, words);
}
INLINE words shifted(words x, int64_t by) { return x >> (uint16_t)by; }
#endif

INLINE words load_words(const void *from, const int64_t kind) {
    words w;
    if (kind == 1) {
        bytes b;
        memcpy(&b, from, sizeof b);
        return widened(b);
    }
    memcpy(&w, from, sizeof w);
    return w;
}

INLINE void store_words(void *to, words w, const int64_t size) {
    if (size == 1) {
        const bytes b = narrowed(w);
        memcpy(to, &b, sizeof b);
    } else {
        memcpy(to, &w, sizeof w);
    }
}

#endif

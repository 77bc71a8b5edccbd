/* Vectors of 16-bit integers for filters of bytes. */
#ifndef PPLCONV_FILTER_ROW_H
#define PPLCONV_FILTER_ROW_H

#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

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
    uint16_t shift;
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
        .shift = (uint16_t)a->shift,
    };
    return r;
}

INLINE words load_words(const void *from, const int64_t kind) {
    words w;
    if (kind == 1) {
        bytes b;
        memcpy(&b, from, sizeof b);
        return __builtin_convertvector(b, words);
    }
    memcpy(&w, from, sizeof w);
    return w;
}

INLINE void store_words(void *to, words w, const int64_t size) {
    if (size == 1) {
        const bytes b = __builtin_convertvector(w, bytes);
        memcpy(to, &b, sizeof b);
    } else {
        memcpy(to, &w, sizeof w);
    }
}

INLINE words pick(signed_words mask, words yes, words no) {
    return ((words)mask & yes) | (~(words)mask & no);
}
INLINE words smaller(words a, words b) { return pick(a < b, a, b); }

/* The upper 16 bits of products. */
INLINE words upper_halves(words a, words b) {
#if PPLCONV_VECTOR_BYTES == 64
    return (words)_mm512_mulhi_epu16((__m512i)a, (__m512i)b);
#elif PPLCONV_VECTOR_BYTES == 32
    return (words)_mm256_mulhi_epu16((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
    return (words)_mm_mulhi_epu16((__m128i)a, (__m128i)b);
#else
    typedef uint32_t longs __attribute__((vector_size(2 * PPLCONV_VECTOR_BYTES)));
    const longs product = __builtin_convertvector(a, longs) * __builtin_convertvector(b, longs);
    return __builtin_convertvector(product >> 16, words);
#endif
}

#endif

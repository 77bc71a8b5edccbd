/* Winograd's transforms of bytes and of their weights: values are words, none of which overflows,
 * and pixels outside the image count as a number that the caller names. */
#ifndef PPLCONV_WINOGRAD_WORDS_H
#define PPLCONV_WINOGRAD_WORDS_H

#include "bytes.h"

enum { LANES = PPLCONV_VECTOR_BYTES / 2, WORDS_OF_PIECE = 8 };

typedef int16_t element;
typedef int16_t value __attribute__((vector_size(PPLCONV_VECTOR_BYTES), may_alias));
typedef int16_t unaligned_vector
    __attribute__((vector_size(PPLCONV_VECTOR_BYTES), aligned(2), may_alias));

INLINE value splat(double x) { return (value){0} + (int16_t)x; }

#if WINOGRAD_PIXELS

#if PPLCONV_TYPE_S8
typedef int8_t pixel;
#else
typedef uint8_t pixel;
#endif
typedef pixel pixels __attribute__((vector_size(LANES), aligned(1), may_alias));

INLINE value outside_of(const struct pplconv_winograd_input_args *a) {
    return (value){0} + (int16_t)a->outside;
}
INLINE value load_pixels(const void *p) {
    return __builtin_convertvector(*(const pixels *)p, value);
}

/* Of n pixels or values, fewer than a vector has: nothing beyond them is touched. */
static __attribute__((noinline)) value load_tail(const pixel *p, int64_t n) {
    pixels bytes;
#if PPLCONV_VECTOR_BYTES == 64
    const __m256i all = _mm256_maskz_loadu_epi8((__mmask32)((1ull << n) - 1u), p);
    memcpy(&bytes, &all, sizeof bytes);
#else
    const piece all = load_part(p, n);
    memcpy(&bytes, &all, sizeof bytes);
#endif
    return __builtin_convertvector(bytes, value);
}
static __attribute__((noinline)) void store_tail(element *p, value v, int64_t n) {
#if PPLCONV_VECTOR_BYTES == 64
    _mm512_mask_storeu_epi16(p, (__mmask32)((1ull << n) - 1u), (__m512i)v);
#else
    piece parts[LANES / WORDS_OF_PIECE];
    memcpy(parts, &v, sizeof v);
    for (int at = 0; at < n; at += WORDS_OF_PIECE) {
        store_part(p + at, parts[at / WORDS_OF_PIECE], 2 * least(n - at, WORDS_OF_PIECE));
    }
#endif
}

/* A number of lanes: none of them where a row is outside. */
typedef int64_t lane_set;
INLINE lane_set lanes_up_to(int64_t n) { return n; }
INLINE value load_inside(const pixel *p, int64_t n, lane_set s, value outside) {
    (void)n;
    if (s == LANES) return load_pixels(p);
    return s ? load_tail(p, s) : outside;
}

#endif
#endif

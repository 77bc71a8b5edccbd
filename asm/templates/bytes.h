/* Vectors of 16 bytes, and of 32 where the machine shuffles within both halves, for elements of one
 * or two bytes: interleaving, which transposes, and parts that touch nothing beyond them. Kernels
 * that only move bits have one template for all types of a size: PPLCONV_TYPE_U8 or
 * PPLCONV_TYPE_S16. */
#ifndef PPLCONV_BYTES_H
#define PPLCONV_BYTES_H

#include <string.h>

#include "pplconv_kernels.h"

#if PPLCONV_TYPE_S16
typedef uint16_t item;
#else
typedef uint8_t item;
#endif

#define PPLCONV_HIDDEN __attribute__((visibility("hidden")))
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
#define AT(type, pointer, bytes) ((type *)((char *)(pointer) + (bytes)))
#define AT_CONST(type, pointer, bytes) ((const type *)((const char *)(pointer) + (bytes)))

enum { SIZE = (int)sizeof(item), ITEMS = 16 / SIZE };

/* zip_low and zip_high: items of the lower, or upper, halves of a and b in turn. */
#if defined(__SSE2__)
#include <immintrin.h>

typedef __m128i piece;

INLINE piece load_piece(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
INLINE void store_piece(void *p, piece v) { _mm_storeu_si128((__m128i *)p, v); }
INLINE piece zero_piece(void) { return _mm_setzero_si128(); }
INLINE piece piece_of(uint64_t low, uint64_t high) {
    return _mm_set_epi64x((long long)high, (long long)low);
}
INLINE uint64_t word_of(piece v, int half) {
    return (uint64_t)_mm_cvtsi128_si64(half ? _mm_unpackhi_epi64(v, v) : v);
}
INLINE piece zip_low(piece a, piece b) {
    return SIZE == 1 ? _mm_unpacklo_epi8(a, b) : _mm_unpacklo_epi16(a, b);
}
INLINE piece zip_high(piece a, piece b) {
    return SIZE == 1 ? _mm_unpackhi_epi8(a, b) : _mm_unpackhi_epi16(a, b);
}

#elif defined(__aarch64__)
#include <arm_neon.h>

typedef uint8x16_t piece;

INLINE piece load_piece(const void *p) { return vld1q_u8((const uint8_t *)p); }
INLINE void store_piece(void *p, piece v) { vst1q_u8((uint8_t *)p, v); }
INLINE piece zero_piece(void) { return vdupq_n_u8(0); }
INLINE piece piece_of(uint64_t low, uint64_t high) {
    return vcombine_u8(vcreate_u8(low), vcreate_u8(high));
}
INLINE uint64_t word_of(piece v, int half) {
    const uint64x2_t words = vreinterpretq_u64_u8(v);
    return half ? vgetq_lane_u64(words, 1) : vgetq_lane_u64(words, 0);
}
#if PPLCONV_TYPE_S16
INLINE piece zip_low(piece a, piece b) {
    return vreinterpretq_u8_u16(vzip1q_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)));
}
INLINE piece zip_high(piece a, piece b) {
    return vreinterpretq_u8_u16(vzip2q_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)));
}
#else
INLINE piece zip_low(piece a, piece b) { return vzip1q_u8(a, b); }
INLINE piece zip_high(piece a, piece b) { return vzip2q_u8(a, b); }
#endif

#else

typedef struct {
    item at[ITEMS];
} piece;

INLINE piece load_piece(const void *p) {
    piece v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void store_piece(void *p, piece v) { memcpy(p, &v, sizeof v); }
INLINE piece zero_piece(void) { return (piece){{0}}; }
INLINE piece piece_of(uint64_t low, uint64_t high) {
    const uint64_t words[2] = {low, high};
    return load_piece(words);
}
INLINE uint64_t word_of(piece v, int half) {
    uint64_t words[2];
    store_piece(words, v);
    return words[half];
}
static inline piece zip_low(piece a, piece b) {
    piece v;
    for (int i = 0; i < ITEMS; i++) v.at[i] = i % 2 ? b.at[i / 2] : a.at[i / 2];
    return v;
}
static inline piece zip_high(piece a, piece b) {
    piece v;
    for (int i = 0; i < ITEMS; i++) v.at[i] = (i % 2 ? b : a).at[(ITEMS + i) / 2];
    return v;
}

#endif

/* The first n bytes, of 0 <= n <= 16, and zeros behind them. */
#if defined(__AVX512BW__) && defined(__AVX512VL__)
INLINE piece load_part(const void *p, int64_t n) {
    return _mm_maskz_loadu_epi8((__mmask16)((1u << n) - 1u), p);
}
INLINE void store_part(void *p, piece v, int64_t n) {
    _mm_mask_storeu_epi8(p, (__mmask16)((1u << n) - 1u), v);
}
#else
/* Up to eight bytes: 4 to 7 of them by two words that overlap, 1 to 3 by single bytes. */
INLINE uint64_t load_word(const void *p, int64_t n) {
    const uint8_t *from = p;
    if (n >= 8) {
        uint64_t all;
        memcpy(&all, from, 8);
        return all;
    }
    if (n >= 4) {
        uint32_t first, last;
        memcpy(&first, from, 4);
        memcpy(&last, from + n - 4, 4);
        return first | (uint64_t)last << 8 * (n - 4);
    }
    if (n <= 0) return 0;
    return from[0] | (uint64_t)from[n / 2] << 8 * (n / 2) | (uint64_t)from[n - 1] << 8 * (n - 1);
}
INLINE void store_word(void *p, uint64_t all, int64_t n) {
    uint8_t *to = p;
    if (n >= 8) {
        memcpy(to, &all, 8);
    } else if (n >= 4) {
        const uint32_t first = (uint32_t)all, last = (uint32_t)(all >> 8 * (n - 4));
        memcpy(to, &first, 4);
        memcpy(to + n - 4, &last, 4);
    } else if (n > 0) {
        to[0] = (uint8_t)all;
        to[n / 2] = (uint8_t)(all >> 8 * (n / 2));
        to[n - 1] = (uint8_t)(all >> 8 * (n - 1));
    }
}
INLINE piece load_part(const void *p, int64_t n) {
    if (n >= 16) return load_piece(p);
    const uint64_t high = n > 8 ? load_word((const char *)p + 8, n - 8) : 0;
    return piece_of(load_word(p, n), high);
}
INLINE void store_part(void *p, piece v, int64_t n) {
    if (n >= 16) {
        store_piece(p, v);
        return;
    }
    store_word(p, word_of(v, 0), n);
    if (n > 8) store_word((char *)p + 8, word_of(v, 1), n - 8);
}
#endif

/* One round of a perfect shuffle of `count` pieces. log2(count) rounds turn rows of items into
 * columns: `count` items, one of each row, lie side by side, the first items first. For ITEMS
 * pieces that is the transposition of a square. */
#define ZIP_ROUND(type, low, high, v, count)                                                       \
    do {                                                                                           \
        type zipped[16];                                                                           \
        UNROLL for (int z = 0; z < (count) / 2; z++) {                                             \
            zipped[2 * z] = low((v)[z], (v)[z + (count) / 2]);                                     \
            zipped[2 * z + 1] = high((v)[z], (v)[z + (count) / 2]);                                \
        }                                                                                          \
        UNROLL for (int z = 0; z < (count); z++)                                                   \
            (v)[z] = zipped[z];                                                                    \
    } while (0)

/* `count` is 1, 2, 4, 8 or 16. */
INLINE void zip_pieces(piece *v, const int count) {
    if (count > 1) ZIP_ROUND(piece, zip_low, zip_high, v, count);
    if (count > 2) ZIP_ROUND(piece, zip_low, zip_high, v, count);
    if (count > 4) ZIP_ROUND(piece, zip_low, zip_high, v, count);
    if (count > 8) ZIP_ROUND(piece, zip_low, zip_high, v, count);
}

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* For the end of kernels that may have used no vector of their own: only where they did, the
 * compiler cleans the upper halves of registers, which callers may have left dirty. */
static inline void clean_registers(void) {
#if defined(__AVX__)
    _mm256_zeroupper();
#endif
}

#endif

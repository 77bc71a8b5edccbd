/* Pooling of bytes whose channels lie side by side: the largest of each window. Sums are for other
 * types. */
#include "bytes.h"

/* Pieces of a pixel that go together. */
enum { TOGETHER = 4 };

#if defined(__SSE2__)
INLINE piece larger(piece a, piece b) {
#if PPLCONV_TYPE_U8
    return _mm_max_epu8(a, b);
#else
    const piece first = _mm_cmpgt_epi8(a, b);
    return _mm_or_si128(_mm_and_si128(first, a), _mm_andnot_si128(first, b));
#endif
}
#elif defined(__aarch64__)
INLINE piece larger(piece a, piece b) {
#if PPLCONV_TYPE_U8
    return vmaxq_u8(a, b);
#else
    return vreinterpretq_u8_s8(vmaxq_s8(vreinterpretq_s8_u8(a), vreinterpretq_s8_u8(b)));
#endif
}
#else
INLINE piece larger(piece a, piece b) {
    /* In the order of unsigned numbers, as which the signs of signed ones are turned round. */
    const int sign = PPLCONV_TYPE_U8 ? 0 : 128;
    for (int i = 0; i < ITEMS; i++)
        a.at[i] = (a.at[i] ^ sign) > (b.at[i] ^ sign) ? a.at[i] : b.at[i];
    return a;
}
#endif

INLINE piece load_at(const char *p, int part, int64_t n) {
    return part ? load_part(p, n) : load_piece(p);
}

/* `count` pieces of a pixel, from channel `first` on. The last piece of a pixel reaches back if it
 * would not be whole; a pixel of less than a piece is a part of one. */
INLINE void pool(const struct pplconv_pool_args *a, int64_t pixel, int64_t first, int count,
                 int part) {
    const char *src = AT_CONST(char, a->src, pixel * a->src_ps);
    char *dst = AT(char, a->dst, pixel * a->dst_ps);
    int64_t at[TOGETHER];
    piece best[TOGETHER];
    UNROLL for (int v = 0; v < count; v++) {
        const int64_t channel = first + v * ITEMS, last = part ? 0 : a->channels - ITEMS;
        at[v] = channel < last ? channel : last;
        best[v] = load_at(src + at[v], part, a->channels);
    }
    for (int64_t i = 0; i < a->rows; i++) {
        const char *tap = src + i * a->src_rs;
        for (int64_t j = 0; j < a->columns; j++, tap += a->src_cs) {
            UNROLL for (int v = 0; v < count; v++)
                best[v] = larger(best[v], load_at(tap + at[v], part, a->channels));
        }
    }
    UNROLL for (int v = 0; v < count; v++) {
        if (part) store_part(dst + at[v], best[v], a->channels);
        else store_piece(dst + at[v], best[v]);
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_pool_args *a = argument;
    if (a->channels <= 0) return;
    for (int64_t p = 0; p < a->pixels; p++) {
        if (a->channels < ITEMS) {
            pool(a, p, 0, 1, 1);
            continue;
        }
        for (int64_t first = 0; first < a->channels;) {
            if (a->channels - first > 3 * ITEMS) {
                pool(a, p, first, 4, 0);
                first += 4 * ITEMS;
            } else {
                pool(a, p, first, 1, 0);
                first += ITEMS;
            }
        }
    }
}

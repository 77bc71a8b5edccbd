/* Channel planes to pixels whose channels lie side by side, for items of one or two bytes: blocks
 * of ITEMS channels are transposed in registers. Pixels of two or four channels without gaps, which
 * are less than a piece, are woven from the planes. */
#include "bytes.h"

#if defined(__AVX2__)
/* Both halves of a vector are transposed side by side: pixels i and ITEMS + i share one. */
typedef __m256i planes;

INLINE planes load_planes(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
INLINE planes load_planes_part(const void *p, int64_t n) {
    const piece low = load_part(p, least(n, 16));
    const piece high = n > 16 ? load_part((const char *)p + 16, n - 16) : zero_piece();
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
INLINE planes zero_planes(void) { return _mm256_setzero_si256(); }
INLINE planes wide_low(planes a, planes b) {
    return SIZE == 1 ? _mm256_unpacklo_epi8(a, b) : _mm256_unpacklo_epi16(a, b);
}
INLINE planes wide_high(planes a, planes b) {
    return SIZE == 1 ? _mm256_unpackhi_epi8(a, b) : _mm256_unpackhi_epi16(a, b);
}
INLINE piece half_of(planes v, int half) {
    return half ? _mm256_extracti128_si256(v, 1) : _mm256_castsi256_si128(v);
}
enum { HALVES = 2 };
#else
typedef piece planes;

INLINE planes load_planes(const void *p) { return load_piece(p); }
INLINE planes load_planes_part(const void *p, int64_t n) { return load_part(p, n); }
INLINE planes zero_planes(void) { return zero_piece(); }
#define wide_low zip_low
#define wide_high zip_high
INLINE piece half_of(planes v, int half) {
    (void)half;
    return v;
}
enum { HALVES = 1 };
#endif

/* Pixels of a block; and pixels of a chunk, for which all blocks of channels are packed before the
 * next pixels, so that whole cache lines of the planes are read. */
enum { PIXELS = HALVES * ITEMS, CHUNK = 64 / SIZE };

/* `pixels` of up to ITEMS channels, of which `fill` items are written. */
INLINE void pack_block(const char *src, int64_t src_cs, char *dst, int64_t dst_ps, int64_t pixels,
                       int64_t channels, int64_t fill) {
    planes block[ITEMS];
    if (pixels == PIXELS && channels == ITEMS) {
        UNROLL for (int c = 0; c < ITEMS; c++)
            block[c] = load_planes(src + c * src_cs);
    } else if (pixels == PIXELS) {
        UNROLL for (int c = 0; c < ITEMS; c++)
            block[c] = c < channels ? load_planes(src + c * src_cs) : zero_planes();
    } else {
        UNROLL for (int c = 0; c < ITEMS; c++) {
            block[c] =
                c < channels ? load_planes_part(src + c * src_cs, pixels * SIZE) : zero_planes();
        }
    }
    ZIP_ROUND(planes, wide_low, wide_high, block, ITEMS);
    ZIP_ROUND(planes, wide_low, wide_high, block, ITEMS);
    ZIP_ROUND(planes, wide_low, wide_high, block, ITEMS);
    if (SIZE == 1) ZIP_ROUND(planes, wide_low, wide_high, block, ITEMS);
    UNROLL for (int half = 0; half < HALVES; half++) {
        UNROLL for (int i = 0; i < ITEMS; i++) {
            const int64_t pixel = half * ITEMS + i;
            if (pixel >= pixels) break;
            if (fill == ITEMS) {
                store_piece(dst + pixel * dst_ps, half_of(block[i], half));
            } else {
                store_part(dst + pixel * dst_ps, half_of(block[i], half), fill * SIZE);
            }
        }
    }
}

static __attribute__((noinline)) void pack_whole(const char *src, int64_t src_cs, char *dst,
                                                 int64_t dst_ps) {
    pack_block(src, src_cs, dst, dst_ps, PIXELS, ITEMS, ITEMS);
}
static __attribute__((noinline)) void pack_some(const char *src, int64_t src_cs, char *dst,
                                                int64_t dst_ps, int64_t pixels, int64_t channels,
                                                int64_t fill) {
    pack_block(src, src_cs, dst, dst_ps, pixels, channels, fill);
}

#if defined(__AVX512BW__)
/* Pixels of a whole cache line of channels: lane l of a vector has the channels of block l, which
 * are transposed side by side. A line that is stored whole is not merged from parts. */
enum { LINE = 64 / SIZE };

INLINE __m512i line_low(__m512i a, __m512i b) {
    return SIZE == 1 ? _mm512_unpacklo_epi8(a, b) : _mm512_unpacklo_epi16(a, b);
}
INLINE __m512i line_high(__m512i a, __m512i b) {
    return SIZE == 1 ? _mm512_unpackhi_epi8(a, b) : _mm512_unpackhi_epi16(a, b);
}
INLINE __m256i two_pieces(const char *low, const char *high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load_piece(low)), load_piece(high), 1);
}

static __attribute__((noinline)) void pack_lines(const char *src, int64_t src_cs, char *dst,
                                                 int64_t dst_ps) {
    __m512i block[ITEMS];
    const int64_t next = ITEMS * src_cs;
    UNROLL for (int c = 0; c < ITEMS; c++, src += src_cs) {
        const __m256i high = two_pieces(src + 2 * next, src + 3 * next);
        block[c] = _mm512_inserti64x4(_mm512_castsi256_si512(two_pieces(src, src + next)), high, 1);
    }
    ZIP_ROUND(__m512i, line_low, line_high, block, ITEMS);
    ZIP_ROUND(__m512i, line_low, line_high, block, ITEMS);
    ZIP_ROUND(__m512i, line_low, line_high, block, ITEMS);
    if (SIZE == 1) ZIP_ROUND(__m512i, line_low, line_high, block, ITEMS);
    UNROLL for (int i = 0; i < ITEMS; i++)
        _mm512_storeu_si512(dst + i * dst_ps, block[i]);
}
#endif

/* Planes are more streams than a core follows, so their next chunk is fetched beforehand. */
INLINE void fetch_planes(const char *src, int64_t src_cs, int64_t channels) {
    for (int64_t c = 0; c < channels; c++) __builtin_prefetch(src + c * src_cs);
}

static void pack_row(const struct pplconv_pack_channels_args *a, const char *src, char *dst,
                     int64_t columns) {
    const int64_t src_cs = a->src_cs, dst_ps = a->dst_ps;
    for (int64_t chunk = 0; chunk < columns; chunk += CHUNK) {
        const int64_t end = least(chunk + CHUNK, columns);
        int64_t c = 0;
#if defined(__AVX512BW__)
        for (; columns >= ITEMS && c + LINE <= a->channels; c += LINE) {
            const char *from = src + c * src_cs;
            fetch_planes(from + (chunk + CHUNK) * SIZE, src_cs, LINE);
            for (int64_t i = chunk; i < end; i += ITEMS) {
                const int64_t at = least(i, columns - ITEMS);
                pack_lines(from + at * SIZE, src_cs, dst + c * SIZE + at * dst_ps, dst_ps);
            }
        }
#endif
        for (; c < a->fill; c += ITEMS) {
            const int64_t held = a->channels - c, fill = least(a->fill - c, ITEMS);
            const int64_t channels = held < 0 ? 0 : least(held, ITEMS);
            const char *from = src + (channels ? c * src_cs : 0);
            char *to = dst + c * SIZE;
            fetch_planes(from + (chunk + CHUNK) * SIZE, src_cs, channels);
            for (int64_t i = chunk; i < end; i += PIXELS) {
                /* The last block of a row reaches back instead of being a part. */
                const int64_t at = columns < PIXELS ? i : least(i, columns - PIXELS);
                const int64_t pixels = least(columns - at, PIXELS);
                if (pixels == PIXELS && channels == ITEMS) {
                    pack_whole(from + at * SIZE, src_cs, to + at * dst_ps, dst_ps);
                } else {
                    pack_some(from + at * SIZE, src_cs, to + at * dst_ps, dst_ps, pixels, channels,
                              fill);
                }
            }
        }
    }
}

/* Pixels of `fill` items without gaps, 2 or 4 of them. */
INLINE void weave_row(const struct pplconv_pack_channels_args *a, const char *src, char *dst,
                      int64_t columns, const int fill) {
    for (int64_t i = 0; i < columns; i += ITEMS, src += 16, dst += 16 * fill) {
        const int64_t pixels = least(columns - i, ITEMS);
        piece plane[4];
        UNROLL for (int c = 0; c < fill; c++) {
            const char *from = src + c * a->src_cs;
            if (c >= a->channels) {
                plane[c] = zero_piece();
            } else {
                plane[c] = pixels == ITEMS ? load_piece(from) : load_part(from, pixels * SIZE);
            }
        }
        zip_pieces(plane, fill);
        UNROLL for (int v = 0; v < fill; v++) {
            const int64_t left = pixels * fill * SIZE - v * 16;
            if (left >= 16) {
                store_piece(dst + v * 16, plane[v]);
            } else if (left > 0) {
                store_part(dst + v * 16, plane[v], left);
            }
        }
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_pack_channels_args *a = argument;
    const int dense = a->dst_ps == a->fill * SIZE;
    int64_t rows = a->rows, columns = a->columns;
    if (a->src_rs == columns * SIZE && a->dst_rs == columns * a->dst_ps) {
        columns *= rows;
        rows = 1;
    }
    for (int64_t row = 0; row < rows; row++) {
        const char *src = AT_CONST(char, a->src, row * a->src_rs);
        char *dst = AT(char, a->dst, row * a->dst_rs);
        if (dense && a->fill == 1 && a->channels == 1) {
            memcpy(dst, src, (size_t)(columns * SIZE));
        } else if (dense && a->fill == 2) {
            weave_row(a, src, dst, columns, 2);
        } else if (dense && a->fill == 4) {
            weave_row(a, src, dst, columns, 4);
        } else {
            pack_row(a, src, dst, columns);
        }
    }
    clean_registers();
}

/* Channel planes to pixels whose channels lie side by side: NCHW to NCHWc and NHWC. Blocks of
 * LANES channels x LANES pixels are transposed on the way from memory; pixels of a few channels
 * without gaps are woven from whole vectors instead. */
#include "lanes.h"
#include "transpose.h"

/* Pixels for which the channels of all blocks are packed before the next pixels: long enough
 * for planes to be read by whole lines, short enough for the packed pixels to stay in L1. */
enum { CHUNK = 4 * LANES, LARGEST_WEAVE = 4 };

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* LANES pixels of LANES channels. */
INLINE void pack_block(const char *src, int64_t src_cs, char *dst, int64_t dst_ps) {
    vector block[LANES];
    load_transposed(block, src, src_cs);
    UNROLL for (int i = 0; i < LANES; i++)
        *AT(unaligned_vector, dst, i * dst_ps) = block[i];
}

/* LANES pixels of fewer channels, or written in parts. */
static __attribute__((noinline)) void pack_strip(const char *src, int64_t src_cs, char *dst,
                                                 int64_t dst_ps, int64_t columns, int64_t channels,
                                                 int64_t fill) {
    const char *rows[LANES];
    vector block[LANES];
    find_rows(rows, src, src_cs, channels);
    for (int64_t i = 0; i < columns; i += LANES) {
        const int64_t first = least(i, columns - LANES);
        load_rows_transposed(block, rows, first * (int64_t)sizeof(element));
        if (channels < fill) clear_lanes(block, channels);
        char *out = dst + first * dst_ps;
        if (fill == LANES) {
            UNROLL for (int j = 0; j < LANES; j++)
                *AT(unaligned_vector, out, j * dst_ps) = block[j];
        } else {
            UNROLL for (int j = 0; j < LANES; j++) {
                store_lanes(AT(element, out, j * dst_ps), block[j], fill);
            }
        }
    }
}

/* Fewer pixels than LANES. */
static __attribute__((noinline)) void pack_part(const char *src, int64_t src_cs, char *dst,
                                                int64_t dst_ps, int64_t columns, int64_t channels,
                                                int64_t fill) {
    vector block[LANES];
    load_transposed_part(block, src, src_cs, channels, columns);
    UNROLL for (int i = 0; i < LANES; i++) {
        if (i == columns) break;
        store_lanes(AT(element, dst, i * dst_ps), block[i], fill);
    }
}

static void pack_row(const struct pplconv_pack_channels_args *a, const char *src, char *dst,
                     int64_t columns) {
    const int64_t size = sizeof(element), src_cs = a->src_cs, dst_ps = a->dst_ps;
    const int64_t length = a->fill > LANES ? CHUNK : columns;
    for (int64_t chunk = 0; chunk < columns; chunk += length) {
        /* The last block of a row reaches back instead of being a part; the same values are
         * written twice. A chunk that is no whole block does the same. */
        const int64_t end = least(chunk + length, columns);
        const int64_t begin = end - chunk < LANES && columns >= LANES ? columns - LANES : chunk;
        for (int64_t c = 0; c < a->fill; c += LANES) {
            const int64_t channels = c < a->channels ? least(a->channels - c, LANES) : 0;
            const int64_t fill = least(a->fill - c, LANES);
            const char *from = src + (channels ? c * src_cs : 0) + begin * size;
            char *to = dst + begin * dst_ps + c * size;
            if (columns < LANES || channels == 0) {
                for (int64_t i = begin; i < end; i += LANES) {
                    pack_part(from, src_cs, to, dst_ps, least(end - i, LANES), channels, fill);
                    to += LANES * dst_ps;
                }
            } else if (channels < LANES || fill < LANES) {
                pack_strip(from, src_cs, to, dst_ps, end - begin, channels, fill);
            } else {
                for (int64_t i = begin; i < end; i += LANES) {
                    const int64_t at = least(i, end - LANES) - begin;
                    pack_block(from + at * size, src_cs, to + at * dst_ps, dst_ps);
                }
            }
        }
    }
}

/* Pixels of `fill` elements without gaps: each packed vector takes its lanes from all channels. */
INLINE void weave_row(const struct pplconv_pack_channels_args *a, const element *src, element *dst,
                      int64_t columns, const int fill) {
    for (int64_t i = 0; i < columns; i += LANES) {
        const int64_t pixels = least(columns - i, LANES);
        vector plane[LARGEST_WEAVE] = {{0}};
        UNROLL for (int c = 0; c < fill; c++) {
            if (c >= a->channels) break;
            const element *p = AT_CONST(element, src, c * a->src_cs) + i;
            if (pixels == LANES) {
                plane[c] = *(const unaligned_vector *)p;
            } else {
                plane[c] = load_lanes(p, pixels);
            }
        }
        UNROLL for (int v = 0; v < fill; v++) {
            vector woven = plane[0];
            UNROLL for (int c = 1; c < fill; c++) {
                vector_bits index;
                UNROLL for (int lane = 0; lane < LANES; lane++) {
                    const int at = v * LANES + lane;
                    index[lane] = at % fill == c ? LANES + at / fill : c == 1 ? at / fill : lane;
                }
                woven = shuffle(woven, plane[c], index);
            }
            const int64_t left = pixels * fill - v * LANES;
            if (left >= LANES) {
                *(unaligned_vector *)(dst + i * fill + v * LANES) = woven;
            } else if (left > 0) {
                store_lanes(dst + i * fill + v * LANES, woven, left);
            }
        }
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_pack_channels_args *a = argument;
    const int64_t size = sizeof(element);
    const int weave = a->fill <= LARGEST_WEAVE && a->fill < LANES && a->dst_ps == a->fill * size;
    int64_t rows = a->rows, columns = a->columns;
    if (a->src_rs == columns * size && a->dst_rs == columns * a->dst_ps) {
        columns *= rows;
        rows = 1;
    }
    for (int64_t row = 0; row < rows; row++) {
        const element *src = AT_CONST(element, a->src, row * a->src_rs);
        element *dst = AT(element, a->dst, row * a->dst_rs);
        if (!weave) {
            pack_row(a, (const char *)src, (char *)dst, columns);
        } else if (a->fill == 1) {
            weave_row(a, src, dst, columns, 1);
        } else if (a->fill == 2) {
            weave_row(a, src, dst, columns, 2);
        } else if (a->fill == 3) {
            weave_row(a, src, dst, columns, 3);
        } else {
            weave_row(a, src, dst, columns, 4);
        }
    }
}

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

/* A block of which only `pixels` pixels and `channels` channels exist, and `fill` elements of a
 * pixel are written. A call of its own: it would cost the loop over whole blocks its registers. */
static __attribute__((noinline)) void pack_part(const char *src, int64_t src_cs, char *dst,
                                                int64_t dst_ps, int64_t pixels, int64_t channels,
                                                int64_t fill) {
    vector block[LANES];
    load_transposed_part(block, src, src_cs, channels, pixels);
    UNROLL for (int i = 0; i < LANES; i++) {
        if (i == pixels) break;
        store_lanes(AT(element, dst, i * dst_ps), block[i], fill);
    }
}

static void pack_row(const struct pplconv_pack_channels_args *a, const char *src, char *dst,
                     int64_t columns) {
    const int64_t size = sizeof(element), src_cs = a->src_cs, dst_ps = a->dst_ps;
    for (int64_t chunk = 0; chunk < columns; chunk += CHUNK) {
        const int64_t end = least(chunk + CHUNK, columns);
        for (int64_t c = 0; c < a->fill; c += LANES) {
            const int64_t channels = c < a->channels ? least(a->channels - c, LANES) : 0;
            const int64_t fill = least(a->fill - c, LANES);
            const char *plane = src + (channels ? c * src_cs : 0);
            char *lanes = dst + c * size;
            int64_t i = chunk;
            if (channels == LANES) {
                for (; i + LANES <= end; i += LANES) {
                    pack_block(plane + i * size, src_cs, lanes + i * dst_ps, dst_ps);
                }
                if (i < end && columns >= LANES) {
                    /* The last block reaches back rather than being a part. */
                    i = columns - LANES;
                    pack_block(plane + i * size, src_cs, lanes + i * dst_ps, dst_ps);
                    continue;
                }
            }
            for (; i < end; i += LANES) {
                pack_part(plane + i * size, src_cs, lanes + i * dst_ps, dst_ps,
                          least(end - i, LANES), channels, fill);
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

/* Weights of one or two bytes into panels of output channels, for kernels that multiply kr
 * neighbouring k of a channel at once. Rows of weights are transposed into a buffer, where a row
 * holds one k of some output channels. The items of kr such rows are then interleaved into the
 * panel. A matrix (k, oc) has such rows in the source itself. */
#include "bytes.h"

/* Rows of the buffer, 16 KiB of them: channels of a block with all their taps. */
enum { ROWS = 1024 };

#define OUTLINE static __attribute__((noinline))

/* The weights to pack. If k runs as in the source, the taps count as input channels. */
struct weights {
    const char *src; /* of the first output channel of the columns at hand */
    int64_t os, ks, ic, taps, together, width, depth;
};

static struct weights weights_of(const struct pplconv_pack_weights_args *a) {
    const int64_t blocks = (a->ic + a->channel_block - 1) / a->channel_block;
    const int64_t k = blocks * a->channel_block * a->taps;
    struct weights w = {a->src,  a->src_os,        a->src_ks,      a->ic,
                        a->taps, a->channel_block, a->panel_width, (k + a->kr - 1) / a->kr * a->kr};
    if (w.taps == 1 || w.together == 1) { /* k runs as it does in the source */
        w.ic *= w.taps;
        w.taps = 1;
        w.together = w.depth;
    }
    return w;
}

/* Weights begin <= k < end of the source of up to ITEMS output channels: a row for each k. */
OUTLINE void transpose_rows(item *rows, const struct weights *w, int64_t channels, int64_t begin,
                            int64_t end) {
    const char *src = w->src + begin * SIZE;
    const int64_t count = end - begin;
    for (int64_t k = 0; k < count; k += ITEMS, src += 16) {
        piece block[ITEMS];
        const int64_t bytes = least(count - k, ITEMS) * SIZE;
        if (channels == ITEMS && bytes == 16) {
            UNROLL for (int i = 0; i < ITEMS; i++)
                block[i] = load_piece(src + i * w->os);
        } else {
            UNROLL for (int i = 0; i < ITEMS; i++)
                block[i] = i < channels ? load_part(src + i * w->os, bytes) : zero_piece();
        }
        zip_pieces(block, ITEMS);
        UNROLL for (int i = 0; i < ITEMS; i++)
            store_piece(rows + (k + i) * ITEMS, block[i]);
    }
}

/* Put kr rows side by side: the first `columns` channels of them. */
INLINE void store_group(item *dst, piece *row, int64_t columns, const int kr) {
    zip_pieces(row, kr);
    if (columns == ITEMS) {
        UNROLL for (int v = 0; v < kr; v++)
            store_piece(dst + v * ITEMS, row[v]);
        return;
    }
    UNROLL for (int v = 0; v < kr; v++) {
        const int64_t left = columns * kr - v * ITEMS;
        if (left > 0) store_part(dst + v * ITEMS, row[v], least(left, ITEMS) * SIZE);
    }
}

/* Groups that have no weights. */
INLINE void clear_groups(item *dst, int64_t step, int64_t count, int64_t columns, const int kr) {
    for (int64_t g = 0; g < count; g++, dst += step) {
        piece row[8];
        UNROLL for (int j = 0; j < kr; j++)
            row[j] = zero_piece();
        store_group(dst, row, columns, kr);
    }
}

/* `count` rows, one every `step` bytes, into the groups from dst on. */
INLINE void pack_rows(item *dst, int64_t dst_step, const void *rows, int64_t step, int64_t count,
                      int64_t columns, const int kr) {
    const char *src = rows;
    for (int64_t k = 0; k < count; k += kr, dst += dst_step, src += kr * step) {
        piece row[8];
        UNROLL for (int j = 0; j < kr; j++)
            row[j] = k + j < count ? load_piece(src + j * step) : zero_piece();
        store_group(dst, row, columns, kr);
    }
}

/* The same of rows of `channels` items, fewer than ITEMS. */
INLINE void pack_short_rows(item *dst, int64_t dst_step, const char *src, int64_t step,
                            int64_t count, int64_t channels, int64_t columns, const int kr) {
    for (int64_t k = 0; k < count; k += kr, dst += dst_step, src += kr * step) {
        piece row[8];
        UNROLL for (int j = 0; j < kr; j++) {
            row[j] = k + j < count ? load_part(src + j * step, channels * SIZE) : zero_piece();
        }
        store_group(dst, row, columns, kr);
    }
}

/* Blocks of channels that are whole groups: some channels of one block at a time, with all taps. */
INLINE void pack_blocks(item *dst, const struct weights *w, int64_t channels, int64_t columns,
                        const int kr) {
    const int64_t step = w->width * kr, most = ROWS / w->taps / kr * kr;
    item rows[(ROWS + ITEMS) * ITEMS];
    for (int64_t block = 0; block < w->depth / w->taps; block += w->together) {
        item *to = dst + block * w->taps * w->width;
        const int64_t end = least(w->together, w->depth / w->taps - block);
        for (int64_t c = 0, n; c < end; c += n) {
            const int64_t held = w->ic - block - c; /* channels from here on */
            n = least(end - c, most);
            const int64_t has = held < 0 ? 0 : least(held, n), groups = (n + kr - 1) / kr;
            const int64_t full = (has + kr - 1) / kr;
            if (has) {
                transpose_rows(rows, w, channels, (block + c) * w->taps,
                               (block + c + has) * w->taps);
            }
            for (int64_t t = 0; t < w->taps; t++) {
                item *at = to + (t * w->together + c) * w->width;
                pack_rows(at, step, rows + t * ITEMS, w->taps * 16, has, columns, kr);
                clear_groups(at + full * step, step, groups - full, columns, kr);
            }
        }
    }
}

/* A matrix whose output channels are neighbours. */
INLINE void pack_matrix(item *dst, const struct weights *w, int64_t channels, int64_t columns,
                        const int kr) {
    const int64_t step = w->width * kr, full = (w->ic + kr - 1) / kr;
    if (channels == ITEMS) {
        pack_rows(dst, step, w->src, w->ks, w->ic, columns, kr);
    } else {
        pack_short_rows(dst, step, w->src, w->ks, w->ic, channels, columns, kr);
    }
    clear_groups(dst + full * step, step, w->depth / kr - full, columns, kr);
}

/* Groups that reach from one tap to the next: item by item, over zeros. */
OUTLINE void pack_mixed(item *dst, const struct weights *w, int64_t channels, int64_t columns,
                        int64_t kr) {
    for (int64_t g = 0; g < w->depth; g += kr) {
        memset(dst + g * w->width, 0, (size_t)(columns * kr * SIZE));
    }
    int64_t row = 0;
    for (int64_t block = 0; block < w->ic; block += w->together) {
        for (int64_t t = 0; t < w->taps; t++, row += w->together) {
            for (int64_t c = 0; c < least(w->together, w->ic - block); c++) {
                const char *src = w->src + ((block + c) * w->taps + t) * w->ks;
                item *to = dst + (row + c) / kr * kr * w->width + (row + c) % kr;
                for (int64_t i = 0; i < channels; i++, src += w->os) {
                    to[i * kr] = *(const item *)src;
                }
            }
        }
    }
}

INLINE void pack_panels(const struct pplconv_pack_weights_args *a, const int kr) {
    struct weights w = weights_of(a);
    const int across = a->src_ks != SIZE && w.taps == 1;
    const int whole = w.together % kr == 0 && w.taps * kr <= ROWS;
    for (int64_t o = a->oc_begin; o < a->oc_end; o += w.width) {
        for (int64_t i = 0; i < w.width; i += ITEMS) {
            const int64_t held = a->oc_end - o - i, columns = least(w.width - i, ITEMS);
            const int64_t channels = held < 0 ? 0 : least(held, columns);
            item *dst = (item *)a->dst + o * w.depth + i * kr;
            w.src = AT_CONST(char, a->src, channels ? (o + i) * w.os : 0);
            if (!channels) {
                clear_groups(dst, w.width * kr, w.depth / kr, columns, kr);
            } else if (across) {
                pack_matrix(dst, &w, channels, columns, kr);
            } else if (whole) {
                pack_blocks(dst, &w, channels, columns, kr);
            } else {
                pack_mixed(dst, &w, channels, columns, kr);
            }
        }
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_pack_weights_args *a = argument;
    if (a->kr == 1) {
        pack_panels(a, 1);
    } else if (a->kr == 2) {
        pack_panels(a, 2);
    } else if (a->kr == 4) {
        pack_panels(a, 4);
    } else {
        pack_panels(a, 8);
    }
    clean_registers();
}

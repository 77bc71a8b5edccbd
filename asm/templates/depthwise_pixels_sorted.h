/* Depthwise convolution of planes at strides in the blocks of stride 1: a band of lines is sorted
 * once for all its rows and taps. Columns a stride apart become neighbours, so that a tap is a
 * plain load. */
#ifndef PPLCONV_DEPTHWISE_PIXELS_SORTED_H
#define PPLCONV_DEPTHWISE_PIXELS_SORTED_H

#include "depthwise_pixels_block.h"

#if PPLCONV_VECTOR_BYTES == 64
/* Bytes of a band's lines, which are to stay in L1. */
enum { SORTED_BYTES = 32768 };

/* What some columns of all planes share. */
struct columns_sorted {
    struct order order;
    int64_t column, count;
    int64_t rows; /* rows of a band; 0 if the lines of a block do not fit */
    struct narrow narrow;
};

/* Columns from `column` on that a block of at most `vectors` vectors takes, and their band. */
static void set_band(struct columns_sorted *c, const struct planes *s, int64_t column,
                     int64_t vectors) {
    const struct pplconv_geometry *g = &s->g;
    const int64_t left = g->ow - column, all = s->end - s->first;
    if (vectors == BLOCK_VECTORS && left <= 3 * LANES) vectors = 2;
    c->column = column;
    c->count = least(left, vectors * LANES);
    c->order = order_of(column * g->stride_w - g->pad_left, c->count, (g->kw - 1) * g->dilation_w,
                        g->stride_w);
    c->narrow.pitch = c->order.phases * c->order.apart;
    c->rows = all;
    if (g->stride_w == 1) { /* in order as they are */
        c->narrow.pitch = g->iw;
        return;
    }
    const int64_t lines = SORTED_BYTES / (int64_t)sizeof(element) / c->narrow.pitch;
    const int64_t more = lines - (g->kh - 1) * g->dilation_h - 1;
    const int64_t rows = more < 0 ? 0 : more / g->stride_h + 1, block = BLOCK_ROWS * g->dilation_h;
    if (rows < all) c->rows = rows / block * block;
}

/* Vectors of the widest block whose lines fit; 0 if even one is too many. */
static int64_t vectors_sorted(const struct planes *s) {
    struct columns_sorted c;
    int64_t vectors = s->g.kw <= TABLE_TAPS ? BLOCK_VECTORS : 0;
    for (; vectors; vectors /= 2) {
        set_band(&c, s, 0, vectors);
        if (c.rows) break;
    }
    return vectors;
}

/* Rows begin .. end - 1 of some columns of the planes of one input channel. */
static void band_sorted(const struct planes *s, struct columns_sorted *c, element *sorted,
                        int64_t channel, int64_t channel_end, int64_t begin, int64_t end) {
    const struct pplconv_geometry *g = &s->g;
    const int64_t apart = g->dilation_h, pitch = c->narrow.pitch, down = g->stride_h;
    const int64_t top = most(begin * down - g->pad_top, 0);
    const int64_t bottom = least((end - 1) * down - g->pad_top + (g->kh - 1) * apart + 1, g->ih);
    struct plane plane = plane_of(s, channel);
    if (g->stride_w > 1 && top < bottom)
        sort_columns(sorted, pitch, &c->order, plane.src + top * g->iw, bottom - top, g->iw,
                     g->stride_w);
    c->narrow.src = sorted - top * pitch;
    struct epilogue e = s->epilogue;
    for (; channel < channel_end; channel++) {
        const element *weights = s->weights + channel * g->kh * g->kw;
        plane = plane_of(s, channel);
        if (g->stride_w == 1) c->narrow.src = plane.src + c->order.start;
        e.bias = broadcast(s->bias[channel * s->bias_step]);
        for (int64_t first = begin; first < least(begin + apart, end); first++) {
            for (int64_t row = first; row < end; row += BLOCK_ROWS * apart) {
                const int64_t rows = least(ceil_of(end - row, apart), BLOCK_ROWS);
                block_by_table(s, &plane, &e, weights, row, rows, c->column, c->count, &c->narrow);
            }
        }
    }
}

static void sorted(const struct planes *call, int64_t vectors) {
    const struct planes s = *call;
    element lines[SORTED_BYTES / sizeof(element)] __attribute__((aligned(64)));
    struct columns_sorted c;
    c.column = -1;
    for (int64_t channel = 0; channel < s.channels; channel += s.multiplier) {
        const int64_t channel_end = least(channel + s.multiplier, s.channels);
        for (int64_t column = 0; column < s.g.ow; column += c.count) {
            if (c.column != column) {
                set_band(&c, &s, column, vectors);
                set_narrow(&c.narrow, &s.g, column, c.count, c.order.apart);
            }
            for (int64_t row = s.first; row < s.end; row += c.rows)
                band_sorted(&s, &c, lines, channel, channel_end, row, least(row + c.rows, s.end));
        }
    }
}
#endif

#endif

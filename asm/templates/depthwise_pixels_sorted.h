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
    int64_t rows; /* rows of a band */
    struct narrow narrow;
};

/* Columns that a block takes at most, and those from `column` on. */
INLINE int64_t columns_from(const struct pplconv_geometry *g, int64_t column) {
    const int64_t left = g->ow - column;
    if (left <= LANES) return left;
    return left <= 3 * LANES ? least(left, 2 * LANES) : least(left, BLOCK_VECTORS * LANES);
}

/* Rows of a band of `count` columns from `column` on; 0 if a block's lines are too many. */
static int64_t rows_of_band(const struct planes *s, struct order *o, int64_t column,
                            int64_t count) {
    const struct pplconv_geometry *g = &s->g;
    const int64_t all = s->end - s->first, block = BLOCK_ROWS * g->dilation_h;
    *o = order_of(column * g->stride_w - g->pad_left, count, (g->kw - 1) * g->dilation_w,
                  g->stride_w);
    const int64_t lines = SORTED_BYTES / (int64_t)sizeof(element) / (o->phases * o->apart);
    const int64_t more = lines - (g->kh - 1) * g->dilation_h - 1;
    const int64_t rows = more < 0 ? 0 : more / g->stride_h + 1;
    return rows >= all ? all : rows / block * block;
}

static void set_columns_sorted(const struct planes *s, struct columns_sorted *c, int64_t column) {
    c->column = column;
    c->count = columns_from(&s->g, column);
    c->rows = rows_of_band(s, &c->order, column, c->count);
    set_narrow(&c->narrow, &s->g, column, c->count, c->order.apart);
    c->narrow.pitch = c->order.phases * c->order.apart;
}

/* Whether bands of sorted lines fit. */
static int is_sorted(const struct planes *s) {
    struct order o;
    return s->g.ow > 0 && s->g.kw <= MOST_TAPS &&
           rows_of_band(s, &o, 0, columns_from(&s->g, 0)) > 0;
}

/* Rows begin .. end - 1 of some columns of the planes of one input channel. */
static void band_sorted(const struct planes *s, struct columns_sorted *c, element *sorted,
                        int64_t channel, int64_t channel_end, int64_t begin, int64_t end) {
    const struct pplconv_geometry *g = &s->g;
    const int64_t apart = g->dilation_h, pitch = c->narrow.pitch, down = g->stride_h;
    const int64_t top = most(begin * down - g->pad_top, 0);
    const int64_t bottom = least((end - 1) * down - g->pad_top + (g->kh - 1) * apart + 1, g->ih);
    struct plane plane = plane_of(s, channel);
    for (int64_t line = top; line < bottom; line++)
        sort_columns(sorted + (line - top) * pitch, &c->order, plane.src + line * g->iw, g->iw,
                     g->stride_w);
    c->narrow.src = sorted - top * pitch;
    struct epilogue e = s->epilogue;
    for (; channel < channel_end; channel++) {
        const element *weights = s->weights + channel * g->kh * g->kw;
        plane = plane_of(s, channel);
        e.bias = broadcast(s->bias[channel * s->bias_step]);
        for (int64_t first = begin; first < least(begin + apart, end); first++) {
            for (int64_t row = first; row < end; row += BLOCK_ROWS * apart) {
                const int64_t rows = least(ceil_of(end - row, apart), BLOCK_ROWS);
                (c->count <= LANES       ? block_narrowest
                 : c->count <= 2 * LANES ? block_narrow
                                         : block_less_narrow)(s, &plane, &e, weights, row, rows,
                                                              c->column, c->count, &c->narrow);
            }
        }
    }
}

static void sorted(const struct planes *call) {
    const struct planes s = *call;
    element lines[SORTED_BYTES / sizeof(element)] __attribute__((aligned(64)));
    struct columns_sorted c;
    c.column = -1;
    for (int64_t channel = 0; channel < s.channels; channel += s.multiplier) {
        const int64_t channel_end = least(channel + s.multiplier, s.channels);
        for (int64_t column = 0; column < s.g.ow; column += c.count) {
            if (c.column != column) set_columns_sorted(&s, &c, column);
            for (int64_t row = s.first; row < s.end; row += c.rows)
                band_sorted(&s, &c, lines, channel, channel_end, row, least(row + c.rows, s.end));
        }
    }
}
#endif

#endif

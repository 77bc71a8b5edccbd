/* Channels-last pixels with a 3x3 kernel in groups of few channels: the sum of depthwise
 * convolutions, one for each input channel of a group, in blocks of 2 x 4 output pixels. Channels
 * are outermost: their weights stay in L1 for a row of blocks. The inputs of a block are copied
 * once, as they are read once for each channel of a group: where a pixel has a power of two of
 * channels, L1 cannot hold them in place. */
#ifndef PPLCONV_DEPTHWISE_CHANNELS_GROUPS_H
#define PPLCONV_DEPTHWISE_CHANNELS_GROUPS_H

#include "depthwise_channels.h"

enum { GROUP_SIZE = 3, MOST_LINES = 5, MOST_INPUTS = 9 };

/* Channels begin .. begin + n - 1 of a block, all lanes unless `tail`. With `checked`, some of its
 * columns or of its inputs' columns do not exist: it asks the bits. */
INLINE void group_block(const struct call *s, const struct block *b, int64_t begin, int64_t n,
                        const enum reading reading, const int stride, const int checked,
                        const int tail) {
    const int size = GROUP_SIZE;
    const int lines = (ROWS - 1) * stride + size, inputs = (COLUMNS - 1) * stride + size;
    const uint32_t row_bits = b->row_bits, column_bits = b->column_bits;
    const int64_t first = reading == SHARED ? begin - begin % s->depth : begin;
    const int64_t offset = (b->row * stride - s->g.pad_top) * s->src_rs +
                           (b->column * stride - s->g.pad_left) * s->src_ps;
    const element *src = AT_CONST(element, s->src + first, offset);
    const element *w = s->weights + begin * s->depth * s->taps;
    const int64_t channels = reading == SHARED ? LANES : s->depth;
    const int64_t out[COLUMNS] = {0, s->dst_ps, 2 * s->dst_ps, 3 * s->dst_ps};
    vector sum[ROWS][COLUMNS] = {0};

    for (int64_t done = 0; done < s->depth; done += channels) {
        vector x[MOST_LINES][MOST_INPUTS];
        UNROLL for (int i = 0; i < lines; i++) {
            const uint32_t bits = row_bits >> i & 1 ? column_bits : 0;
            UNROLL for (int j = 0; j < inputs; j++) {
                const element *p = AT_CONST(element, src, i * s->src_rs + j * s->src_ps);
                const vector zero = {0};
                x[i][j] = bits >> j & 1 ? load_channels(p, n, tail) : zero;
            }
        }
        vector_bits lane = first_of_groups(s->depth);
        for (int64_t d = 0; d < channels; d++) {
            UNROLL for (int i = 0; i < lines; i++) {
                if (!(row_bits >> i & 1)) continue;
                UNROLL for (int j = 0; j < inputs; j++) {
                    if (checked && !(column_bits >> j & 1)) continue;
                    const vector v =
                        in_register(reading == SHARED ? broadcast(((const element *)&x[i][j])[d])
                                                      : pick_lanes(x[i][j], lane));
                    UNROLL for (int r = 0; r < ROWS; r++) {
                        const int kh = i - r * stride;
                        if (kh < 0 || kh >= size) continue;
                        UNROLL for (int c = 0; c < COLUMNS; c++) {
                            const int kw = j - c * stride;
                            if (kw < 0 || kw >= size) continue;
                            const vector weight = load(w + (kh * size + kw) * LANES);
                            sum[r][c] = multiply_add(v, weight, sum[r][c]);
                        }
                    }
                }
            }
            lane += 1;
            w += size * size * LANES;
        }
        src += LANES;
    }

    struct epilogue e = s->epilogue;
    if (s->bias) e.bias = load_channels(s->bias + begin, n, tail);
    const int64_t to = b->row * s->dst_rs + b->column * s->dst_ps;
    const int64_t more = b->row * s->residual_rs + b->column * s->residual_ps;
    finish_block(s, b, &e, sum, AT(element, s->dst + begin, to),
                 AT_CONST(element, s->residual + begin, more), out, n, COLUMNS, checked, tail);
}

/* The block at b->row, b->column; gives how many columns it has. */
INLINE int group_step(const struct call *s, struct block *b, int64_t begin, int64_t n,
                      const enum reading reading, const int stride, const int tail) {
    const int size = GROUP_SIZE;
    const int64_t start = b->column * stride - s->g.pad_left;
    const int64_t reach = start + (COLUMNS - 1) * stride + size;
    if (!tail && b->column + COLUMNS <= s->g.ow && start >= 0 && reach <= s->g.iw) {
        b->columns = COLUMNS;
        b->column_bits = (1u << MOST_INPUTS) - 1;
        group_block(s, b, begin, n, reading, stride, 0, 0);
        return COLUMNS;
    }
    b->columns = (int)least(s->g.ow - b->column, COLUMNS);
    b->column_bits = inside_bits(start, (COLUMNS - 1) * stride + size, s->g.iw);
    if (b->columns < COLUMNS) b->column_bits &= (1u << ((b->columns - 1) * stride + size)) - 1;
    group_block(s, b, begin, n, reading, stride, 1, tail);
    return b->columns;
}

/* Output rows first .. end - 1, channels 0 .. channels - 1. */
INLINE void groups(const struct call *call, int64_t first, int64_t end, int64_t channels,
                   const enum reading reading, const int stride) {
    const struct call s = *call;
    struct block b;
    for (b.row = first; b.row < end; b.row += ROWS) {
        begin_rows(&s, &b, end, GROUP_SIZE, stride);
        for (int64_t begin = 0; begin < channels; begin += LANES) {
            const int64_t n = least(channels - begin, LANES);
            for (b.column = 0; b.column < s.g.ow;) {
                /* A group that fills vectors leaves no tail. */
                if (reading == SHARED || n == LANES)
                    b.column += group_step(&s, &b, begin, n, reading, stride, 0);
                else b.column += group_step(&s, &b, begin, n, reading, stride, 1);
            }
        }
    }
}

/* A function each, so that the compiler need not see them all at once. */
#define GROUPS(name, reading, stride)                                                              \
    static __attribute__((noinline)) void name##_##stride(const struct call *s, int64_t first,     \
                                                          int64_t end, int64_t channels) {         \
        groups(s, first, end, channels, reading, stride);                                          \
    }
GROUPS(picked, PICKED, 1)
GROUPS(picked, PICKED, 2)
GROUPS(shared, SHARED, 1)
GROUPS(shared, SHARED, 2)

typedef void groups_function(const struct call *s, int64_t first, int64_t end, int64_t channels);

/* The function for a geometry; null if there is none, as in portable C, which stays small. */
static groups_function *groups_of(const struct pplconv_geometry *g, enum reading reading) {
    const int square = g->kh == GROUP_SIZE && g->kw == GROUP_SIZE && g->stride_h == g->stride_w &&
                       g->dilation_h == 1 && g->dilation_w == 1;
    if (!(PPLCONV_VECTOR_BYTES >= 32 || PPLCONV_NEON) || !square || g->stride_h > 2) return 0;
    if (reading == PICKED) return g->stride_h == 1 ? picked_1 : picked_2;
    return g->stride_h == 1 ? shared_1 : shared_2;
}

#endif

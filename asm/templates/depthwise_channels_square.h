/* Depthwise convolution of channels-last pixels with a square kernel, strides `down` and `across`:
 * blocks of 2 x 4 output pixels, channels innermost. Each input vector of a block is loaded once.
 * Neighbouring channels follow each other at once because that is how memory takes stores: vectors
 * stored a pixel apart cost up to four times as much. */
#ifndef PPLCONV_DEPTHWISE_CHANNELS_SQUARE_H
#define PPLCONV_DEPTHWISE_CHANNELS_SQUARE_H

#include "depthwise_channels.h"

enum { LARGEST_SIZE = 7 };

/* Channels begin .. end - 1 of a block. Of its input columns the first `left` and the last
 * `right` are padding, known to the compiler; with `checked` it asks the bits as well. Whole
 * vectors unless `tail`, which means the one vector that is not. */
INLINE void square_block(const struct call *s, const struct block *b, int64_t begin, int64_t end,
                         const int size, const int down, const int across, const int columns,
                         const int left, const int right, const int checked, const int tail) {
    const int lines = (ROWS - 1) * down + size, inputs = (columns - 1) * across + size;
    const int64_t rs = s->src_rs, ps = s->src_ps, ps3 = kept(3 * ps);
    const int64_t near[5] = {0, ps, 2 * ps, ps3, 4 * ps};
    const int64_t dst_ps = s->dst_ps, dst_ps3 = kept(3 * dst_ps);
    const int64_t out[COLUMNS] = {0, dst_ps, 2 * dst_ps, dst_ps3};
    const uint32_t row_bits = b->row_bits, column_bits = b->column_bits;
    const int64_t offset = (b->row * down - s->g.pad_top) * rs + //
                           (b->column * across - s->g.pad_left) * ps;
    const element *src = AT_CONST(element, s->src + begin, offset);
    const element *weights = s->weights + begin * size * size, *bias = s->bias;
    element *dst = AT(element, s->dst + begin, b->row * s->dst_rs + b->column * dst_ps);
    const element *residual = AT_CONST(element, s->residual + begin,
                                       b->row * s->residual_rs + b->column * s->residual_ps);
    struct epilogue e = s->epilogue;
    if (bias) bias += begin;

    do {
        const int64_t n = tail ? end - begin : LANES;
        vector w[LARGEST_SIZE * LARGEST_SIZE], sum[ROWS][COLUMNS] = {0};
        UNROLL for (int k = 0; k < size * size; k++) {
            w[k] = load(weights + k * LANES);
            /* 25 and more do not fit into the registers, and may stay in memory. */
            if (size == 3) w[k] = in_register(w[k]);
        }
        const element *line = src;
        UNROLL for (int i = 0; i < lines; i++) {
            if (row_bits >> i & 1) {
                const element *from = line;
                UNROLL for (int j = 0; j < inputs; j++) {
                    if (j && j % 5 == 0) from = AT_CONST(element, from, near[4] + ps);
                    if (j < left || j >= inputs - right) continue;
                    if (checked && !(column_bits >> j & 1)) continue;
                    const element *p = AT_CONST(element, from, near[j % 5]);
                    const vector x = in_register(load_channels(p, n, tail));
                    UNROLL for (int r = 0; r < ROWS; r++) {
                        const int kh = i - r * down;
                        if (kh < 0 || kh >= size) continue;
                        UNROLL for (int c = 0; c < columns; c++) {
                            const int kw = j - c * across;
                            if (kw < 0 || kw >= size) continue;
                            sum[r][c] = multiply_add(x, w[kh * size + kw], sum[r][c]);
                        }
                    }
                }
            }
            line = AT_CONST(element, line, rs);
        }
        if (bias) e.bias = load_channels(bias, n, tail);
        finish_block(s, b, &e, sum, dst, residual, out, n, columns, checked, tail);
        begin += LANES;
        src += LANES;
        dst += LANES;
        weights += size * size * LANES;
        residual += LANES;
        if (bias) bias += LANES;
    } while (!tail && begin + LANES <= end);
}

/* The block at b->row, b->column; gives how many columns it has. */
INLINE int square_step(const struct call *s, struct block *b, int64_t begin, int64_t end,
                       const int size, const int down, const int across, const int tail) {
    const int pad = size / 2;
    const int64_t start = b->column * across - s->g.pad_left, todo = s->g.ow - b->column;
    /* Portable C stays small: larger kernels ask for each column of a block. So do strides that
     * differ, which are rare, at the edges of the image. */
    const int known = size == 3 || PPLCONV_VECTOR_BYTES >= 32 || PPLCONV_NEON;
    const int edges = down == across;
#define BLOCK(columns, left, right)                                                                \
    if ((edges || !(left || right)) && start >= -left &&                                           \
        start + (columns - 1) * across + size <= s->g.iw + right && (left ? start == -left : 1) && \
        (right ? start + (columns - 1) * across + size == s->g.iw + right : 1)) {                  \
        square_block(s, b, begin, end, size, down, across, columns, left, right, 0, tail);         \
        return columns;                                                                            \
    }
    /* For five or six columns, three and the rest are less work than four and the rest. */
    if (known && !tail && todo > 3 && todo != 5 && todo != 6) {
        BLOCK(4, 0, 0)
        BLOCK(4, pad, 0)
        BLOCK(4, 0, pad)
    } else if (known && edges && !tail && todo >= 3) {
        BLOCK(3, 0, 0)
        BLOCK(3, 0, pad)
    }
#undef BLOCK
    b->columns = (int)least(todo, b->most);
    b->column_bits = inside_bits(start, (COLUMNS - 1) * across + size, s->g.iw);
    square_block(s, b, begin, end, size, down, across, COLUMNS, 0, 0, 1, tail);
    return b->columns;
}

/* Output rows first .. end - 1, channels 0 .. channels - 1. */
INLINE void square(const struct call *call, int64_t first, int64_t end, int64_t channels,
                   const int size, const int down, const int across) {
    const struct call s = *call;
    const int64_t whole = channels / LANES * LANES;
    struct block b;
    for (b.row = first; b.row < end; b.row += ROWS) {
        begin_rows(&s, &b, end, size, down);
        for (b.column = 0; b.column < s.g.ow;) {
            b.most = COLUMNS;
            if (whole) b.most = square_step(&s, &b, 0, whole, size, down, across, 0);
            if (whole < channels) {
                b.most = square_step(&s, &b, whole, channels, size, down, across, 1);
            }
            b.column += b.most;
        }
    }
}

/* A function each, so that the compiler need not see them all at once. */
#define SQUARE(name, size, down, across)                                                           \
    static __attribute__((noinline)) void square_##name(const struct call *s, int64_t first,       \
                                                        int64_t end, int64_t channels) {           \
        square(s, first, end, channels, size, down, across);                                       \
    }
SQUARE(3_1, 3, 1, 1)
SQUARE(3_2, 3, 2, 2)
SQUARE(5_1, 5, 1, 1)
SQUARE(5_2, 5, 2, 2)
#if SELDOM_SQUARES
SQUARE(7_1, 7, 1, 1)
SQUARE(3_down, 3, 2, 1)
SQUARE(3_across, 3, 1, 2)
SQUARE(5_down, 5, 2, 1)
#endif

typedef void square_function(const struct call *s, int64_t first, int64_t end, int64_t channels);

/* The function for a geometry; null if there is none. */
static square_function *square_of(const struct pplconv_geometry *g) {
    const int64_t size = g->kh, down = g->stride_h, across = g->stride_w;
    if (size != g->kw || g->dilation_h != 1 || g->dilation_w != 1) return 0;
#if SELDOM_SQUARES
    if (size == 7 && down == 1 && across == 1) return square_7_1;
#endif
    if (down > 2 || across > 2) return 0;
    if (size == 3 && down == across) return down == 1 ? square_3_1 : square_3_2;
    if (size == 5 && down == across) return down == 1 ? square_5_1 : square_5_2;
#if SELDOM_SQUARES
    if (size == 3) return down == 2 ? square_3_down : square_3_across;
    if (size == 5 && down == 2) return square_5_down;
#endif
    return 0;
}

#endif

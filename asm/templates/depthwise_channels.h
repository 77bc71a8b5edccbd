/* One call of depthwise_channels, as its loops hold it, and how its vectors read input channels. */
#ifndef PPLCONV_DEPTHWISE_CHANNELS_H
#define PPLCONV_DEPTHWISE_CHANNELS_H

#include "depthwise.h"

/* The call by value, strides in bytes: members read through a pointer would be read again after
 * every store. */
struct call {
    struct pplconv_geometry g;
    struct epilogue epilogue;
    const element *src, *residual, *weights, *bias; /* bias: null if there is none */
    element *dst;
    int64_t src_rs, src_ps, dst_rs, dst_ps, residual_rs, residual_ps;
    int64_t depth, taps; /* of a group's weights: input channels, and rows of each */
};

/* The input channels that a vector of output channels multiplies by a row of weights:
 * OWN     each output channel its own (depthwise);
 * PICKED  one of each group, as several groups lie in a vector;
 * SHARED  one for all, as a group fills one vector or more. */
enum reading { OWN, PICKED, SHARED };

INLINE enum reading reading_of(int64_t depth) {
    return depth == 1 ? OWN : depth < LANES ? PICKED : SHARED;
}

/* The lanes of each group's first channel, for PICKED. */
INLINE vector_bits first_of_groups(int64_t depth) {
    vector_bits lane = {0};
    for (int64_t i = 0; i < LANES; i++) lane[i] = (element_bits)(i / depth * depth);
    return lane;
}

/* Blocks of square kernels have so many output pixels. */
enum { ROWS = 2, COLUMNS = 4 };

/* One bit for each of `count` neighbours from `start` on: set if it lies inside 0 .. size - 1. */
static inline uint32_t inside_bits(int64_t start, int count, int64_t size) {
    uint32_t bits = 0;
    for (int i = 0; i < count; i++) bits |= (uint32_t)(start + i >= 0 && start + i < size) << i;
    return bits;
}

/* A block of outputs: its position, and how many of its rows and columns exist. */
struct block {
    int64_t row, column;
    int rows, columns;              /* that exist */
    int most;                       /* columns to take at once */
    uint32_t row_bits, column_bits; /* of its inputs */
};

/* The rows of a block from b->row on, of outputs that end at `end`, `down` lines apart. */
INLINE void begin_rows(const struct call *s, struct block *b, int64_t end, const int size,
                       const int down) {
    b->rows = (int)least(end - b->row, ROWS);
    b->row_bits = inside_bits(b->row * down - s->g.pad_top, down + size, s->g.ih);
    if (b->rows == 1) b->row_bits &= (1u << size) - 1;
}

/* All lanes, or the first n: the `tail` of the channels. */
INLINE vector load_channels(const element *p, int64_t n, const int tail) {
    return tail ? load_tail(p, n) : load(p);
}
INLINE void store_channels(element *p, vector v, int64_t n, const int tail) {
    if (tail) {
        store_tail(p, v, n);
    } else {
        *(unaligned_vector *)p = v;
    }
}

/* Epilogue and stores of a block's sums; `out`: where its columns are. */
INLINE void finish_block(const struct call *s, const struct block *b, const struct epilogue *e,
                         vector sum[ROWS][COLUMNS], element *dst, const element *residual,
                         const int64_t out[COLUMNS], int64_t n, const int columns,
                         const int checked, const int tail) {
    UNROLL for (int r = 0; r < ROWS; r++) {
        UNROLL for (int c = 0; c < columns; c++)
            sum[r][c] += e->bias;
    }
    if (e->residual) {
        UNROLL for (int r = 0; r < ROWS; r++) {
            UNROLL for (int c = 0; c < columns; c++) {
                if (r >= b->rows || (checked && c >= b->columns)) break;
                const int64_t to = r * s->residual_rs + c * s->residual_ps;
                sum[r][c] += load_channels(AT_CONST(element, residual, to), n, tail);
            }
        }
    }
    UNROLL for (int r = 0; r < ROWS; r++)
        clip_all(e, sum[r], columns);
    UNROLL for (int r = 0; r < ROWS; r++) {
        if (r >= b->rows) break;
        element *to = AT(element, dst, r * s->dst_rs);
        UNROLL for (int c = 0; c < columns; c++) {
            if (checked && c >= b->columns) break;
            store_channels(AT(element, to, out[c]), sum[r][c], n, tail);
        }
    }
}

#endif

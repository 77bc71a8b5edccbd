/* Element-wise programs of one instruction, some of whose streams are bfloat16: blocks of long rows
 * become floats in L1, and the loops of `straight.h` run over them. */
#ifndef PPLCONV_BFLOAT_BLOCKS_H
#define PPLCONV_BFLOAT_BLOCKS_H

#include "bfloat.h"
#include "straight.h"

enum {
    BLOCK_ELEMENTS = 32 * LANES,
    LEAST_ELEMENTS = 8 * LANES, /* of a row; chunks are as fast for shorter ones */
};

static void widen_block(element *to, const bfloat *from, int64_t n) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) *(unaligned_vector *)(to + i) = load_bfloat(from + i);
    if (i < n) *(unaligned_vector *)(to + i) = load_bfloat_lanes(from + i, n - i);
}

static void narrow_block(bfloat *to, const element *from, int64_t n) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store_bfloat(to + i, *(const unaligned_vector *)(from + i));
    if (i < n) store_bfloat_lanes(to + i, *(const unaligned_vector *)(from + i), n - i);
}

static inline int64_t stream_bytes(const struct pplconv_stream *s) {
    return s->stored ? (int64_t)sizeof(bfloat) : (int64_t)sizeof(element);
}

/* One block of n elements. */
static void run_block(int64_t op, const struct pplconv_stream *const streams[4], int64_t row,
                      int64_t column, int64_t n) {
    element blocks[4][BLOCK_ELEMENTS];
    struct straight s = {.rows = 1, .columns = n};
    for (int k = 0; k < 3; k++) {
        const struct pplconv_stream *from = streams[k];
        s.step[k] = from->step;
        if (k && from == streams[0]) {
            s.from[k] = s.from[0];
            continue;
        }
        const int64_t at = from->step ? column * stream_bytes(from) : 0;
        s.from[k] = AT_CONST(element, from->data, row * from->rs + at);
        if (!from->stored) continue;
        widen_block(blocks[k], (const bfloat *)s.from[k], from->step ? n : 1);
        s.from[k] = blocks[k];
    }
    void *to = AT(void, streams[3]->data,
                  row * streams[3]->rs + column * stream_bytes(streams[3]));
    s.to = streams[3]->stored ? blocks[3] : to;
    run_rows(op, &s);
    if (streams[3]->stored) narrow_block(to, blocks[3], n);
}

/* Whether rows follow one another in each stream or, for inputs of one value, are the same. */
static int follow(const struct pplconv_stream *const streams[4], int64_t columns) {
    for (int k = 0; k < 4; k++) {
        if (streams[k]->rs != (streams[k]->step ? columns * stream_bytes(streams[k]) : 0)) return 0;
    }
    return 1;
}

/* Run a program; 0 if it is of another kind, or its rows are short. */
static int run_bfloat_blocks(const struct pplconv_elementwise_args *a) {
    const struct pplconv_instruction *code = a->code;
    const struct pplconv_stream *streams[4];
    int64_t rows = a->rows, columns = a->columns;
    if (!find_streams(a, PPLCONV_STORED_BF16, streams)) return 0;
    if (rows > 1 && follow(streams, columns)) {
        columns *= rows;
        rows = 1;
    }
    if (columns < LEAST_ELEMENTS) return 0;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j += BLOCK_ELEMENTS) {
            const int64_t left = columns - j;
            run_block(code->op, streams, i, j, left < BLOCK_ELEMENTS ? left : BLOCK_ELEMENTS);
        }
    }
    clean_registers();
    return 1;
}

#endif

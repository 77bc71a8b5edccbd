/* Copies of matrices with any strides, for items of one or two bytes: blocks of 16 bytes a row. */
#include "bytes.h"

enum { BLOCK = ITEMS };

#include "strided.h"

static void fill_rows(const struct matrix *m) {
    for (int64_t i = 0; i < m->rows; i++) {
        char *dst = m->dst + i * m->dst_rs;
        char all[16];
        for (int k = 0; k < ITEMS; k++) memcpy(all + k * SIZE, m->src + i * m->src_rs, SIZE);
        const piece repeated = load_piece(all);
        const int64_t bytes = m->columns * SIZE;
        int64_t j = 0;
        for (; j + 16 <= bytes; j += 16) store_piece(dst + j, repeated);
        if (j < bytes) store_part(dst + j, repeated, bytes - j);
    }
}

INLINE void transpose_block(const struct matrix *m, int64_t i, int64_t j, int64_t rows,
                            int64_t columns) {
    const char *src = m->src + i * SIZE + j * m->src_cs;
    char *dst = m->dst + i * m->dst_rs + j * SIZE;
    piece block[ITEMS];
    if (rows == ITEMS && columns == ITEMS) {
        UNROLL for (int c = 0; c < ITEMS; c++)
            block[c] = load_piece(src + c * m->src_cs);
        zip_pieces(block, ITEMS);
        UNROLL for (int r = 0; r < ITEMS; r++)
            store_piece(dst + r * m->dst_rs, block[r]);
        return;
    }
    for (int c = 0; c < ITEMS; c++)
        block[c] = c < columns ? load_part(src + c * m->src_cs, rows * SIZE) : zero_piece();
    zip_pieces(block, ITEMS);
    for (int r = 0; r < rows; r++) store_part(dst + r * m->dst_rs, block[r], columns * SIZE);
}

INLINE void take_turns(const struct matrix *m, int lines) {
    const int step = lines == 2 ? 2 : 4;
    int64_t i = 0;
    /* A pixel of three is stored as four items, of which the next pixel overwrites the last one. */
    for (; i + ITEMS + (step - lines) <= m->rows; i += ITEMS) {
        piece mixed[4];
        char pixels[4 * 16], *dst = m->dst + i * lines * SIZE;
        for (int k = 0; k < step; k++) {
            mixed[k] = k < lines ? load_piece(m->src + i * SIZE + k * m->src_cs) : zero_piece();
        }
        if (lines == 2) {
            zip_pieces(mixed, 2);
            store_piece(dst, mixed[0]);
            store_piece(dst + 16, mixed[1]);
            continue;
        }
        zip_pieces(mixed, 4);
        for (int k = 0; k < 4; k++) store_piece(pixels + 16 * k, mixed[k]);
        for (int k = 0; k < ITEMS; k++) memcpy(dst + 3 * k * SIZE, pixels + 4 * k * SIZE, 4 * SIZE);
    }
    copy_rest(m, i);
}

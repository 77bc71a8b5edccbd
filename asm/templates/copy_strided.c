/* Copies of matrices with any strides: what vectors of floating point have for them. */
#include "transpose.h"

enum { SIZE = sizeof(element), BLOCK = LANES, WIDE = LANES };
typedef element_bits item;

#include "strided.h"

static void fill_rows(const struct matrix *m) {
    for (int64_t i = 0; i < m->rows; i++) {
        element_bits one;
        memcpy(&one, m->src + i * m->src_rs, SIZE);
        const vector all = (vector)((vector_bits){0} + one);
        element *dst = (element *)(m->dst + i * m->dst_rs);
        int64_t j = 0;
        for (; j + LANES <= m->columns; j += LANES) *(unaligned_vector *)(dst + j) = all;
        if (j < m->columns) store_lanes(dst + j, all, m->columns - j);
    }
}

INLINE void transpose_block(const struct matrix *m, int64_t i, int64_t j, int columns) {
    const char *src = m->src + i * SIZE + j * m->src_cs;
    char *dst = m->dst + i * m->dst_rs + j * SIZE;
    vector block[LANES];
    (void)columns;
    load_transposed(block, src, m->src_cs);
    UNROLL for (int r = 0; r < LANES; r++)
        *AT(unaligned_vector, dst, r * m->dst_rs) = block[r];
}

INLINE void transpose_part(const struct matrix *m, int64_t i, int64_t j, int64_t rows,
                           int64_t columns) {
    const char *src = m->src + i * SIZE + j * m->src_cs;
    char *dst = m->dst + i * m->dst_rs + j * SIZE;
    vector block[LANES];
    load_transposed_part(block, src, m->src_cs, columns, rows);
    UNROLL for (int r = 0; r < LANES; r++) {
        if (r >= rows) break;
        store_lanes(AT(element, dst, r * m->dst_rs), block[r], columns);
    }
}

INLINE void take_turns(const struct matrix *m, int lines) {
    const char *src = m->src;
    element *dst = (element *)m->dst;
    /* Indices for each vector of the result: first to mix two lines, then to mix in the third. */
    vector_bits two[3], third[3];
    for (int k = 0; k < lines; k++) {
        for (int i = 0; i < LANES; i++) {
            const int line = (k * LANES + i) % lines, at = (k * LANES + i) / lines;
            two[k][i] = line == 1 ? LANES + at : at;
            third[k][i] = line == 2 ? LANES + at : i;
        }
    }
    int64_t i = 0;
    for (; i + LANES <= m->rows; i += LANES) {
        const vector a = *AT_CONST(unaligned_vector, src, i * SIZE);
        const vector b = *AT_CONST(unaligned_vector, src, i * SIZE + m->src_cs);
        vector c = b;
        if (lines == 3) c = *AT_CONST(unaligned_vector, src, i * SIZE + 2 * m->src_cs);
        UNROLL for (int k = 0; k < lines; k++) {
            vector mixed = shuffle(a, b, two[k]);
            if (lines == 3) mixed = shuffle(mixed, c, third[k]);
            *(unaligned_vector *)(dst + lines * i + k * LANES) = mixed;
        }
    }
    copy_rest(m, i);
}

INLINE void part_turns(const struct matrix *m, int lines) {
    /* Indices for each line: first to mix two vectors, then to mix in the third. */
    vector_bits two[3], third[3];
    for (int k = 0; k < lines; k++) {
        for (int i = 0; i < LANES; i++) {
            const int at = lines * i + k;
            two[k][i] = at % (2 * LANES);
            third[k][i] = at < 2 * LANES ? i : at - LANES;
        }
    }
    int64_t j = 0;
    for (; j + LANES <= m->columns; j += LANES) {
        const char *src = m->src + j * m->src_cs;
        const vector a = *AT_CONST(unaligned_vector, src, 0);
        const vector b = *AT_CONST(unaligned_vector, src, LANES * SIZE);
        vector c = b;
        if (lines == 3) c = *AT_CONST(unaligned_vector, src, 2 * LANES * SIZE);
        UNROLL for (int k = 0; k < lines; k++) {
            vector mixed = shuffle(a, b, two[k]);
            if (lines == 3) mixed = shuffle(mixed, c, third[k]);
            *AT(unaligned_vector, m->dst, k * m->dst_rs + j * SIZE) = mixed;
        }
    }
    copy_last(m, j);
}

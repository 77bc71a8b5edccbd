/* Sums of bytes over the rows of a matrix, in 32 bits. Blocks of rows stay in L1 while their
 * columns are added, some vectors at a time. */
#include "words.h"

enum { BLOCK = 64, TOGETHER = 4 };

/* `count` vectors of columns, the last one of n elements, over some rows. Before the
 * first row, dst holds nothing yet. */
INLINE void add_rows(const struct pplconv_sum_bytes_args *a, int64_t row, int64_t rows,
                     int64_t column, const int count, int64_t n) {
    const char *src = AT_CONST(char, a->src, row * a->src_rs + column);
    int32_t *dst = (int32_t *)a->dst + column;
    words sum[TOGETHER];
    UNROLL for (int v = 0; v < count; v++)
        sum[v] = row ? (words)load_vector(dst + v * LANES, n) : splat_word(0);
    for (int64_t r = 0; r < rows; r++, src += a->src_rs) {
        UNROLL for (int v = 0; v < count; v++)
            sum[v] += load_stored((const stored *)src + v * LANES, n);
    }
    UNROLL for (int v = 0; v < count; v++)
        store_vector(dst + v * LANES, (vector)sum[v], n);
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_sum_bytes_args *a = argument;
    const int64_t columns = a->columns;
    for (int64_t i = 0; i < a->rows; i += BLOCK) {
        const int64_t rows = a->rows - i < BLOCK ? a->rows - i : BLOCK;
        int64_t j = 0;
        for (; j + TOGETHER * LANES <= columns; j += TOGETHER * LANES)
            add_rows(a, i, rows, j, TOGETHER, LANES);
        for (; j + LANES <= columns; j += LANES) add_rows(a, i, rows, j, 1, LANES);
        if (j < columns) add_rows(a, i, rows, j, 1, columns - j);
    }
    clean_registers();
}

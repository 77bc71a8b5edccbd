/* Sums and extremes over the rows of a matrix, of several vectors of columns at a time. Rows go in
 * blocks: rounding errors grow with the length of a chain. */
#include "row_tools.h"

/* Vectors of columns that go together: their chains and totals fit the registers. */
#if PPLCONV_VECTOR_BYTES == 64 || defined(__aarch64__)
enum { TOGETHER = 4 };
#else
enum { TOGETHER = 2 };
#endif
enum { CHAINS = 4 };

INLINE void sum_rows(const struct pplconv_reduce_rows_args *a, int64_t first, int count, int64_t n,
                     enum term term, vector out[TOGETHER]) {
    /* A negative zero leaves every sign as it is; but the sum of nothing is a plain zero. */
    const vector zero = {0}, start = a->rows > 0 ? -zero : zero;
    UNROLL for (int v = 0; v < count; v++)
        out[v] = start;
    for (int64_t i = 0; i < a->rows; i += BLOCK) {
        const int64_t rows = a->rows - i < BLOCK ? a->rows - i : BLOCK;
        const char *row = AT_CONST(char, a->src, i * a->src_rs);
        vector sum[CHAINS][TOGETHER];
        UNROLL for (int k = 0; k < CHAINS; k++) {
            UNROLL for (int v = 0; v < count; v++)
                sum[k][v] = start;
        }
        for (int64_t r = 0; r < rows; r += CHAINS) {
            UNROLL for (int k = 0; k < CHAINS; k++) {
                if (r + k >= rows) break;
                UNROLL for (int v = 0; v < count; v++) {
                    const storage *p = (const storage *)row + first + v * LANES;
                    sum[k][v] = add_term(sum[k][v], load_part(p, n, zero), term, zero);
                }
                row += a->src_rs;
            }
        }
        UNROLL for (int v = 0; v < count; v++)
            out[v] += (sum[0][v] + sum[1][v]) + (sum[2][v] + sum[3][v]);
    }
}

INLINE void find_extremes(const struct pplconv_reduce_rows_args *a, int64_t first, int count,
                          int64_t n, int largest, vector out[TOGETHER]) {
    const vector zero = {0};
    const char *row = a->src;
    struct extreme e[2][TOGETHER];
    UNROLL for (int k = 0; k < 2; k++) {
        UNROLL for (int v = 0; v < count; v++)
            e[k][v] = no_extreme(largest);
    }
    int64_t i = 0;
    for (; i + 4 <= a->rows; i += 4, row += 4 * a->src_rs) {
        UNROLL for (int k = 0; k < 2; k++) {
            const storage *p = AT_CONST(storage, row, 2 * k * a->src_rs) + first;
            UNROLL for (int v = 0; v < count; v++)
                take(&e[k][v], load_part(p + v * LANES, n, zero),
                     load_part(AT_CONST(storage, p, a->src_rs) + v * LANES, n, zero), largest);
        }
    }
    for (; i < a->rows; i++, row += a->src_rs) {
        UNROLL for (int v = 0; v < count; v++) {
            const vector x = load_part((const storage *)row + first + v * LANES, n, zero);
            take(&e[0][v], x, x, largest);
        }
    }
    UNROLL for (int v = 0; v < count; v++)
        out[v] = extreme_of(found(&e[0][v]), found(&e[1][v]), largest);
}

/* `count` vectors of columns, each of n elements; the last may have fewer than a vector. */
INLINE void reduce(const struct pplconv_reduce_rows_args *a, int64_t first, int count, int64_t n,
                   int kind) {
    const vector zero = {0};
    storage *dst = (storage *)a->dst + first;
    vector out[TOGETHER];
    if (kind == PPLCONV_REDUCE_SUM) sum_rows(a, first, count, n, PLAIN, out);
    else if (kind == PPLCONV_REDUCE_SQUARES) sum_rows(a, first, count, n, SQUARE, out);
    else find_extremes(a, first, count, n, kind == PPLCONV_REDUCE_MAX, out);
    UNROLL for (int v = 0; v < count; v++) {
        if (a->flags & PPLCONV_ACCUMULATE) {
            const vector held = load_part(dst + v * LANES, n, zero);
            if (kind == PPLCONV_REDUCE_MAX || kind == PPLCONV_REDUCE_MIN)
                out[v] = extreme_of(held, out[v], kind == PPLCONV_REDUCE_MAX);
            else out[v] = held + out[v];
        }
        store_part(dst + v * LANES, out[v], n);
    }
}

INLINE void reduce_rows(const struct pplconv_reduce_rows_args *a, int kind) {
    int64_t j = 0;
    for (; j + TOGETHER * LANES <= a->columns; j += TOGETHER * LANES)
        reduce(a, j, TOGETHER, LANES, kind);
    for (; j + LANES <= a->columns; j += LANES) reduce(a, j, 1, LANES, kind);
    if (j < a->columns) reduce(a, j, 1, a->columns - j, kind);
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_reduce_rows_args *a = argument;
    switch (a->kind) {
    case PPLCONV_REDUCE_SUM:
        reduce_rows(a, PPLCONV_REDUCE_SUM);
        break;
    case PPLCONV_REDUCE_MAX:
        reduce_rows(a, PPLCONV_REDUCE_MAX);
        break;
    case PPLCONV_REDUCE_MIN:
        reduce_rows(a, PPLCONV_REDUCE_MIN);
        break;
    case PPLCONV_REDUCE_SQUARES:
        reduce_rows(a, PPLCONV_REDUCE_SQUARES);
        break;
    }
    clean_registers();
}

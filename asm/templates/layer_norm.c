/* Layer normalization: three passes over each row, which lies in L1 or in registers after the
 * first. The second pass sums squared differences from the mean. The mean of the squares less the
 * square of the mean would cancel where the mean is large. */
#include "row_tools.h"

struct normal {
    vector mean, factor;
};

INLINE vector normalized(vector x, const struct normal *to, int scaled, vector scale, int moved,
                         vector offset) {
    x = (x - to->mean) * to->factor;
    if (scaled && moved) return multiply_add(x, scale, offset);
    if (scaled) x *= scale;
    if (moved) x += offset;
    return x;
}

INLINE void write_row(const struct pplconv_layer_norm_args *a, storage *dst, const storage *src,
                      const struct normal *to, int scaled, int moved) {
    const storage *scale = a->scale, *offset = a->offset;
    const vector zero = {0};
    int64_t j = 0;
    for (; j + LANES <= a->columns; j += LANES) {
        const vector s = scaled ? load_storage(scale + j) : zero;
        const vector o = moved ? load_storage(offset + j) : zero;
        store_storage(dst + j, normalized(load_storage(src + j), to, scaled, s, moved, o));
    }
    if (j < a->columns) {
        const int64_t n = a->columns - j;
        const vector s = scaled ? load_storage_lanes(scale + j, n) : zero;
        const vector o = moved ? load_storage_lanes(offset + j, n) : zero;
        const vector x = load_storage_lanes(src + j, n);
        store_storage_lanes(dst + j, normalized(x, to, scaled, s, moved, o), n);
    }
}

/* Vectors of a row that stay in registers. */
enum { SHORT_ROW = 12 };

/* The factor of a row, from the sum of its squared differences from the mean. */
INLINE element factor_of(const struct pplconv_layer_norm_args *a, double squares) {
    return (element)(1 / sqrt(squares / (double)a->columns + *(const double *)a->epsilon));
}

/* A row of a few whole vectors: most of its time would go into the bookkeeping of longer ones. */
INLINE void short_row(const struct pplconv_layer_norm_args *a, storage *dst, const storage *src,
                      int64_t count) {
    const storage *scale = a->scale, *offset = a->offset;
    const vector zero = {0};
    vector x[SHORT_ROW] = {0}, sum[2] = {0}, squares[2] = {0};
    UNROLL for (int k = 0; k < SHORT_ROW; k++) {
        if (k == count) break;
        x[k] = load_storage(src + k * LANES);
        sum[k % 2] += x[k];
    }
    const double total = (double)added_lanes(sum[0] + sum[1]);
    const vector mean = zero + (element)(total / (double)a->columns);
    UNROLL for (int k = 0; k < SHORT_ROW; k++) {
        if (k == count) break;
        x[k] -= mean;
        squares[k % 2] = multiply_add(x[k], x[k], squares[k % 2]);
    }
    const vector factor = zero + factor_of(a, (double)added_lanes(squares[0] + squares[1]));
    UNROLL for (int k = 0; k < SHORT_ROW; k++) {
        if (k == count) break;
        const vector s = scale ? load_storage(scale + k * LANES) : zero;
        const vector o = offset ? load_storage(offset + k * LANES) : zero;
        const struct normal to = {zero, factor};
        store_storage(dst + k * LANES, normalized(x[k], &to, !!scale, s, !!offset, o));
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_layer_norm_args *a = argument;
    const vector zero = {0};
    const int64_t rows = a->columns > 0 ? a->rows : 0;
    const int64_t vectors = a->columns / LANES;
    const int is_short = vectors <= SHORT_ROW && vectors * LANES == a->columns;
    for (int64_t i = 0; i < rows; i++) {
        const storage *src = AT_CONST(storage, a->src, i * a->src_rs);
        storage *dst = AT(storage, a->dst, i * a->dst_rs);
        if (is_short) {
            short_row(a, dst, src, vectors);
            continue;
        }
        struct normal to;
        const double mean = row_sum(src, a->columns, PLAIN, zero) / (double)a->columns;
        to.mean = zero + (element)mean;
        to.factor = zero + factor_of(a, row_sum(src, a->columns, DEVIATION, to.mean));
        if (a->scale && a->offset) write_row(a, dst, src, &to, 1, 1);
        else if (a->scale) write_row(a, dst, src, &to, 1, 0);
        else if (a->offset) write_row(a, dst, src, &to, 0, 1);
        else write_row(a, dst, src, &to, 0, 0);
    }
    clean_registers();
}

/* Layer normalization: three passes over a few rows, which lie in L1 after the first. The second
 * pass sums squared differences from the mean. The mean of the squares less the square of the mean
 * would cancel where the mean is large. */
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

/* Rows at once, while they stay in L1 with their results: the sums of a row take long to add up,
 * and those of other rows do not wait for them. Less than a few rows would not pay. */
enum { MOST_ROWS = 8, LEAST_ROWS = 4, ELEMENTS_AT_ONCE = 3072 };

INLINE int64_t rows_at_once(int64_t columns) {
    const int64_t rows = ELEMENTS_AT_ONCE / columns;
    return rows < LEAST_ROWS ? 1 : rows < MOST_ROWS ? rows : MOST_ROWS;
}

INLINE void write_rows(const struct pplconv_layer_norm_args *a, storage *dst, const storage *src,
                       const double *mean, const double *variance, int64_t count, int scaled,
                       int moved) {
    const vector zero = {0};
    const double epsilon = *(const double *)a->epsilon;
    for (int64_t r = 0; r < count; r++) {
        const struct normal to = {zero + (element)mean[r],
                                  zero + (element)(1 / sqrt(variance[r] + epsilon))};
        write_row(a, AT(storage, dst, r * a->dst_rs), AT_CONST(storage, src, r * a->src_rs), &to,
                  scaled, moved);
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_layer_norm_args *a = argument;
    const vector zero = {0};
    const int64_t rows = a->columns > 0 ? a->rows : 0;
    const double columns = (double)a->columns;
    const int64_t at_once = rows > 0 ? rows_at_once(a->columns) : 1;
    for (int64_t i = 0; i < rows; i += at_once) {
        const storage *src = AT_CONST(storage, a->src, i * a->src_rs);
        storage *dst = AT(storage, a->dst, i * a->dst_rs);
        const int64_t count = rows - i < at_once ? rows - i : at_once;
        double mean[MOST_ROWS], variance[MOST_ROWS];
        for (int64_t r = 0; r < count; r++) {
            const storage *row = AT_CONST(storage, src, r * a->src_rs);
            mean[r] = row_sum(row, a->columns, PLAIN, zero) / columns;
        }
        for (int64_t r = 0; r < count; r++) {
            const storage *row = AT_CONST(storage, src, r * a->src_rs);
            const vector own = zero + (element)mean[r];
            variance[r] = row_sum(row, a->columns, DEVIATION, own) / columns;
        }
        if (a->scale && a->offset) write_rows(a, dst, src, mean, variance, count, 1, 1);
        else if (a->scale) write_rows(a, dst, src, mean, variance, count, 1, 0);
        else if (a->offset) write_rows(a, dst, src, mean, variance, count, 0, 1);
        else write_rows(a, dst, src, mean, variance, count, 0, 0);
    }
    clean_registers();
}

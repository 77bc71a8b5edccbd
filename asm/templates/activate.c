/* Activations that no clip expresses, in place. */
#include "curves.h"

static inline vector activated(int64_t kind, vector x, vector slope) {
    switch (kind) {
    case PPLCONV_ACTIVATE_LEAKY:
    case PPLCONV_ACTIVATE_PRELU_ROW:
    case PPLCONV_ACTIVATE_PRELU_COLUMN:
        return piecewise(x, slope);
    case PPLCONV_ACTIVATE_HARDSWISH:
        return hardswish(x);
    case PPLCONV_ACTIVATE_SIGMOID:
        return logistic(x, 0);
    case PPLCONV_ACTIVATE_SILU:
        return logistic(x, 1);
    }
    return x;
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_activate_args *a = argument;
    const int by_column = a->kind == PPLCONV_ACTIVATE_PRELU_COLUMN;
    const storage *slopes = a->slope;
    vector slope = {0};
    if (a->columns <= 0) return;
    for (int64_t i = 0; i < a->rows; i++) {
        storage *row = AT(storage, a->data, i * a->row_stride);
        int64_t j = 0;
        if (a->kind == PPLCONV_ACTIVATE_LEAKY)
            slope = (vector){0} + load_storage_lanes(slopes, 1)[0];
        if (a->kind == PPLCONV_ACTIVATE_PRELU_ROW)
            slope = (vector){0} + load_storage_lanes(slopes + i, 1)[0];
        for (; j + LANES <= a->columns; j += LANES) {
            if (by_column) slope = load_storage(slopes + j);
            store_storage(row + j, activated(a->kind, load_storage(row + j), slope));
        }
        if (j < a->columns) {
            const int64_t n = a->columns - j;
            if (by_column) slope = load_storage_lanes(slopes + j, n);
            store_storage_lanes(row + j, activated(a->kind, load_storage_lanes(row + j, n), slope),
                                n);
        }
    }
}

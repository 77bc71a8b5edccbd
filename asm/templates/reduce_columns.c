/* Sums and extremes over the elements of each row of a matrix. */
#include "row_tools.h"

INLINE void reduce_columns(const struct pplconv_reduce_columns_args *a, int kind) {
    const vector zero = {0};
    for (int64_t i = 0; i < a->rows; i++) {
        const storage *row = AT_CONST(storage, a->src, i * a->src_rs);
        element result;
        if (kind == PPLCONV_REDUCE_MAX || kind == PPLCONV_REDUCE_MIN)
            result = row_extreme(row, a->columns, kind == PPLCONV_REDUCE_MAX);
        else
            result = (element)row_sum(row, a->columns, kind == PPLCONV_REDUCE_SUM ? PLAIN : SQUARE,
                                      zero);
        store_storage_lanes(AT(storage, a->dst, i * a->dst_rs), zero + result, 1);
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_reduce_columns_args *a = argument;
    switch (a->kind) {
    case PPLCONV_REDUCE_SUM:
        reduce_columns(a, PPLCONV_REDUCE_SUM);
        break;
    case PPLCONV_REDUCE_MAX:
        reduce_columns(a, PPLCONV_REDUCE_MAX);
        break;
    case PPLCONV_REDUCE_MIN:
        reduce_columns(a, PPLCONV_REDUCE_MIN);
        break;
    case PPLCONV_REDUCE_SQUARES:
        reduce_columns(a, PPLCONV_REDUCE_SQUARES);
        break;
    }
    clean_registers();
}

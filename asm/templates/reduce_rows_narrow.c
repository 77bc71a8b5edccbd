/* Extremes of integers over the rows of a matrix. */
#include "clean.h"
#include "template.h"

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_reduce_rows_args *a = argument;
    const int largest = a->kind == PPLCONV_REDUCE_MAX;
    element *dst = a->dst;
    int64_t i = 0;
    if (a->rows > 0 && !(a->flags & PPLCONV_ACCUMULATE)) {
        const element *row = a->src;
        for (int64_t j = 0; j < a->columns; j++) dst[j] = row[j];
        i = 1;
    }
    for (; i < a->rows; i++) {
        const element *row = AT_CONST(element, a->src, i * a->src_rs);
        if (largest) {
            for (int64_t j = 0; j < a->columns; j++) dst[j] = row[j] > dst[j] ? row[j] : dst[j];
        } else {
            for (int64_t j = 0; j < a->columns; j++) dst[j] = row[j] < dst[j] ? row[j] : dst[j];
        }
    }
    clean_registers();
}

/* Extremes of integers over the elements of each row of a matrix. */
#include "clean.h"
#include "template.h"

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_reduce_columns_args *a = argument;
    const int largest = a->kind == PPLCONV_REDUCE_MAX;
    for (int64_t i = 0; i < a->rows && a->columns > 0; i++) {
        const element *row = AT_CONST(element, a->src, i * a->src_rs);
        element found = row[0];
        if (largest) {
            for (int64_t j = 1; j < a->columns; j++) found = row[j] > found ? row[j] : found;
        } else {
            for (int64_t j = 1; j < a->columns; j++) found = row[j] < found ? row[j] : found;
        }
        *AT(element, a->dst, i * a->dst_rs) = found;
    }
    clean_registers();
}

/* Numbers of the largest or smallest elements of the rows of a matrix. */
#include "template.h"

static inline int is_nan(element x) {
#if PPLCONV_INTEGER_BITS
    (void)x;
    return 0;
#else
    return x != x;
#endif
}

static inline int64_t find(const element *row, int64_t columns, int largest, int last) {
    int64_t found = 0;
    element best = row[0];
    for (int64_t j = 1; j < columns; j++) {
        const element x = row[j];
        const int before = is_nan(best), nan = is_nan(x);
        const int better = before ? 0 : nan || (largest ? x > best : x < best);
        const int same = before ? nan : x == best;
        if (better || (last && same)) {
            best = x;
            found = j;
        }
    }
    return found;
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_arg_columns_args *a = argument;
    const int largest = a->kind == PPLCONV_REDUCE_MAX, last = a->last != 0;
    for (int64_t i = 0; i < a->rows; i++) {
        const element *row = AT_CONST(element, a->src, i * a->src_rs);
        *AT(int64_t, a->dst, i * a->dst_rs) = find(row, a->columns, largest, last);
    }
}

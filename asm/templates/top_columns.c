/* The largest or smallest elements of the rows of a matrix, in order. A heap of places, whose root
 * is the last of the best until now, becomes their order. */
#include "template.h"

static inline int is_nan(element x) {
#if PPLCONV_INTEGER_BITS
    (void)x;
    return 0;
#else
    return x != x;
#endif
}

/* Whether x comes before y; NaN is larger than all numbers. */
static inline int precedes(element x, element y, int largest) {
    return largest ? x > y || (is_nan(x) && !is_nan(y)) : x < y || (is_nan(y) && !is_nan(x));
}

/* Whether the element at place i comes before the one at place j. */
static inline int is_before(const element *row, int64_t i, int64_t j, int largest) {
    const element x = row[i], y = row[j];
    if (precedes(x, y, largest)) return 1;
    return i < j && !precedes(y, x, largest);
}

/* Put a place where it belongs, from the root down in a heap of `count` places. */
static inline void sink(int64_t *heap, int64_t count, int64_t at, int64_t place, const element *row,
                        int largest) {
    for (;;) {
        int64_t below = 2 * at + 1;
        if (below >= count) break;
        if (below + 1 < count && is_before(row, heap[below], heap[below + 1], largest)) below++;
        if (!is_before(row, place, heap[below], largest)) break;
        heap[at] = heap[below];
        at = below;
    }
    heap[at] = place;
}

static inline __attribute__((always_inline)) void find(const element *row, int64_t columns,
                                                       int64_t *heap, int64_t count, int largest) {
    for (int64_t j = 0; j < count; j++) heap[j] = j;
    for (int64_t j = count / 2 - 1; j >= 0; j--) sink(heap, count, j, heap[j], row, largest);
    /* An element that is as good as the root comes after it. */
    for (int64_t j = count; j < columns; j++)
        if (precedes(row[j], row[heap[0]], largest)) sink(heap, count, 0, j, row, largest);
    for (int64_t end = count - 1; end > 0; end--) {
        const int64_t place = heap[end];
        heap[end] = heap[0];
        sink(heap, end, 0, place, row, largest);
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_top_columns_args *a = argument;
    const int64_t rows = a->count > 0 ? a->rows : 0;
    for (int64_t i = 0; i < rows; i++) {
        const element *row = AT_CONST(element, a->src, i * a->src_rs);
        int64_t *places = AT(int64_t, a->places, i * a->places_rs);
        element *values = AT(element, a->values, i * a->values_rs);
        if (a->kind == PPLCONV_REDUCE_MAX) find(row, a->columns, places, a->count, 1);
        else find(row, a->columns, places, a->count, 0);
        for (int64_t j = 0; j < a->count; j++) values[j] = row[places[j]];
    }
}

/* Sums of so many rows each, where all rows count alike. Each result of a block is a sum of the
 * last rows that the first of them sees, made from below, and of the first rows after these, made
 * from above (van Herk 1992; Gil and Werman 1993). So a result takes three additions, however many
 * rows it sees, and nothing is subtracted. */
#include "lanes.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

enum { MANY = 4 };

typedef const struct pplconv_box_columns_args arguments;

INLINE vector load(const element *from, const int64_t lanes) {
    return lanes == LANES ? (vector) * (const unaligned_vector *)from : load_lanes(from, lanes);
}
INLINE void store(element *to, vector x, const int64_t lanes) {
    if (lanes == LANES) *(unaligned_vector *)to = x;
    else store_lanes(to, x, lanes);
}

/* Some vectors of results, from element i on; fewer than all lanes of a single one. */
INLINE void sum_vectors(arguments *a, int64_t i, const int count, const int64_t lanes) {
    const vector zero = {0}, weight = *(const element *)a->weight - zero;
    const element *const *rows = a->rows;
    element *dst = (element *)a->dst + i;
    const int64_t pitch = a->dst_rs / (int64_t)sizeof(element);
    int64_t past = a->past, made;
    /* CPUs do not foresee short pieces of many rows: the next vectors of a row are asked for. */
#define ADD(row)                                                                                   \
    UNROLL for (int v = 0; v < count; v++) {                                                       \
        const element *from = rows[row] + i + v * LANES;                                           \
        sums[v] = multiply_add(load(from, lanes), weight, sums[v]);                                \
        __builtin_prefetch(from + count * LANES);                                                  \
    }
    for (int64_t left = a->lines; left > 0; left -= made, rows += made, past = 0) {
        made = left < a->block - past ? left : a->block - past;
        vector sums[MANY];
        UNROLL for (int v = 0; v < count; v++)
            sums[v] = zero;
        int64_t r = a->taps - past - 1;
        for (; r >= made; r--) {
            ADD(r);
        }
        for (; r >= 0; r--) {
            ADD(r);
            UNROLL for (int v = 0; v < count; v++)
                store(dst + r * pitch + v * LANES, sums[v], lanes);
        }
        UNROLL for (int v = 0; v < count; v++)
            sums[v] = zero;
        for (r = a->taps - past; r < a->taps; r++) {
            ADD(r);
        }
        for (r = 0; r < made; r++, dst += pitch) {
            if (r) {
                ADD(a->taps + r - 1);
            }
            UNROLL for (int v = 0; v < count; v++) {
                element *to = dst + v * LANES;
                store(to, load(to, lanes) + sums[v], lanes);
            }
        }
    }
#undef ADD
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    arguments *a = argument;
    int64_t i = 0;
    if (a->count < LANES) {
        sum_vectors(a, 0, 1, a->count);
        i = a->count;
    }
    for (; i + MANY * LANES <= a->count; i += MANY * LANES) sum_vectors(a, i, MANY, LANES);
    for (; i < a->count; i += LANES) {
        /* The last vector reaches back. */
        if (i + LANES > a->count) i = a->count - LANES;
        sum_vectors(a, i, 1, LANES);
    }
    clean_registers();
}

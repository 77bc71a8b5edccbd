/* Sums of so many rows each, where all rows count alike. As many results as a sum has rows are made
 * together: each is a sum of the last rows that the first of them sees, made from below, and of the
 * first rows after these, made from above (van Herk 1992; Gil and Werman 1993). So a result takes
 * three additions, however many rows it sees, and nothing is subtracted. */
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
    for (int64_t left = a->lines; left > 0; left -= a->taps, rows += a->taps) {
        const int64_t made = left < a->taps ? left : a->taps;
        vector sums[MANY];
        UNROLL for (int v = 0; v < count; v++) sums[v] = zero;
        for (int64_t r = a->taps - 1; r >= 0; r--) {
            UNROLL for (int v = 0; v < count; v++) {
                sums[v] += load(rows[r] + i + v * LANES, lanes);
                if (r == 0) store(dst + v * LANES, sums[v] * weight, lanes);
                else if (r < made) store(dst + r * pitch + v * LANES, sums[v], lanes);
            }
        }
        UNROLL for (int v = 0; v < count; v++) sums[v] = zero;
        dst += pitch;
        for (int64_t r = 1; r < made; r++, dst += pitch) {
            UNROLL for (int v = 0; v < count; v++) {
                sums[v] += load(rows[a->taps + r - 1] + i + v * LANES, lanes);
                const vector sum = load(dst + v * LANES, lanes) + sums[v];
                store(dst + v * LANES, sum * weight, lanes);
            }
        }
    }
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

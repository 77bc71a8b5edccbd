/* A row of a filter in floating point: several vectors of sums stay in registers from tap to tap,
 * and each tap is read once for all of them. */
#include "lanes.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

enum { MANY = 8, FEW = 2 };

INLINE void filter_vectors(const struct pplconv_filter_floats_args *a, int64_t i, const int count) {
    const int64_t *places = a->places;
    const element *weights = a->weights, *src = a->src;
    const vector zero = {0};
    vector sums[MANY];
    UNROLL for (int v = 0; v < count; v++)
        sums[v] = zero;
    for (int64_t t = 0; t < a->taps; t++) {
        const element *from = AT_CONST(element, src + i, places[t]);
        const vector weight = zero + weights[t];
        UNROLL for (int v = 0; v < count; v++) {
            const vector x = *(const unaligned_vector *)(from + v * LANES);
            sums[v] = multiply_add(weight, x, sums[v]);
        }
    }
    UNROLL for (int v = 0; v < count; v++) {
        *(unaligned_vector *)((element *)a->dst + i + v * LANES) = sums[v];
    }
}

/* Less than a vector. */
static __attribute__((noinline)) void filter_lanes(const struct pplconv_filter_floats_args *a) {
    const vector zero = {0};
    vector sum = zero;
    for (int64_t t = 0; t < a->taps; t++) {
        const element *from = AT_CONST(element, a->src, ((const int64_t *)a->places)[t]);
        const vector weight = zero + ((const element *)a->weights)[t];
        sum = multiply_add(weight, load_lanes(from, a->count), sum);
    }
    store_lanes(a->dst, sum, a->count);
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_filter_floats_args *a = argument;
    int64_t i = 0;
    if (a->count < LANES) {
        filter_lanes(a);
    } else {
        for (; i + MANY * LANES <= a->count; i += MANY * LANES) filter_vectors(a, i, MANY);
        for (; i + FEW * LANES <= a->count; i += FEW * LANES) filter_vectors(a, i, FEW);
        for (; i < a->count; i += LANES) {
            /* The last vector reaches back. */
            if (i + LANES > a->count) i = a->count - LANES;
            filter_vectors(a, i, 1);
        }
    }
    clean_registers();
}

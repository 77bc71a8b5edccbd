/* Rows of halves to rows of floats, in place of them or added to them: how the arrays of
 * half precision get into scratch that is computed in float. */
#include "half.h"

static inline __attribute__((always_inline)) void widen(const struct pplconv_widen_args *a,
                                                        int accumulate) {
    const int64_t columns = a->columns;
    for (int64_t r = 0; r < a->rows; r++) {
        const half *src = AT_CONST(half, a->src, r * a->src_rs);
        element *dst = AT(element, a->dst, r * a->dst_rs);
        int64_t i = 0;
        for (; i + LANES <= columns; i += LANES) {
            vector v = load_half(src + i);
            if (accumulate) v += *(const unaligned_vector *)(dst + i);
            *(unaligned_vector *)(dst + i) = v;
        }
        if (i < columns) {
            vector v = load_half_lanes(src + i, columns - i);
            if (accumulate) v += load_lanes(dst + i, columns - i);
            store_lanes(dst + i, v, columns - i);
        }
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_widen_args *a = argument;
    if (a->flags & PPLCONV_ACCUMULATE) {
        widen(a, 1);
    } else {
        widen(a, 0);
    }
}

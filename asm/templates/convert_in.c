/* Convert rows of an array into scratch, from the storage type to the compute type. They replace
 * the contents of scratch, or are added to them. */
#include "storage.h"

static inline __attribute__((always_inline)) void
convert_in(const struct pplconv_convert_in_args *a, int accumulate) {
    const int64_t columns = a->columns;
    for (int64_t r = 0; r < a->rows; r++) {
        const storage *src = AT_CONST(storage, a->src, r * a->src_rs);
        element *dst = AT(element, a->dst, r * a->dst_rs);
        int64_t i = 0;
        for (; i + LANES <= columns; i += LANES) {
            vector v = load_storage(src + i);
            if (accumulate) v += *(const unaligned_vector *)(dst + i);
            *(unaligned_vector *)(dst + i) = v;
        }
        if (i < columns) {
            vector v = load_storage_lanes(src + i, columns - i);
            if (accumulate) v += load_lanes(dst + i, columns - i);
            store_lanes(dst + i, v, columns - i);
        }
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_convert_in_args *a = argument;
    if (a->flags & PPLCONV_ACCUMULATE) {
        convert_in(a, 1);
    } else {
        convert_in(a, 0);
    }
}

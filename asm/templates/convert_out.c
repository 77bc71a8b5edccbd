/* Run the rest of the epilogue on rows of scratch, and convert them to rows of an array, from the
 * compute type to the storage type. */
#include "storage.h"

/* Epilogue of one call. */
struct epilogue {
    int residual, clip;
    vector low, high;
};

static inline vector finished(vector v, const struct epilogue *e, vector residual) {
    if (e->residual) v += residual;
    if (e->clip) v = at_most(at_least(v, e->low), e->high);
    return v;
}

static inline __attribute__((always_inline)) void
convert_out(const struct pplconv_convert_out_args *a, const struct epilogue *e) {
    const int64_t columns = a->columns;
    const vector zero = {0};
    for (int64_t r = 0; r < a->rows; r++) {
        const element *src = AT_CONST(element, a->src, r * a->src_rs);
        const storage *residual = AT_CONST(storage, a->residual, r * a->residual_rs);
        storage *dst = AT(storage, a->dst, r * a->dst_rs);
        int64_t i = 0;
        for (; i + LANES <= columns; i += LANES) {
            const vector v = *(const unaligned_vector *)(src + i);
            store_storage(dst + i, finished(v, e, e->residual ? load_storage(residual + i) : zero));
        }
        if (i < columns) {
            const int64_t n = columns - i;
            const vector more = e->residual ? load_storage_lanes(residual + i, n) : zero;
            store_storage_lanes(dst + i, finished(load_lanes(src + i, n), e, more), n);
            i = columns;
        }
        for (; i < a->fill; i += LANES) {
            store_storage_lanes(dst + i, zero, a->fill - i < LANES ? a->fill - i : LANES);
        }
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_convert_out_args *a = argument;
    const element *bounds = a->clip;
    const int clip = (a->flags & PPLCONV_CLIP) != 0;
    const vector zero = {0};
    struct epilogue e = {0, 0, zero, zero};
    if (!(a->flags & (PPLCONV_RESIDUAL | PPLCONV_CLIP))) {
        convert_out(a, &e);
        return;
    }
    e.residual = (a->flags & PPLCONV_RESIDUAL) != 0;
    e.clip = clip;
    if (clip) {
        e.low = zero + bounds[0];
        e.high = zero + bounds[1];
    }
    convert_out(a, &e);
}

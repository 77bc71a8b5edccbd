/* The one rounding to half precision: rows of floats, with what is left of the epilogue, to rows
 * of halves. */
#include "half.h"

/* What one call's epilogue needs. */
struct epilogue {
    int residual, clip;
    vector low, high;
};

static inline vector finished(vector v, const struct epilogue *e, vector residual) {
    if (e->residual) v += residual;
    if (e->clip) v = at_most(at_least(v, e->low), e->high);
    return v;
}

static inline __attribute__((always_inline)) void narrow(const struct pplconv_narrow_args *a,
                                                         const struct epilogue *e) {
    const int64_t columns = a->columns;
    const vector zero = {0};
    for (int64_t r = 0; r < a->rows; r++) {
        const element *src = AT_CONST(element, a->src, r * a->src_rs);
        const half *residual = AT_CONST(half, a->residual, r * a->residual_rs);
        half *dst = AT(half, a->dst, r * a->dst_rs);
        int64_t i = 0;
        for (; i + LANES <= columns; i += LANES) {
            const vector v = *(const unaligned_vector *)(src + i);
            store_half(dst + i, finished(v, e, e->residual ? load_half(residual + i) : zero));
        }
        if (i < columns) {
            const int64_t n = columns - i;
            const vector more = e->residual ? load_half_lanes(residual + i, n) : zero;
            store_half_lanes(dst + i, finished(load_lanes(src + i, n), e, more), n);
            i = columns;
        }
        for (; i < a->fill; i += LANES) {
            store_half_lanes(dst + i, zero, a->fill - i < LANES ? a->fill - i : LANES);
        }
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_narrow_args *a = argument;
    const element *bounds = a->clip;
    const int clip = (a->flags & PPLCONV_CLIP) != 0;
    const vector zero = {0};
    struct epilogue e = {0, 0, zero, zero};
    if (!(a->flags & (PPLCONV_RESIDUAL | PPLCONV_CLIP))) {
        narrow(a, &e);
        return;
    }
    e.residual = (a->flags & PPLCONV_RESIDUAL) != 0;
    e.clip = clip;
    if (clip) {
        e.low = zero + bounds[0];
        e.high = zero + bounds[1];
    }
    narrow(a, &e);
}

/* Run the rest of the epilogue on rows of scratch, and convert them to rows of an array, from the
 * compute type to the storage type. */
#include "storage.h"

/* Epilogue of one call. `flushed`: no result is subnormal, or flush-to-zero is off. */
struct epilogue {
    int residual, clip, flushed;
    vector low, high;
};

static inline vector finished(vector v, const struct epilogue *e, vector residual) {
    if (e->residual) v += residual;
    if (e->clip) v = at_most(at_least(v, e->low), e->high);
    return v;
}

#if defined(PPLCONV_STORAGE_BF16) && HAS_BFCVTN

static inline void store_finished(storage *p, vector v, const struct epilogue *e) {
    if (e->flushed) store_flushed_bfloat(p, v);
    else store_storage(p, v);
}
static inline void store_finished_lanes(storage *p, vector v, int64_t n, const struct epilogue *e) {
    if (e->flushed) store_flushed_bfloat_lanes(p, v, n);
    else store_storage_lanes(p, v, n);
}

#else

static inline void store_finished(storage *p, vector v, const struct epilogue *e) {
    (void)e;
    store_storage(p, v);
}
static inline void store_finished_lanes(storage *p, vector v, int64_t n, const struct epilogue *e) {
    (void)e;
    store_storage_lanes(p, v, n);
}

#endif

static inline
    __attribute__((always_inline)) void convert_out(const struct pplconv_convert_out_args *a,
                                                    const struct epilogue *e) {
    const int64_t columns = a->columns;
    const vector zero = {0};
    for (int64_t r = 0; r < a->rows; r++) {
        const element *src = AT_CONST(element, a->src, r * a->src_rs);
        const storage *residual = AT_CONST(storage, a->residual, r * a->residual_rs);
        storage *dst = AT(storage, a->dst, r * a->dst_rs);
        int64_t i = 0;
        for (; i + LANES <= columns; i += LANES) {
            const vector v = *(const unaligned_vector *)(src + i);
            const vector more = e->residual ? load_storage(residual + i) : zero;
            store_finished(dst + i, finished(v, e, more), e);
        }
        if (i < columns) {
            const int64_t n = columns - i;
            const vector more = e->residual ? load_storage_lanes(residual + i, n) : zero;
            store_finished_lanes(dst + i, finished(load_lanes(src + i, n), e, more), n, e);
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
    struct epilogue e = {0, 0, 0, zero, zero};
    if (!(a->flags & (PPLCONV_RESIDUAL | PPLCONV_CLIP))) {
#if defined(PPLCONV_STORAGE_BF16) && HAS_BFCVTN
        const uint64_t control = control_register();
        const int flushes = (control & FLUSH_TO_ZERO) != 0;
        if (!flushes || a->rows * a->columns >= WORTH_A_SWITCH) {
            if (flushes) set_control_register(control & ~(uint64_t)FLUSH_TO_ZERO);
            e.flushed = 1;
            convert_out(a, &e);
            if (flushes) set_control_register(control);
            return;
        }
#endif
        convert_out(a, &e);
        return;
    }
    e.residual = (a->flags & PPLCONV_RESIDUAL) != 0;
    e.clip = clip;
    if (clip) {
        e.low = zero + bounds[0];
        e.high = zero + bounds[1];
    }
#if defined(PPLCONV_STORAGE_BF16) && HAS_BFCVTN
    /* Arithmetic made the sums, and adds the residual. */
    e.flushed = !clip || !(is_subnormal(bounds[0]) || is_subnormal(bounds[1]));
#endif
    convert_out(a, &e);
}

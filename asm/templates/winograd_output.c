/* Y = A^T M A of neighbouring tiles, from one matrix for each position of the patch into a
 * channels-last image, with the epilogue in the one store. Integers have no epilogue here; the
 * factor of their integer matrices is divided out. */
#define WINOGRAD_F64 PPLCONV_F64
#include "winograd.h"

enum { AHEAD = 256 }; /* bytes: four vectors, as many as blocks of channels often have */

/* Epilogue of one block of channels. */
struct epilogue {
    vector bias, low, high;
    int64_t flags;
};

#if WINOGRAD_INTEGERS
/* The sum itself, where a number with WINOGRAD_SHIFT bits fewer than int32 holds it. */
INLINE vector finished(const struct epilogue *e, value sum, const char *residual, int64_t channels,
                       int all_lanes) {
    (void)e, (void)residual, (void)channels, (void)all_lanes;
    return (vector)((signed_value)sum >> WINOGRAD_SHIFT);
}
INLINE void look_at(value y[TILE], value *seen) { (void)y, (void)seen; }
INLINE int any_spoiled(const value seen[2]) {
    (void)seen;
    return 0;
}
#else
INLINE vector finished(const struct epilogue *e, value sum, const char *residual, int64_t channels,
                       int all_lanes) {
    vector out = sum;
    if (e->flags & PPLCONV_BIAS_COLUMN) out += e->bias;
    if (e->flags & PPLCONV_RESIDUAL) {
        if (all_lanes) out += *(const unaligned_vector *)residual;
        else out += load_tail((const element *)residual, channels);
    }
    if (e->flags & PPLCONV_CLIP) out = at_most(at_least(out, e->low), e->high);
    return out;
}
/* Products of neighbouring outputs are added to `seen`, in two sums to keep the chains short. Once
 * an output is infinite or NaN, its sum stays so. A sum may also overflow although all outputs are
 * finite. */
INLINE void look_at(value y[TILE], value *seen) {
    UNROLL for (int r = 0; r < TILE; r += 2) {
        const value next = y[r + (r + 1 < TILE)]; /* the last of an odd number is squared */
        seen[r / 2 % 2] = add_product(seen[r / 2 % 2], y[r], next);
    }
}
INLINE int any_spoiled(const value seen[2]) {
    const value sum = seen[0] + seen[1];
    int spoiled = 0;
    for (int i = 0; i < LANES; i++) {
        /* x - x is zero for finite x, and NaN for any other. */
        if (!(sum[i] - sum[i] == 0)) spoiled = 1;
    }
    return spoiled;
}
#endif

/* One tile of `channels` lanes, of which `rows` x `columns` pixels are stored. Compiled for each
 * case of: are `all_pixels` stored, are `all_lanes` of the vectors in use. */
INLINE void transform_tile(const char *src, int64_t src_ps, char *dst, int64_t dst_rs,
                           int64_t dst_ps, const char *residual, int64_t residual_rs,
                           int64_t residual_ps, const struct epilogue *e, int64_t rows,
                           int64_t columns, int64_t channels, int all_pixels, int all_lanes,
                           value *seen) {
    value half[TILE][PATCH];
    UNROLL for (int r = 0; r < PATCH; r++) {
        value x[PATCH], y[TILE];
        UNROLL for (int c = 0; c < PATCH; c++) {
            const char *from = visit_const(&src, r * PATCH + c, src_ps);
            if (all_lanes) x[c] = (value) * (const unaligned_vector *)from;
            else x[c] = (value)load_tail((const element *)from, channels);
        }
        transform_output(x, y);
        UNROLL for (int c = 0; c < TILE; c++)
            half[c][r] = y[c];
    }
    UNROLL for (int c = 0; c < TILE; c++) {
        char *to = visit(&dst, c, dst_ps);
        const char *from = visit_const(&residual, c, residual_ps);
        value y[TILE];
        if (!all_pixels && c >= columns) break;
        transform_output(half[c], y);
        look_at(y, seen);
        UNROLL for (int r = 0; r < TILE; r++) {
            if (!all_pixels && r >= rows) break;
            const vector out = finished(e, y[r], from + r * residual_rs, channels, all_lanes);
            char *pixel = visit(&to, r, dst_rs);
            /* Lines of the next block of channels come while there is time. */
            __builtin_prefetch(pixel + AHEAD, 1);
            if (all_lanes) *(unaligned_vector *)pixel = out;
            else store_tail((element *)pixel, out, channels);
        }
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_winograd_output_args *a = argument;
    const element *bounds = a->clip;
    const vector zero = {0};
    struct epilogue e = {zero, zero, zero, a->flags};
    value seen[2] = {{0}, {0}};
    if (a->flags & PPLCONV_CLIP) {
        e.low += bounds[0];
        e.high += bounds[1];
    }
    for (int64_t tile = 0; tile < a->tiles; tile++) {
        const int64_t columns = a->columns - tile * TILE, pixels = tile * TILE;
        const int whole = a->rows >= TILE && columns >= TILE;
        const char *src = (const char *)a->src + tile * a->src_ts;
        char *dst = (char *)a->dst + pixels * a->dst_ps;
        const char *residual = (const char *)a->residual + pixels * a->residual_ps;
        for (int64_t channel = 0; channel < a->channels; channel += LANES) {
            const int64_t channels = a->channels - channel < LANES ? a->channels - channel : LANES;
            const int64_t offset = channel * (int64_t)sizeof(element);
            if (a->flags & PPLCONV_BIAS_COLUMN) {
                e.bias = load_lanes((const element *)a->bias + channel, channels);
            }
            if (channels < LANES) {
                transform_tile(src + offset, a->src_ps, dst + offset, a->dst_rs, a->dst_ps,
                               residual + offset, a->residual_rs, a->residual_ps, &e, a->rows,
                               columns, channels, 0, 0, seen);
            } else if (!whole) {
                transform_tile(src + offset, a->src_ps, dst + offset, a->dst_rs, a->dst_ps,
                               residual + offset, a->residual_rs, a->residual_ps, &e, a->rows,
                               columns, channels, 0, 1, seen);
            } else {
                transform_tile(src + offset, a->src_ps, dst + offset, a->dst_rs, a->dst_ps,
                               residual + offset, a->residual_rs, a->residual_ps, &e, a->rows,
                               columns, channels, 1, 1, seen);
            }
        }
    }
    if (any_spoiled(seen)) *(int64_t *)a->spoiled = 1;
}

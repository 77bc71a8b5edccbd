/* Weights (oc, ic, taps) into panels of output channels, k down and channels across: what a
 * microkernel walks in order. Source rows are read as forward streams, LANES of them at a
 * time, and turned in registers. */
#include "lanes.h"
#include "transpose.h"

/* One block: `channels` rows of `count` weights (both at most LANES), whose k-th column becomes
 * `store` lanes of the packed row `row[k]`. */
static inline __attribute__((always_inline)) void pack_block(const element *src, int64_t src_step,
                                                             int64_t channels, int64_t count,
                                                             element *dst, const int64_t row[LANES],
                                                             int64_t store) {
    const vector zero = {0};
    vector block[LANES];
    if (channels == LANES && count == LANES) {
        UNROLL for (int i = 0; i < LANES; i++) {
            block[i] = *(const unaligned_vector *)(src + i * src_step);
        }
    } else {
        UNROLL for (int i = 0; i < LANES; i++) {
            block[i] = i < channels ? load_lanes(src + i * src_step, count) : zero;
        }
    }
    transpose(block);
    if (store == LANES) {
        UNROLL for (int i = 0; i < LANES; i++) {
            if (i < count) *(unaligned_vector *)(dst + row[i]) = block[i];
        }
    } else {
        UNROLL for (int i = 0; i < LANES; i++) {
            if (i < count) store_lanes(dst + row[i], block[i], store);
        }
    }
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_pack_weights_args *a = argument;
    const int64_t k = a->ic * a->taps, width = a->panel_width;
    /* Distance in the packed panel from one weight to the next, by channel and by tap. */
    const int64_t step_c = (a->taps_first ? 1 : a->taps) * width;
    const int64_t step_t = (a->taps_first ? a->ic : 1) * width;

    for (int64_t o = a->oc_begin; o < a->oc_end; o += width) {
        element *panel = (element *)a->dst + o * k;
        const element *src = (const element *)a->src + o * k;
        const int64_t valid = least(a->oc_end - o, width);
        int64_t c = 0, t = 0;
        for (int64_t k0 = 0; k0 < k; k0 += LANES) {
            const int64_t count = least(k - k0, LANES);
            int64_t row[LANES] = {0};
            for (int64_t i = 0; i < count; i++) {
                row[i] = c * step_c + t * step_t;
                if (++t == a->taps) {
                    t = 0;
                    c++;
                }
            }
            for (int64_t i = 0; i < width; i += LANES) {
                const int64_t channels = i < valid ? least(valid - i, LANES) : 0;
                pack_block(src + i * k + k0, k, channels, count, panel + i, row,
                           least(width - i, LANES));
            }
        }
    }
}

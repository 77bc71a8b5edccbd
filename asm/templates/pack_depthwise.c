/* Depthwise weights, one row of channels a tap: a transposition by blocks in registers. */
#include "lanes.h"
#include "transpose.h"

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_pack_depthwise_args *a = argument;
    const int64_t taps = a->taps;
    const vector zero = {0};
    /* Only the last call ends between multiples of 16: it clears the lanes behind the channels. */
    const int64_t end = a->oc_end % 16 ? a->width : a->oc_end;

    for (int64_t o = a->oc_begin; o < end; o += LANES) {
        const int64_t channels = o < a->oc_end ? least(a->oc_end - o, LANES) : 0;
        const int64_t store = least(end - o, LANES);
        for (int64_t t = 0; t < taps; t += LANES) {
            const element *src = (const element *)a->src + o * taps + t;
            element *dst = (element *)a->dst + t * a->width + o;
            const int64_t count = least(taps - t, LANES);
            vector block[LANES];
            UNROLL for (int i = 0; i < LANES; i++) {
                block[i] = i < channels ? load_lanes(src + i * taps, count) : zero;
            }
            transpose(block);
            UNROLL for (int i = 0; i < LANES; i++) {
                if (i < count) store_lanes(dst + i * a->width, block[i], store);
            }
        }
    }
}

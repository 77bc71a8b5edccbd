/* Depthwise weights, a vector of channels a tap: a transposition by blocks in registers. */
#include "lanes.h"
#include "transpose.h"

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_pack_depthwise_args *a = argument;
    const int64_t taps = a->taps;
    const vector zero = {0};

    for (int64_t o = 0; o < a->channels; o += LANES) {
        const int64_t channels = least(a->channels - o, LANES);
        for (int64_t t = 0; t < taps; t += LANES) {
            const element *src = (const element *)a->src + o * taps + t;
            element *dst = (element *)a->dst + o * taps + t * LANES;
            const int64_t count = least(taps - t, LANES);
            vector block[LANES];
            UNROLL for (int i = 0; i < LANES; i++) {
                block[i] = i < channels ? load_lanes(src + i * taps, count) : zero;
            }
            transpose(block);
            UNROLL for (int i = 0; i < LANES; i++) {
                if (i < count) *(unaligned_vector *)(dst + i * LANES) = block[i];
            }
        }
    }
}

/* Zeros in some neighbouring elements of each pixel: the channels that the last block of a
 * blocked array lacks. */
#include "lanes.h"

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_zero_lanes_args *a = argument;
    const int64_t lanes = a->lanes, step = a->dst_ps;
    const vector zero = {0};
    char *dst = a->dst;
    if (lanes > LANES) {
        for (int64_t i = 0; i < a->pixels; i++) clear((element *)(dst + i * step), lanes);
    } else {
        for (int64_t i = 0; i < a->pixels; i++) {
            store_lanes((element *)(dst + i * step), zero, lanes);
        }
    }
}

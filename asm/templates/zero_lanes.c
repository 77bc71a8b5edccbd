/* Zeros in some neighbouring elements of each pixel: the channels that the last block of a
 * blocked array lacks. */
#include "lanes.h"

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_zero_lanes_args *a = argument;
    const int64_t lanes = a->lanes, step = a->dst_ps;
    const vector zero = {0};
    char *dst = a->dst;
    for (int64_t i = 0; i < a->pixels; i++) {
        element *pixel = (element *)(dst + i * step);
        /* Always by lanes: the compiler would turn whole vectors alone into a call of memset. */
        for (int64_t j = 0; j < lanes; j += LANES) {
            store_lanes(pixel + j, zero, lanes - j < LANES ? lanes - j : LANES);
        }
    }
}

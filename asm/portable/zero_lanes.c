/* Zero the channel tail of a blocked array, pixel by pixel. */
#include "template.h"

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_zero_lanes_args *a = argument;
    for (int64_t i = 0; i < a->pixels; i++) {
        memset(AT(char, a->dst, i * a->dst_ps), 0, (size_t)a->lanes * sizeof(element));
    }
}

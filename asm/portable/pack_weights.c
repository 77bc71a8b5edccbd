/* Weights (oc, ic, taps) into panels of output channels, k down and channels across: what a
 * microkernel walks in order. The reading order keeps each source row a forward stream. */
#include "template.h"

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_pack_weights_args *a = argument;
    const int64_t k = a->ic * a->taps, width = a->panel_width;
    const int64_t step_c = a->taps_first ? 1 : a->taps, step_t = a->taps_first ? a->ic : 1;

    for (int64_t o = a->oc_begin; o < a->oc_end; o += width) {
        element *panel = (element *)a->dst + o * k;
        const int64_t valid = a->oc_end - o < width ? a->oc_end - o : width;
        const element *src = (const element *)a->src + o * k;
        for (int64_t c = 0; c < a->ic; c++) {
            for (int64_t t = 0; t < a->taps; t++, src++) {
                element *dst = panel + (c * step_c + t * step_t) * width;
                int64_t i = 0;
                for (; i < valid; i++) dst[i] = src[i * k];
                for (; i < width; i++) dst[i] = 0;
            }
        }
    }
}

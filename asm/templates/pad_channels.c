/* temporary */
#include "template.h"
#if PPLCONV_TYPE_U8
typedef uint8_t item;
#else
typedef uint16_t item;
#endif
PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_pad_channels_args *a = argument;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t p = 0; p < a->columns; p++) {
            const item *src = AT_CONST(item, a->src, r * a->src_rs + p * a->src_ps);
            item *dst = AT(item, a->dst, r * a->dst_rs + p * a->dst_ps);
            for (int64_t c = 0; c < a->fill; c++) dst[c] = c < a->channels ? src[c] : 0;
        }
}

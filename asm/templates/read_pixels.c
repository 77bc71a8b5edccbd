/* Pixels of an image as numbers that filters compute with. */
#include "lanes.h"

#define READ(type)                                                                                 \
    do {                                                                                           \
        const type *src = a->src;                                                                  \
        for (int64_t i = 0; i < a->count; i++) dst[i] = (element)src[i];                           \
    } while (0)

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_read_pixels_args *a = argument;
    element *restrict dst = a->dst;
    switch (a->kind) {
    case PPLCONV_PIXELS_U8:
        READ(uint8_t);
        break;
    case PPLCONV_PIXELS_S8:
        READ(int8_t);
        break;
    case PPLCONV_PIXELS_U16:
        READ(uint16_t);
        break;
    case PPLCONV_PIXELS_S16:
        READ(int16_t);
        break;
    case PPLCONV_PIXELS_F32:
        READ(float);
        break;
    default:
        READ(double);
    }
    clean_registers();
}

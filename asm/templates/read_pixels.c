/* Pixels of an image as numbers that filters compute with. */
#include "pixels.h"

#define INLINE static inline __attribute__((always_inline))

#define READ(type)                                                                                 \
    do {                                                                                           \
        const type *src = a->src;                                                                  \
        for (int64_t i = 0; i < a->count; i++) dst[i] = (element)src[i];                           \
    } while (0)

typedef const struct pplconv_read_pixels_args arguments;

#ifdef WIDEN
/* A vector of integers or more; the last vector reaches back. */
INLINE void read_integers(arguments *a, const int64_t kind, const int64_t size) {
    const char *src = a->src;
    element *dst = a->dst;
    for (int64_t i = 0; i < a->count; i += LANES) {
        if (i + LANES > a->count) i = a->count - LANES;
        *(unaligned_vector *)(dst + i) = load_pixels(src + i * size, kind);
    }
}
#endif

/* Integers of any number. */
#ifdef WIDEN
#define READ_WIDE(type, kind)                                                                      \
    do {                                                                                           \
        if (a->count >= LANES) read_integers(a, kind, sizeof(type));                               \
        else READ(type);                                                                           \
    } while (0)
#else
#define READ_WIDE(type, kind) READ(type)
#endif

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    arguments *a = argument;
    element *restrict dst = a->dst;
    switch (a->kind) {
    case PPLCONV_PIXELS_U8:
        READ_WIDE(uint8_t, PPLCONV_PIXELS_U8);
        break;
    case PPLCONV_PIXELS_S8:
        READ_WIDE(int8_t, PPLCONV_PIXELS_S8);
        break;
    case PPLCONV_PIXELS_U16:
        READ_WIDE(uint16_t, PPLCONV_PIXELS_U16);
        break;
    case PPLCONV_PIXELS_S16:
        READ_WIDE(int16_t, PPLCONV_PIXELS_S16);
        break;
    case PPLCONV_PIXELS_F32:
        READ(float);
        break;
    default:
        READ(double);
    }
    clean_registers();
}

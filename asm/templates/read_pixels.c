/* Pixels of an image as numbers that filters compute with. */
#include "lanes.h"

#define INLINE static inline __attribute__((always_inline))

/* x86 widens a vector of small integers by one instruction, which compilers do not find. */
#if PPLCONV_VECTOR_BYTES == 64 && !PPLCONV_F64
#define WIDEN(name, x) _mm512_##name(x)
#define LOAD_BYTES(from) _mm_loadu_si128((const __m128i *)(from))
#define LOAD_HALVES(from) _mm256_loadu_si256((const __m256i *)(from))
#elif PPLCONV_VECTOR_BYTES == 64 || (PPLCONV_VECTOR_BYTES == 32 && !PPLCONV_F64)
#define WIDEN(name, x) _mm256_##name(x)
#define LOAD_BYTES(from) _mm_loadl_epi64((const __m128i *)(from))
#define LOAD_HALVES(from) _mm_loadu_si128((const __m128i *)(from))
#endif

#define READ(type)                                                                                 \
    do {                                                                                           \
        const type *src = a->src;                                                                  \
        for (int64_t i = 0; i < a->count; i++) dst[i] = (element)src[i];                           \
    } while (0)

typedef const struct pplconv_read_pixels_args arguments;

#ifdef WIDEN
typedef int32_t words __attribute__((vector_size(4 * LANES)));

INLINE vector read_vector(const char *from, const int64_t kind) {
    const words whole = kind == PPLCONV_PIXELS_U8   ? (words)WIDEN(cvtepu8_epi32, LOAD_BYTES(from))
                        : kind == PPLCONV_PIXELS_S8 ? (words)WIDEN(cvtepi8_epi32, LOAD_BYTES(from))
                        : kind == PPLCONV_PIXELS_U16
                            ? (words)WIDEN(cvtepu16_epi32, LOAD_HALVES(from))
                            : (words)WIDEN(cvtepi16_epi32, LOAD_HALVES(from));
    return __builtin_convertvector(whole, vector);
}

/* A vector of integers or more; the last vector reaches back. */
INLINE void read_integers(arguments *a, const int64_t kind, const int64_t size) {
    const char *src = a->src;
    element *dst = a->dst;
    for (int64_t i = 0; i < a->count; i += LANES) {
        if (i + LANES > a->count) i = a->count - LANES;
        *(unaligned_vector *)(dst + i) = read_vector(src + i * size, kind);
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

/* Two rows of bytes as pairs of 16-bit integers. */
#include "filter_row.h"

enum { LANES = PPLCONV_VECTOR_BYTES / 4 };

typedef uint32_t lanes __attribute__((vector_size(PPLCONV_VECTOR_BYTES)));

/* Compilers convert long vectors in halves. */
INLINE lanes widened_lanes(const uint8_t *from) {
#if PPLCONV_VECTOR_BYTES == 64
    return (lanes)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)from));
#else
    return (lanes)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from));
#endif
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_pair_rows_args *a = argument;
    const uint8_t *first = a->first, *second = a->second;
    char *dst = a->dst;
    int64_t i = 0;
    for (; i + LANES <= a->count; i += LANES) {
        const lanes both = widened_lanes(first + i) | widened_lanes(second + i) << 16;
        memcpy(dst + 4 * i, &both, sizeof both);
    }
    for (; i < a->count; i++) {
        const uint32_t both = (uint32_t)first[i] | (uint32_t)second[i] << 16;
        memcpy(dst + 4 * i, &both, sizeof both);
    }
    clean_registers();
}

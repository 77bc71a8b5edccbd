/* Pixels of a row in pairs, channel by channel, or such pairs as pixels again. */
#include "filter_row.h"

/* Bytes from what is read, or written, of an image to what caches are asked for. */
enum { AHEAD = 4096 };

typedef const struct pplconv_pair_pixels_args arguments;
typedef uint16_t number __attribute__((aligned(1), may_alias));

#if PPLCONV_VECTOR_BYTES == 64
enum { NUMBERS = 32 };
typedef __m512i vector;

INLINE vector order_of(const uint16_t *from) { return _mm512_loadu_si512(from); }
INLINE void move_vector(char *dst, const char *src, vector order) {
    _mm512_storeu_si512(dst, _mm512_permutexvar_epi16(order, _mm512_loadu_si512(src)));
}
#else
enum { NUMBERS = 8 };
typedef __m128i vector;

INLINE vector order_of(const uint16_t *from) {
    uint8_t bytes[2 * NUMBERS];
    UNROLL for (int k = 0; k < NUMBERS; k++) {
        bytes[2 * k] = (uint8_t)(2 * from[k]);
        bytes[2 * k + 1] = (uint8_t)(2 * from[k] + 1);
    }
    return _mm_loadu_si128((const vector *)bytes);
}
INLINE void move_vector(char *dst, const char *src, vector order) {
    _mm_storeu_si128((vector *)dst, _mm_shuffle_epi8(_mm_loadu_si128((const vector *)src), order));
}
#endif

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    arguments *a = argument;
    const char *src = a->src;
    char *dst = a->dst;
    const int64_t channels = a->channels, group = 2 * channels;
    uint16_t from[NUMBERS] = {0};
    int64_t whole = 0, i = 0;
    /* Places of whole groups of two pixels in a vector. */
    for (; whole + group <= NUMBERS; whole += group) {
        for (int64_t c = 0; c < channels; c++) {
            for (int64_t second = 0; second < 2; second++) {
                const int64_t pixel = second * channels + c, pair = 2 * c + second;
                from[whole + (a->back ? pixel : pair)] =
                    (uint16_t)(whole + (a->back ? pair : pixel));
            }
        }
    }
    const vector order = order_of(from);
    const int64_t count = a->count, step = 2 * whole, step3 = 3 * step;
    const char *ahead = (a->back ? dst : src) + AHEAD;
    /* Numbers behind whole groups are written again. */
    for (; i + 3 * whole + NUMBERS <= count; i += 4 * whole) {
        __builtin_prefetch(ahead + 2 * i);
        char *to = dst + 2 * i;
        const char *at = src + 2 * i;
        move_vector(to, at, order);
        move_vector(to + step, at + step, order);
        move_vector(to + 2 * step, at + 2 * step, order);
        move_vector(to + step3, at + step3, order);
    }
    for (; i + NUMBERS <= count; i += whole) move_vector(dst + 2 * i, src + 2 * i, order);
    for (; i < count; i += group) {
        for (int64_t k = 0; k < group && i + k < count; k++) {
            const int64_t pair = k < channels ? 2 * k : 2 * (k - channels) + 1;
            const int64_t to = i + (a->back ? k : pair), at = i + (a->back ? pair : k);
            ((number *)dst)[to] = ((const number *)src)[at];
        }
    }
    clean_registers();
}

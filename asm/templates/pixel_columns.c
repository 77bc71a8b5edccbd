/* Sums of columns of pixels, which are integers, in four rows: a vector of pixels is loaded and
 * converted once for all rows that see it. The sums stay in registers. */
#include "lanes.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

/* Rows of sums, and vectors of each that are made together. */
enum { LINES = PPLCONV_PIXEL_LINES, WIDE = PPLCONV_VECTOR_BYTES == 64 ? 4 : 2 };

typedef const struct pplconv_pixel_columns_args arguments;
typedef int32_t words __attribute__((vector_size(4 * LANES)));

/* A vector of pixels of a kind. */
#define LOAD(type)                                                                                 \
    ({                                                                                             \
        typedef type few                                                                           \
            __attribute__((vector_size(LANES * sizeof(type)), aligned(1), may_alias));             \
        __builtin_convertvector(__builtin_convertvector(*(const few *)from, words), vector);       \
    })

INLINE vector load_pixels(const char *from, const int64_t kind) {
#if PPLCONV_VECTOR_BYTES == 64 && !PPLCONV_F64
    const __m256i *two = (const __m256i *)from;
    const __m512i whole =
        kind == PPLCONV_PIXELS_U8    ? _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)from))
        : kind == PPLCONV_PIXELS_U16 ? _mm512_cvtepu16_epi32(_mm256_loadu_si256(two))
                                     : _mm512_cvtepi16_epi32(_mm256_loadu_si256(two));
    return (vector)_mm512_cvtepi32_ps(whole);
#elif PPLCONV_VECTOR_BYTES == 64 || (PPLCONV_VECTOR_BYTES == 32 && !PPLCONV_F64)
    const __m128i *few = (const __m128i *)from;
    const __m256i whole = kind == PPLCONV_PIXELS_U8 ? _mm256_cvtepu8_epi32(_mm_loadl_epi64(few))
                          : kind == PPLCONV_PIXELS_U16
                              ? _mm256_cvtepu16_epi32(_mm_loadu_si128(few))
                              : _mm256_cvtepi16_epi32(_mm_loadu_si128(few));
#if PPLCONV_F64
    return (vector)_mm512_cvtepi32_pd(whole);
#else
    return (vector)_mm256_cvtepi32_ps(whole);
#endif
#else
    if (kind == PPLCONV_PIXELS_U8) return LOAD(uint8_t);
    if (kind == PPLCONV_PIXELS_U16) return LOAD(uint16_t);
    return LOAD(int16_t);
#endif
}

/* Add a row of pixels to the rows of sums from low to high; it is row `row` of those seen. */
INLINE void add_row(arguments *a, const vector *x, int64_t row, vector (*sums)[WIDE], const int low,
                    const int high, const int count) {
    const element *weights = (const element *)a->weights + (row - low);
    const vector zero = {0};
    UNROLL for (int l = low; l <= high; l++) {
        const vector weight = weights[low - l] - zero;
        UNROLL for (int v = 0; v < count; v++)
            sums[l][v] = multiply_add(weight, x[v], sums[l][v]);
    }
}

/* Some vectors of four rows, from pixel i on. The kind is a branch that is foreseen. */
INLINE void sum_vectors(arguments *a, int64_t i, int64_t pixel, const int count) {
    const vector zero = {0};
    const char *const *rows = a->rows;
    vector sums[LINES][WIDE];
    UNROLL for (int l = 0; l < LINES; l++) {
        UNROLL for (int v = 0; v < count; v++)
            sums[l][v] = zero;
    }
#define CASE(low, high)                                                                            \
    case (low) * LINES + (high):                                                                   \
        add_row(a, x, r, sums, low, high, count);                                                  \
        break
#define READ(kind)                                                                                 \
    UNROLL for (int v = 0; v < count; v++)                                                         \
    x[v] = load_pixels(from + v * LANES * pixel, kind)
    for (int64_t r = 0; r < a->taps + LINES - 1; r++) {
        const int64_t low = r < a->taps ? 0 : r - a->taps + 1;
        const int64_t high = r < LINES ? r : LINES - 1;
        const char *from = rows[r] + i * pixel;
        vector x[WIDE];
        if (a->kind == PPLCONV_PIXELS_U8) READ(PPLCONV_PIXELS_U8);
        else if (a->kind == PPLCONV_PIXELS_U16) READ(PPLCONV_PIXELS_U16);
        else READ(PPLCONV_PIXELS_S16);
        switch (low * LINES + high) {
            CASE(0, 0);
            CASE(0, 1);
            CASE(0, 2);
            CASE(0, 3);
            CASE(1, 1);
            CASE(1, 2);
            CASE(1, 3);
            CASE(2, 2);
            CASE(2, 3);
            CASE(3, 3);
        default:
            __builtin_unreachable();
        }
    }
#undef CASE
#undef READ
    UNROLL for (int l = 0; l < LINES; l++) {
        element *dst = AT(element, a->dst, l * a->dst_rs) + i;
        UNROLL for (int v = 0; v < count; v++)
            *(unaligned_vector *)(dst + v * LANES) = sums[l][v];
    }
}

static __attribute__((noinline)) void sum_vector(arguments *a, int64_t i, int64_t pixel) {
    sum_vectors(a, i, pixel, 1);
}

/* Less than a vector: pixels one by one. */
static __attribute__((noinline)) void sum_few(arguments *a) {
    const char *const *rows = a->rows;
    const element *weights = a->weights;
    for (int l = 0; l < LINES; l++) {
        element *dst = AT(element, a->dst, l * a->dst_rs);
        for (int64_t i = 0; i < a->count; i++) {
            vector sum = {0};
            for (int64_t r = 0; r < a->taps; r++) {
                const char *row = rows[l + r];
                const element x = a->kind == PPLCONV_PIXELS_U8 ? (element)((const uint8_t *)row)[i]
                                  : a->kind == PPLCONV_PIXELS_U16
                                      ? (element)((const uint16_t *)row)[i]
                                      : (element)((const int16_t *)row)[i];
                const vector zero = {0};
                sum = multiply_add(weights[r] - zero, x - zero, sum);
            }
            dst[i] = sum[0];
        }
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    arguments *a = argument;
    const int64_t pixel = a->kind == PPLCONV_PIXELS_U8 ? 1 : 2;
    int64_t i = 0;
    if (a->count < LANES) {
        sum_few(a);
    } else {
        for (; i + WIDE * LANES <= a->count; i += WIDE * LANES) sum_vectors(a, i, pixel, WIDE);
        for (; i < a->count; i += LANES) {
            /* The last vector reaches back. */
            if (i + LANES > a->count) i = a->count - LANES;
            sum_vector(a, i, pixel);
        }
    }
    clean_registers();
}

/* Sums of columns of pixels, which are integers, in four rows: a vector of pixels is loaded and
 * converted once for all rows that see it. The sums stay in registers. */
#include "pixels.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

/* Rows of sums, and vectors of each that are made together. */
enum { LINES = PPLCONV_PIXEL_LINES, WIDE = PPLCONV_VECTOR_BYTES == 64 ? 4 : 2 };

typedef const struct pplconv_pixel_columns_args arguments;

/* Add a row of pixels to the rows of sums from low to high; it is row `row` of those seen. */
INLINE void add_row(arguments *a, const vector *x, int64_t row, vector (*sums)[WIDE], const int low,
                    const int high) {
    const element *weights = (const element *)a->weights + (row - low);
    const vector zero = {0};
    UNROLL for (int l = low; l <= high; l++) {
        const vector weight = weights[low - l] - zero;
        UNROLL for (int v = 0; v < WIDE; v++)
            sums[l][v] = multiply_add(weight, x[v], sums[l][v]);
    }
}

/* Load some vectors of a row of pixels, from pixel i on, and add them to rows of sums. */
INLINE void add_pixels(arguments *a, int64_t i, int64_t row, vector (*sums)[WIDE], const int low,
                       const int high, const int64_t kind) {
    const int64_t pixel = kind == PPLCONV_PIXELS_U8 ? 1 : 2;
    const char *from = ((const char *const *)a->rows)[row] + i * pixel;
    vector x[WIDE];
    UNROLL for (int v = 0; v < WIDE; v++)
        x[v] = load_pixels(from + v * LANES * pixel, kind);
    add_row(a, x, row, sums, low, high);
}

/* Some vectors of four rows, from pixel i on. */
INLINE void sum_vectors(arguments *a, int64_t i, const int64_t kind) {
    const vector zero = {0};
    vector sums[LINES][WIDE];
    UNROLL for (int l = 0; l < LINES; l++) {
        UNROLL for (int v = 0; v < WIDE; v++)
            sums[l][v] = zero;
    }
    if (a->taps >= LINES - 1) {
        /* The first rows of pixels are seen by the first sums alone, the last ones by the last. */
        int64_t r = LINES - 1;
        UNROLL for (int k = 0; k < LINES - 1; k++)
            add_pixels(a, i, k, sums, 0, k, kind);
        for (; r < a->taps; r++) add_pixels(a, i, r, sums, 0, LINES - 1, kind);
        UNROLL for (int k = 1; k < LINES; k++, r++)
            add_pixels(a, i, r, sums, k, LINES - 1, kind);
    } else {
        UNROLL for (int l = 0; l < LINES; l++) {
            for (int64_t r = l; r < l + a->taps; r++) add_pixels(a, i, r, sums, l, l, kind);
        }
    }
    UNROLL for (int l = 0; l < LINES; l++) {
        element *dst = AT(element, a->dst, l * a->dst_rs) + i;
        UNROLL for (int v = 0; v < WIDE; v++)
            *(unaligned_vector *)(dst + v * LANES) = sums[l][v];
    }
}

#define SUMS_OF(name, kind)                                                                        \
    static __attribute__((noinline)) int64_t name(arguments *a) {                                  \
        int64_t i = 0;                                                                             \
        for (; i + WIDE * LANES <= a->count; i += WIDE * LANES) sum_vectors(a, i, kind);           \
        return i;                                                                                  \
    }
SUMS_OF(sum_u8, PPLCONV_PIXELS_U8)
SUMS_OF(sum_u16, PPLCONV_PIXELS_U16)
SUMS_OF(sum_s16, PPLCONV_PIXELS_S16)

/* One vector of four rows, from pixel i on. */
static __attribute__((noinline)) void sum_vector(arguments *a, int64_t i) {
    const element *weights = a->weights;
    const vector zero = {0};
    for (int64_t l = 0; l < LINES; l++) {
        vector sum = zero;
        for (int64_t r = 0; r < a->taps; r++) {
            const char *row = ((const char *const *)a->rows)[l + r];
            vector x;
            if (a->kind == PPLCONV_PIXELS_U8) x = load_pixels(row + i, PPLCONV_PIXELS_U8);
            else if (a->kind == PPLCONV_PIXELS_U16)
                x = load_pixels(row + 2 * i, PPLCONV_PIXELS_U16);
            else x = load_pixels(row + 2 * i, PPLCONV_PIXELS_S16);
            sum = multiply_add(weights[r] - zero, x, sum);
        }
        *(unaligned_vector *)(AT(element, a->dst, l * a->dst_rs) + i) = sum;
    }
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
    if (a->count < LANES) {
        sum_few(a);
    } else {
        int64_t i = a->kind == PPLCONV_PIXELS_U8    ? sum_u8(a)
                    : a->kind == PPLCONV_PIXELS_U16 ? sum_u16(a)
                                                    : sum_s16(a);
        for (; i < a->count; i += LANES) {
            /* The last vector reaches back. */
            if (i + LANES > a->count) i = a->count - LANES;
            sum_vector(a, i);
        }
    }
    clean_registers();
}

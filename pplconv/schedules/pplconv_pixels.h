/* Pixels as the numbers that a filter computes with, where no kernel converts them. */
#ifndef PPLCONV_PIXELS_H
#define PPLCONV_PIXELS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef void (*pplconv_widen)(const void *src, void *dst, int64_t count);

#define PPLCONV_WIDEN(name, from, to)                                                              \
    static void pplconv_widen_##name(const void *src, void *dst, int64_t count) {                  \
        const from *pixels = (const from *)src;                                                    \
        to *numbers = (to *)dst;                                                                   \
        for (int64_t i = 0; i < count; i++) numbers[i] = (to)pixels[i];                            \
    }

PPLCONV_WIDEN(u8_f32, uint8_t, float)
PPLCONV_WIDEN(s8_f32, int8_t, float)
PPLCONV_WIDEN(u16_f32, uint16_t, float)
PPLCONV_WIDEN(s16_f32, int16_t, float)
PPLCONV_WIDEN(u8_f64, uint8_t, double)
PPLCONV_WIDEN(s8_f64, int8_t, double)
PPLCONV_WIDEN(u16_f64, uint16_t, double)
PPLCONV_WIDEN(s16_f64, int16_t, double)
PPLCONV_WIDEN(f32_f64, float, double)

static void pplconv_widen_f32(const void *src, void *dst, int64_t count) {
    memcpy(dst, src, (size_t)count * 4);
}

static void pplconv_widen_f64(const void *src, void *dst, int64_t count) {
    memcpy(dst, src, (size_t)count * 8);
}

static inline void pplconv_fill_numbers(void *dst, const void *number, int64_t count,
                                        int64_t size) {
    char *to = (char *)dst;
    for (int64_t i = 0; i < count; i++) memcpy(to + i * size, number, (size_t)size);
}

typedef double pplconv_pair __attribute__((vector_size(16)));
typedef float pplconv_pixels __attribute__((vector_size(8)));

/* Both pixels are converted at once: converted alone, each would wait for the one before in its
 * register. */
static inline __attribute__((always_inline)) pplconv_pair pplconv_products(const float *window,
                                                                           int64_t step,
                                                                           const double *taps) {
    const pplconv_pixels pixels = {window[0], window[step]};
    const pplconv_pair factors = {taps[0], taps[1]};
    return factors * __builtin_convertvector(pixels, pplconv_pair);
}

/* The sum of a window of rows x columns pixels, which are `step` apart, times its taps. Sums of
 * pairs do not wait for one another. */
static inline __attribute__((always_inline)) double
pplconv_sum_by(const float *window, int64_t row_step, const int64_t step, const double *taps,
               int64_t rows, int64_t columns) {
    pplconv_pair a = {0.0, 0.0}, b = a, c = a, d = a;
    double rest = 0.0;
    for (int64_t r = 0; r < rows; r++, window += row_step) {
        const float *pixel = window;
        for (int64_t eight = columns / 8; eight > 0; eight--, pixel += 8 * step, taps += 8) {
            a += pplconv_products(pixel, step, taps);
            b += pplconv_products(pixel + 2 * step, step, taps + 2);
            c += pplconv_products(pixel + 4 * step, step, taps + 4);
            d += pplconv_products(pixel + 6 * step, step, taps + 6);
        }
        if (columns & 4) {
            a += pplconv_products(pixel, step, taps);
            b += pplconv_products(pixel + 2 * step, step, taps + 2);
            pixel += 4 * step, taps += 4;
        }
        if (columns & 2) {
            c += pplconv_products(pixel, step, taps);
            pixel += 2 * step, taps += 2;
        }
        if (columns & 1) rest += *taps++ * (double)*pixel;
    }
    a = (a + b) + (c + d);
    return rest + (a[0] + a[1]);
}

static inline double pplconv_window_sum(const float *window, int64_t row_step, int64_t step,
                                        const double *taps, int64_t rows, int64_t columns) {
    return step == 1 ? pplconv_sum_by(window, row_step, 1, taps, rows, columns)
                     : pplconv_sum_by(window, row_step, step, taps, rows, columns);
}

/* Whether a sum with an error is one integer within limits; then it is stored in `size` bytes. */
static inline int pplconv_store_integer(double sum, double error, double low, double high,
                                        void *dst, int64_t size) {
    const double least = rint(fmin(fmax(sum - error, low), high));
    if (!(least == rint(fmin(fmax(sum + error, low), high)))) return 0;
    const int32_t whole = (int32_t)least;
    const uint16_t word = (uint16_t)whole;
    if (size == 1) *(uint8_t *)dst = (uint8_t)whole;
    else memcpy(dst, &word, 2);
    return 1;
}

#endif

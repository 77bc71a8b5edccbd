/* Pixels as the numbers that a filter computes with, where no kernel converts them. */
#ifndef PPLCONV_PIXELS_H
#define PPLCONV_PIXELS_H

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

#endif

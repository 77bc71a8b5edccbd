/* Copies of pixels near a border. */
#ifndef PPLCONV_PIXELS_H
#define PPLCONV_PIXELS_H

#include <stdint.h>

/* Copy a few dozen bytes by pieces; the last piece reaches back. A call of the library for each row
 * took as long as all other work on small images. */
static inline void pplconv_copy_pixels(char *dst, const char *src, int64_t bytes) {
    enum { PIECE = 16 };
    int64_t i = 0;
    if (bytes < PIECE) {
        for (; i < bytes; i++) dst[i] = src[i];
        return;
    }
    for (; i + 4 * PIECE <= bytes; i += 4 * PIECE) {
        __builtin_memcpy(dst + i, src + i, PIECE);
        __builtin_memcpy(dst + i + PIECE, src + i + PIECE, PIECE);
        __builtin_memcpy(dst + i + 2 * PIECE, src + i + 2 * PIECE, PIECE);
        __builtin_memcpy(dst + i + 3 * PIECE, src + i + 3 * PIECE, PIECE);
    }
    for (; i < bytes; i += PIECE) {
        if (i + PIECE > bytes) i = bytes - PIECE;
        __builtin_memcpy(dst + i, src + i, PIECE);
    }
}

/* Store numbers of one byte or two, all alike, without a call. */
static inline void pplconv_fill_pixels(char *dst, const char *value, int64_t bytes, int64_t size) {
    if (size == 1) {
        for (int64_t i = 0; i < bytes; i++) dst[i] = *value;
    } else {
        for (int64_t i = 0; i < bytes; i += 2) __builtin_memcpy(dst + i, value, 2);
    }
}

#endif

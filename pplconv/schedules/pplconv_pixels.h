/* Copies of pixels near a border. */
#ifndef PPLCONV_PIXELS_H
#define PPLCONV_PIXELS_H

#include <stdint.h>

/* Copy a few dozen bytes by pieces; the last piece reaches back. A call of the library for each row
 * took as long as all other work on small images. */
static inline void pplconv_copy_pixels(char *dst, const char *src, int64_t bytes) {
    enum { PIECE = 16 };
    if (bytes < PIECE) {
        for (int64_t i = 0; i < bytes; i++) dst[i] = src[i];
        return;
    }
    for (int64_t i = 0; i < bytes; i += PIECE) {
        if (i + PIECE > bytes) i = bytes - PIECE;
        __builtin_memcpy(dst + i, src + i, PIECE);
    }
}

#endif

/* Resampling that repeats pixels or leaves them out: bits of elements of any type. */
#ifndef PPLCONV_COPIED_PIXELS_H
#define PPLCONV_COPIED_PIXELS_H

#include "copies.h"

static void copy_pixels(const struct pplconv_resample_args *a, int64_t size) {
    const int64_t *offset = a->offset_x, bytes = a->channels * size;
    const char *const *rows = a->rows;
    for (int64_t p = 0; p < a->pixels; p++)
        copy_bytes((char *)a->dst + p * a->dst_ps, rows[0] + offset[p], bytes);
}

#endif

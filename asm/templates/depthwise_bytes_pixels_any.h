/* Depthwise convolution of a padded plane of bytes with any kernel, stride and dilation, and with
 * weights of more than eight bits: a row of outputs at a time, tap by tap. */
#ifndef PPLCONV_DEPTHWISE_BYTES_PIXELS_ANY_H
#define PPLCONV_DEPTHWISE_BYTES_PIXELS_ANY_H

#include "depthwise_bytes_pixels.h"

INLINE void add_row(int32_t *restrict dst, const operand *restrict x, int32_t w, int64_t n,
                    int64_t stride) {
    for (int64_t i = 0; i < n; i++) dst[i] += x[i * stride] * w;
}

static void any(const struct slab *s, const struct pplconv_geometry *g, int32_t *dst, int64_t rows,
                const struct packed *p) {
    const int64_t n = g->ow;
    for (int64_t row = 0; row < rows; row++, dst += n) {
        const int16_t *w = (const int16_t *)(p + 1);
        for (int64_t i = 0; i < n; i++) dst[i] = p->start;
        for (int64_t i = 0; i < g->kh; i++) {
            const uint8_t *line = s->data + (row * g->stride_h + i * g->dilation_h) * s->rs;
            for (int64_t j = 0; j < g->kw; j++) {
                const operand *x = (const operand *)(line + j * g->dilation_w);
                if (g->stride_w == 1) add_row(dst, x, *w++, n, 1);
                else add_row(dst, x, *w++, n, g->stride_w);
            }
        }
    }
}

#endif

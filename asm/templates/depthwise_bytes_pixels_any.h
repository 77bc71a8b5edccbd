/* Depthwise convolution of a padded plane of bytes with any kernel, stride and dilation, and with
 * weights of more than eight bits: a row of outputs at a time, tap by tap. */
#ifndef PPLCONV_DEPTHWISE_BYTES_PIXELS_ANY_H
#define PPLCONV_DEPTHWISE_BYTES_PIXELS_ANY_H

#include "depthwise_bytes_pixels.h"

typedef operand lane_operands __attribute__((vector_size(LANES), aligned(1), may_alias));

INLINE void add_row(int32_t *restrict dst, const operand *restrict x, int32_t w, int64_t n,
                    int64_t stride) {
    for (int64_t i = 0; i < n; i++) {
#if PPLCONV_VECTOR_BYTES >= 32
        /* Vectors of gathered bytes would be more code than they are worth. */
        __asm__("" : "+r"(i));
#endif
        dst[i] += x[i * stride] * w;
    }
}

/* Neighbouring outputs from neighbours of the slab. Whole vectors are stored, as squares do. */
static void neighbours(const uint8_t *top, int64_t rs, const struct pplconv_geometry *g,
                       int32_t *dst, const struct packed *p) {
    for (int64_t k = 0; k < g->ow; k += LANES) {
        const int64_t column = most(least(k, g->ow - LANES), 0);
        const int16_t *w = (const int16_t *)(p + 1);
        lane_sums sum = (lane_sums){0} + p->start;
        for (int64_t i = 0; i < g->kh; i++) {
            const uint8_t *line = top + i * g->dilation_h * rs + column;
            for (int64_t j = 0; j < g->kw; j++) {
                const lane_operands *at = (const lane_operands *)(line + j * g->dilation_w);
                const lane_words x = __builtin_convertvector(*at, lane_words);
                sum += __builtin_convertvector(x, lane_sums) * (int32_t)*w++;
            }
        }
        *(unaligned_sums *)(dst + column) = sum;
    }
}

static void any(const struct slab *s, const struct pplconv_geometry *g, int32_t *dst, int64_t rows,
                const struct packed *p) {
    const int64_t n = g->ow;
    for (int64_t row = 0; row < rows; row++, dst += n) {
        const uint8_t *top = s->data + row * g->stride_h * s->rs;
        if (LANES >= 8 && g->stride_w == 1) {
            neighbours(top, s->rs, g, dst, p);
            continue;
        }
        const int16_t *w = (const int16_t *)(p + 1);
        for (int64_t i = 0; i < n; i++) dst[i] = p->start;
        for (int64_t i = 0; i < g->kh; i++) {
            const uint8_t *line = top + i * g->dilation_h * s->rs;
            for (int64_t j = 0; j < g->kw; j++)
                add_row(dst, (const operand *)(line + j * g->dilation_w), *w++, n, g->stride_w);
        }
    }
}

#endif

/* Depthwise convolution of channels-last bytes with any kernel, stride, dilation and channel
 * multiplier, and with weights of more than eight bits: an output pixel at a time, tap by tap. */
#ifndef PPLCONV_DEPTHWISE_BYTES_CHANNELS_ANY_H
#define PPLCONV_DEPTHWISE_BYTES_CHANNELS_ANY_H

#include "depthwise_bytes_channels.h"

/* Add the products of one tap, in the order of its output channels. */
INLINE void add_tap(int32_t *sum, const item *x, const int16_t *w, int64_t n, int64_t multiplier,
                    const uint16_t *lane) {
    if (multiplier == 1) {
        for (int64_t i = 0; i < n; i++) sum[i] += x[i] * w[i];
    } else {
        for (int64_t i = 0; i < n; i++) sum[i] += x[lane[i]] * w[i];
    }
}

/* n channels from `channel` on, no more than a unit has, in the rows from `row` on. */
static void any(const struct call *call, const void *weights, int64_t channel, int64_t n,
                int64_t row) {
    const struct call s = *call;
    const struct pplconv_geometry *g = &s.g;
    const int64_t first = (s.phase + channel) / s.multiplier;
    uint16_t lane[UNIT];
    for (int64_t i = 0; i < n; i++) {
        lane[i] = (uint16_t)((s.phase + channel + i) / s.multiplier - first);
    }
    for (; row < s.row_end; row++) {
        for (int64_t column = s.column; column < s.column + s.columns; column++) {
            const int16_t *w = AT_CONST(int16_t, weights, UNIT_HEADER);
            int32_t sum[UNIT] = {0};
            for (int64_t i = 0; i < g->kh; i++) {
                const int64_t y = row * g->stride_h - g->pad_top + i * g->dilation_h;
                for (int64_t j = 0; j < g->kw; j++, w += UNIT) {
                    const int64_t x = column * g->stride_w - g->pad_left + j * g->dilation_w;
                    const int inside = y >= 0 && y < g->ih && x >= 0 && x < g->iw;
                    const uint8_t *p = inside ? s.src + first + y * s.src_rs + x * s.src_ps : s.pad;
                    add_tap(sum, (const item *)p, w, n, s.multiplier, lane);
                }
            }
            memcpy(s.dst + row * s.dst_rs + column * s.dst_ps + channel * 4, sum, (size_t)n * 4);
        }
    }
}

#endif

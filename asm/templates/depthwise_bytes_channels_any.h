/* Depthwise convolution of channels-last bytes with any kernel, stride, dilation and channel
 * multiplier, and with weights of more than eight bits: an output pixel at a time, tap by tap,
 * whose sums stay in registers. */
#ifndef PPLCONV_DEPTHWISE_BYTES_CHANNELS_ANY_H
#define PPLCONV_DEPTHWISE_BYTES_CHANNELS_ANY_H

#include "depthwise_bytes_channels.h"

typedef item lane_items __attribute__((vector_size(LANES), aligned(1), may_alias));
typedef int16_t lane_weights __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

/* Where the channels of an output come from: the first ones are neighbours in the image. */
struct source {
    int64_t first, neighbours;
    uint16_t lane[UNIT];
};

/* Sums of the output pixel at (row, column) of `vectors` vectors of channels from `from` on; one
 * vector may hold fewer channels, n. */
INLINE void pixel(const struct call *s, const int16_t *w, const struct source *source, char *to,
                  int64_t row, int64_t column, int64_t from, int64_t n, const int vectors) {
    const struct pplconv_geometry *g = &s->g;
    const int64_t left = column * g->stride_w - g->pad_left;
    lane_sums sum[4] = {{0}};
    for (int64_t i = 0; i < g->kh; i++) {
        const int64_t y = row * g->stride_h - g->pad_top + i * g->dilation_h;
        const uint8_t *line = s->src + source->first + y * s->src_rs;
        for (int64_t j = 0; j < g->kw; j++, w += UNIT) {
            const int64_t place = left + j * g->dilation_w;
            const int inside = y >= 0 && y < g->ih && place >= 0 && place < g->iw;
            const uint8_t *p = inside ? line + place * s->src_ps : s->pad;
            uint8_t taken[LANES] = {0};
            if (vectors > 1 || source->neighbours >= from + LANES) {
                p += from;
            } else {
                for (int64_t k = 0; k < n; k++) taken[k] = p[source->lane[from + k]];
                p = taken;
            }
            UNROLL for (int v = 0; v < vectors; v++) {
                const lane_items *at = (const lane_items *)(p + v * LANES);
                const lane_words x = __builtin_convertvector(*at, lane_words);
                const lane_weights *by = (const lane_weights *)(w + from + v * LANES);
                sum[v] +=
                    __builtin_convertvector(x, lane_sums) * __builtin_convertvector(*by, lane_sums);
            }
        }
    }
    to += from * 4;
    if (vectors == 1 && n < LANES) {
        memcpy(to, sum, (size_t)n * 4);
        return;
    }
    UNROLL for (int v = 0; v < vectors; v++)
        *AT(unaligned_sums, to, v * (int)sizeof(lane_sums)) = sum[v];
}

/* n channels from `channel` on, no more than a unit has, in the rows from `row` on. */
static void any(const struct call *call, const void *weights, int64_t channel, int64_t n,
                int64_t row) {
    const struct call s = *call;
    const int16_t *w = AT_CONST(int16_t, weights, UNIT_HEADER);
    struct source source = {(s.phase + channel) / s.multiplier, s.multiplier == 1 ? n : 0, {0}};
    for (int64_t i = 0; i < n; i++)
        source.lane[i] = (uint16_t)((s.phase + channel + i) / s.multiplier - source.first);
    for (; row < s.row_end; row++) {
        for (int64_t column = s.column; column < s.column + s.columns; column++) {
            char *to = s.dst + row * s.dst_rs + column * s.dst_ps + channel * 4;
            if (source.neighbours == UNIT) {
                pixel(&s, w, &source, to, row, column, 0, n, 4);
                continue;
            }
            for (int64_t from = 0; from < n; from += LANES) {
                /* The last vector of neighbours reaches back. */
                const int64_t at = source.neighbours >= LANES ? least(from, n - LANES) : from;
                pixel(&s, w, &source, to, row, column, at, least(n - at, LANES), 1);
            }
        }
    }
}

#endif

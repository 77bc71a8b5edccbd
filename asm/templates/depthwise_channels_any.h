/* Channels-last pixels with any kernel, stride, dilation, channel multiplier and depth of groups:
 * four output columns at a time where all their taps lie inside the image, one where some do not.
 */
#ifndef PPLCONV_DEPTHWISE_CHANNELS_ANY_H
#define PPLCONV_DEPTHWISE_CHANNELS_ANY_H

#include "depthwise_channels.h"

enum { ANY_COLUMNS = 4 };

/* Which input channels a vector of output channels reads: lane i reads first + lane[i]. */
struct source {
    int64_t first, count;
    vector_bits lane;
};

static struct source source_of(int64_t channel, int64_t n, int64_t multiplier) {
    struct source f = {channel / multiplier, 0, {0}};
    int64_t rest = channel % multiplier;
    for (int64_t i = 0; i < n; i++) {
        f.lane[i] = (element_bits)f.count;
        if (++rest == multiplier) {
            rest = 0;
            f.count++;
        }
    }
    f.count = f.lane[n - 1] + 1;
    return f;
}

/* The same for the first input channel of groups. */
static struct source source_in_groups(int64_t channel, int64_t n, int64_t depth) {
    if (reading_of(depth) == SHARED) {
        const struct source one = {channel - channel % depth, 1, {0}};
        return one;
    }
    const struct source f = {channel, n, first_of_groups(depth)};
    return f;
}

/* `columns` outputs from (row, column) on; all of them have the taps of `kh` and `kw`. */
INLINE void any_block(const struct call *s, int64_t row, int64_t column, struct range kh,
                      struct range kw, int64_t channels, int64_t multiplier, int64_t phase,
                      const int columns) {
    const int64_t ih = row * s->g.stride_h - s->g.pad_top;
    const int64_t iw = column * s->g.stride_w - s->g.pad_left;
    const int64_t step = s->g.stride_w * s->src_ps;
    struct epilogue e = s->epilogue;
    for (int64_t channel = 0; channel < channels; channel += LANES) {
        const int64_t n = least(channels - channel, LANES);
        struct source f = {channel, n, {0}};
        if (multiplier > 1) f = source_of(phase + channel, n, multiplier);
        if (s->depth > 1) f = source_in_groups(channel, n, s->depth);
        const int picks = multiplier > 1 || s->depth > 1;
        const element *w = s->weights + channel * s->depth * s->taps;
        vector sum[ANY_COLUMNS] = {0};
        for (int64_t d = 0; d < s->depth; d++) {
            for (int64_t i = kh.begin; i < kh.end; i++) {
                for (int64_t j = kw.begin; j < kw.end; j++) {
                    const int64_t y = ih + i * s->g.dilation_h, x = iw + j * s->g.dilation_w;
                    const element *p =
                        AT_CONST(element, s->src + f.first, y * s->src_rs + x * s->src_ps);
                    const vector by = load(w + (i * s->g.kw + j) * LANES);
                    UNROLL for (int c = 0; c < columns; c++) {
                        vector v = load_lanes(AT_CONST(element, p, c * step), f.count);
                        if (picks) v = pick_lanes(v, f.lane);
                        sum[c] = multiply_add(v, by, sum[c]);
                    }
                }
            }
            /* The next input channel: the next lane, or the next element. */
            if (f.count > 1) f.lane += 1;
            else f.first++;
            w += s->taps * LANES;
        }
        if (s->bias) e.bias = load_lanes(s->bias + channel, n);
        const element *more = AT_CONST(element, s->residual + channel,
                                       row * s->residual_rs + column * s->residual_ps);
        element *to = AT(element, s->dst + channel, row * s->dst_rs + column * s->dst_ps);
        UNROLL for (int c = 0; c < columns; c++) {
            sum[c] += e.bias;
            if (e.residual) sum[c] += load_lanes(AT_CONST(element, more, c * s->residual_ps), n);
        }
        clip_all(&e, sum, columns);
        UNROLL for (int c = 0; c < columns; c++) {
            store_lanes(AT(element, to, c * s->dst_ps), sum[c], n);
        }
    }
}

/* Output rows first .. end - 1. */
static void any(const struct call *call, int64_t first, int64_t end, int64_t channels,
                int64_t multiplier, int64_t phase) {
    const struct call s = *call;
    const struct pplconv_geometry *g = &s.g;
    for (int64_t row = first; row < end; row++) {
        const struct range kh = inside(row * g->stride_h - g->pad_top, g->dilation_h, g->kh, g->ih);
        for (int64_t column = 0; column < g->ow;) {
            const int64_t start = column * g->stride_w - g->pad_left;
            const int64_t last = start + (ANY_COLUMNS - 1) * g->stride_w;
            if (column + ANY_COLUMNS <= g->ow && start >= 0 &&
                last + (g->kw - 1) * g->dilation_w < g->iw) {
                const struct range kw = {0, g->kw};
                any_block(&s, row, column, kh, kw, channels, multiplier, phase, ANY_COLUMNS);
                column += ANY_COLUMNS;
            } else {
                const struct range kw = inside(start, g->dilation_w, g->kw, g->iw);
                any_block(&s, row, column, kh, kw, channels, multiplier, phase, 1);
                column++;
            }
        }
    }
}

#endif

/* Depthwise convolution of planes with any kernel, stride and dilation: a vector of output
 * columns in four rows at a time, tap by tap. Without strides, blocks are faster. */
#ifndef PPLCONV_DEPTHWISE_PIXELS_ANY_H
#define PPLCONV_DEPTHWISE_PIXELS_ANY_H

#include "depthwise_pixels.h"

enum { ANY_ROWS = 4 };

/* Lanes begin .. end - 1 of a tap; those outside are padding and become zero. */
INLINE vector load_tap(const element *p, struct range lanes, int64_t stride) {
    if (stride == 1) {
        if (lanes.begin == 0 && lanes.end == LANES) return load(p);
        return load_between(p, lanes.begin, lanes.end);
    }
    if (stride == 2) {
        /* End at the last wanted element: the one after it may be outside. */
        const int64_t begin = 2 * lanes.begin, end = 2 * lanes.end - 1;
        return every_second(load_between(p, begin, end),
                            load_between(p + LANES, begin - LANES, end - LANES), 0);
    }
    vector x = {0};
    for (int64_t i = lanes.begin; i < lanes.end; i++) x[i] = p[i * stride];
    return x;
}

/* `count` lanes of `rows` output rows. */
INLINE void any_block(const struct planes *s, const struct plane *plane, const struct epilogue *e,
                      const element *weights, int64_t row, int64_t rows, int64_t column,
                      int64_t count, int64_t stride) {
    const struct pplconv_geometry *g = &s->g;
    vector sum[ANY_ROWS] = {0};
    for (int64_t i = 0; i < g->kh; i++) {
        for (int64_t j = 0; j < g->kw; j++) {
            const vector w = broadcast(weights[i * g->kw + j]);
            const int64_t start = column * stride - g->pad_left + j * g->dilation_w;
            const struct range lanes = inside(start, stride, count, g->iw);
            if (lanes.begin >= lanes.end) continue;
            const lane_mask m = lanes_between(lanes.begin, lanes.end);
            UNROLL for (int r = 0; r < ANY_ROWS; r++) {
                const int64_t ih = (row + r) * g->stride_h - g->pad_top + i * g->dilation_h;
                if (r >= rows || ih < 0 || ih >= g->ih) continue;
                const vector x = load_tap(plane->src + ih * g->iw + start, lanes, stride);
                sum[r] = multiply_add_where(m, x, w, sum[r]);
            }
        }
    }
    const int64_t at = row * g->ow + column;
    UNROLL for (int r = 0; r < ANY_ROWS; r++) {
        sum[r] += e->bias;
        if (e->residual && r < rows) {
            sum[r] += load_lanes(plane->residual + at + r * g->ow, count);
        }
    }
    clip_all(e, sum, ANY_ROWS);
    UNROLL for (int r = 0; r < ANY_ROWS; r++) {
        if (r < rows) store_lanes(plane->dst + at + r * g->ow, sum[r], count);
    }
}

INLINE void any_stride(const struct planes *s, int64_t stride) {
    struct epilogue e = s->epilogue;
    for (int64_t channel = 0; channel < s->channels; channel++) {
        const struct plane plane = plane_of(s, channel);
        const element *weights = s->weights + channel * s->g.kh * s->g.kw;
        e.bias = broadcast(s->bias[channel * s->bias_step]);
        for (int64_t row = s->first; row < s->end; row += ANY_ROWS) {
            const int64_t rows = least(s->end - row, ANY_ROWS);
            for (int64_t column = 0; column < s->g.ow; column += LANES) {
                any_block(s, &plane, &e, weights, row, rows, column, least(s->g.ow - column, LANES),
                          stride);
            }
        }
    }
}

static void any(const struct planes *call) {
    const struct planes s = *call;
    if (s.g.stride_w == 2) {
        any_stride(&s, 2);
    } else {
        any_stride(&s, s.g.stride_w);
    }
}

#endif

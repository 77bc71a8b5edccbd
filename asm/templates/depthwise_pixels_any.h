/* Depthwise convolution of planes with any kernel, stride and dilation: two vectors of output
 * columns in some rows at a time. Vectors at a stride cost several loads and a shuffle, so each is
 * added to all the rows that see its line. Without strides, blocks are faster. */
#ifndef PPLCONV_DEPTHWISE_PIXELS_ANY_H
#define PPLCONV_DEPTHWISE_PIXELS_ANY_H

#include "depthwise_pixels.h"

/* Sums, the vectors of a tap and a weight are to fit the registers. */
#if PPLCONV_VECTOR_BYTES == 64 || (PPLCONV_NEON && defined(__aarch64__))
enum { ANY_ROWS = 6, ANY_VECTORS = 2 };
#else
enum { ANY_ROWS = 4, ANY_VECTORS = 2 };
#endif

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

/* The lines of the image that `rows` output rows read. Rows are as far apart as the taps of a
 * column, so that they share lines: row r reads lines r * stride .. r * stride + kh - 1. */
struct lines {
    int64_t first, end; /* the lines that exist */
    int64_t rows, stride;
    const element *p; /* the first one, where tap 0 of the block's first column reads */
};

INLINE struct lines lines_of(const struct pplconv_geometry *g, const struct plane *plane,
                             int64_t row, int64_t rows, int64_t start) {
    const int64_t top = row * g->stride_h - g->pad_top;
    struct lines l = {.rows = rows, .stride = g->stride_h};
    l.first = steps_to(top, g->dilation_h, 0);
    l.end = least((rows - 1) * l.stride + g->kh, steps_to(top, g->dilation_h, g->ih));
    l.p = plane->src + (top + l.first * g->dilation_h) * g->iw + start;
    return l;
}

/* `count` columns from `column` on, at most ANY_VECTORS vectors, of `rows` rows. */
INLINE void any_block(const struct planes *s, const struct plane *plane, const struct epilogue *e,
                      const element *weights, int64_t row, int64_t rows, int64_t column,
                      int64_t count, const int64_t stride) {
    const struct pplconv_geometry *g = &s->g;
    const int64_t apart = g->dilation_h, taps = g->kw;
    const struct lines l = lines_of(g, plane, row, rows, column * stride - g->pad_left);
    const int64_t up = l.stride * taps; /* weights from a row's line to the next row's */
    const element *line_p = l.p;
    vector sum[ANY_ROWS][ANY_VECTORS] = {{{0}}};
    for (int64_t line = l.first; line < l.end; line++, line_p += apart * g->iw) {
        const int64_t low = steps_to(g->kh - 1 - line, l.stride, 0);
        const int64_t high = least(line / l.stride, rows - 1);
        const element *p = line_p, *w = weights + line * taps;
        int64_t start = column * stride - g->pad_left;
        for (int64_t j = 0; j < taps; j++, w++, p += g->dilation_w, start += g->dilation_w) {
            vector x[ANY_VECTORS];
            lane_mask m[ANY_VECTORS];
            const int whole = count == ANY_VECTORS * LANES && start >= 0 &&
                              start + (ANY_VECTORS * LANES - 1) * stride < g->iw;
            if (whole) {
                UNROLL for (int v = 0; v < ANY_VECTORS; v++) {
                    const struct range all = {0, LANES};
                    x[v] = load_tap(p + v * LANES * stride, all, stride);
                }
                UNROLL for (int r = 0; r < ANY_ROWS; r++) {
                    if (r < low || r > high) continue;
                    const vector by = broadcast(w[-r * up]);
                    UNROLL for (int v = 0; v < ANY_VECTORS; v++)
                        sum[r][v] = multiply_add(x[v], by, sum[r][v]);
                }
                continue;
            }
            const struct range lanes = inside(start, stride, count, g->iw);
            if (lanes.begin >= lanes.end) continue;
            UNROLL for (int v = 0; v < ANY_VECTORS; v++) {
                const struct range own = {least(most(lanes.begin - v * LANES, 0), LANES),
                                          least(most(lanes.end - v * LANES, 0), LANES)};
                const vector none = {0};
                const int some = own.begin < own.end;
                m[v] = lanes_between(own.begin, some ? own.end : own.begin);
                x[v] = some ? load_tap(p + v * LANES * stride, own, stride) : none;
            }
            UNROLL for (int r = 0; r < ANY_ROWS; r++) {
                if (r < low || r > high) continue;
                const vector by = broadcast(w[-r * up]);
                UNROLL for (int v = 0; v < ANY_VECTORS; v++)
                    sum[r][v] = multiply_add_where(m[v], x[v], by, sum[r][v]);
            }
        }
    }
    const int64_t at = row * g->ow + column;
    UNROLL for (int r = 0; r < ANY_ROWS; r++) {
        if (r >= rows) break;
        UNROLL for (int v = 0; v < ANY_VECTORS; v++) {
            const int64_t n = least(count - v * LANES, LANES);
            if (n <= 0) break;
            const int64_t to = at + r * apart * g->ow + v * LANES;
            sum[r][v] += e->bias;
            if (e->residual) sum[r][v] += load_lanes(plane->residual + to, n);
            clip_all(e, &sum[r][v], 1);
            store_lanes(plane->dst + to, sum[r][v], n);
        }
    }
}

INLINE void any_stride(const struct planes *s, int64_t stride) {
    struct epilogue e = s->epilogue;
    const int64_t apart = s->g.dilation_h;
    for (int64_t channel = 0; channel < s->channels; channel++) {
        const struct plane plane = plane_of(s, channel);
        const element *weights = s->weights + channel * s->g.kh * s->g.kw;
        e.bias = broadcast(s->bias[channel * s->bias_step]);
        for (int64_t begin = s->first; begin < least(s->first + apart, s->end); begin++) {
            for (int64_t row = begin; row < s->end; row += ANY_ROWS * apart) {
                const int64_t rows = least(ceil_of(s->end - row, apart), ANY_ROWS);
                for (int64_t column = 0; column < s->g.ow; column += ANY_VECTORS * LANES) {
                    any_block(s, &plane, &e, weights, row, rows, column,
                              least(s->g.ow - column, ANY_VECTORS * LANES), stride);
                }
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

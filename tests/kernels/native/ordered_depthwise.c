/* The depthwise contracts word by word, one element at a time: a chain over (c, kh, kw) that starts
 * from zero and leaves out the taps on padding, then bias, residual, clip. `fused` picks one
 * rounding per step or two. `out` is (channels, rows, ow) without gaps. */
#include <math.h>
#include <string.h>

#include "flush.h"
#include "pplconv_kernels.h"

/* Arguments that both contracts have: strides in bytes, by channel, row and column or tap. */
struct view {
    const void *src, *weights, *bias, *residual, *clip;
    int64_t src_cs, src_rs, src_ps, lanes, residual_cs, residual_rs, residual_ps;
    int64_t first_row, rows, channels, multiplier, phase, depth, flags;
    const struct pplconv_geometry *g;
};

#define DEFINE_ORDERED(type, element, fma)                                                         \
    static element at_##type(const void *base, int64_t bytes) {                                    \
        element x;                                                                                 \
        memcpy(&x, (const char *)base + bytes, sizeof x);                                          \
        return x;                                                                                  \
    }                                                                                              \
                                                                                                   \
    static element output_##type(const struct view *v, int64_t o, int64_t oy, int64_t ox,          \
                                 int64_t fused) {                                                  \
        const struct pplconv_geometry *g = v->g;                                                   \
        const int64_t size = sizeof(element), taps = g->kh * g->kw;                                \
        const int64_t first = (v->phase + o) / v->multiplier / v->depth * v->depth;                \
        /* Each vector of channels has its weights by itself. */                                   \
        const int64_t vector = o / v->lanes * v->depth * taps, lane = o % v->lanes;                \
        element x = 0;                                                                             \
        for (int64_t row = 0; row < v->depth * taps; row++) {                                      \
            const int64_t i = first + row / taps, tap = row % taps;                                \
            const int64_t y = oy * g->stride_h - g->pad_top + tap / g->kw * g->dilation_h;         \
            const int64_t z = ox * g->stride_w - g->pad_left + tap % g->kw * g->dilation_w;        \
            if (y < 0 || y >= g->ih || z < 0 || z >= g->iw) continue;                              \
            const element a = at_##type(v->src, i * v->src_cs + y * v->src_rs + z * v->src_ps);    \
            const element b = at_##type(v->weights, ((vector + row) * v->lanes + lane) * size);    \
            if (fused) x = fma(a, b, x);                                                           \
            else x = x + a * b;                                                                    \
        }                                                                                          \
        if (v->bias) x += at_##type(v->bias, o * size);                                            \
        if (v->flags & PPLCONV_RESIDUAL) {                                                         \
            x += at_##type(v->residual,                                                            \
                           o * v->residual_cs + oy * v->residual_rs + ox * v->residual_ps);        \
        }                                                                                          \
        if (v->flags & PPLCONV_CLIP) {                                                             \
            const element low = at_##type(v->clip, 0), high = at_##type(v->clip, size);            \
            if (x < low) x = low;                                                                  \
            if (x > high) x = high;                                                                \
        }                                                                                          \
        return x;                                                                                  \
    }                                                                                              \
                                                                                                   \
    BETWEEN void all_##type(const struct view *v, int64_t fused, element *out) {                   \
        for (int64_t o = 0; o < v->channels; o++) {                                                \
            for (int64_t y = v->first_row; y < v->first_row + v->rows; y++) {                      \
                for (int64_t x = 0; x < v->g->ow; x++) *out++ = output_##type(v, o, y, x, fused);  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    void ordered_depthwise_pixels_##type(const struct pplconv_depthwise_pixels_args *a,            \
                                         int64_t lanes, int64_t fused, element *out) {             \
        const int64_t size = sizeof(element);                                                      \
        const struct pplconv_geometry *g = a->geometry;                                            \
        const struct view v = {                                                                    \
            a->src,                                                                                \
            a->weights,                                                                            \
            a->flags & PPLCONV_BIAS_ROW ? a->bias : 0,                                             \
            a->residual,                                                                           \
            a->clip,                                                                               \
            a->src_cs,                                                                             \
            g->iw * size,                                                                          \
            size,                                                                                  \
            lanes,                                                                                 \
            a->residual_cs,                                                                        \
            g->ow * size,                                                                          \
            size,                                                                                  \
            a->first_row,                                                                          \
            a->rows,                                                                               \
            a->channels,                                                                           \
            a->multiplier,                                                                         \
            0,                                                                                     \
            1,                                                                                     \
            a->flags,                                                                              \
            g,                                                                                     \
        };                                                                                         \
        const uint32_t mode = begin_flushing(fused);                                               \
        all_##type(&v, fused, out);                                                                \
        end_flushing(mode);                                                                        \
    }                                                                                              \
                                                                                                   \
    void ordered_depthwise_channels_##type(const struct pplconv_depthwise_channels_args *a,        \
                                           int64_t lanes, int64_t fused, element *out) {           \
        const int64_t size = sizeof(element);                                                      \
        const struct view v = {                                                                    \
            a->src,        a->weights,     a->flags & PPLCONV_BIAS_COLUMN ? a->bias : 0,           \
            a->residual,   a->clip,        size,                                                   \
            a->src_rs,     a->src_ps,      lanes,                                                  \
            size,          a->residual_rs, a->residual_ps,                                         \
            a->first_row,  a->rows,        a->channels,                                            \
            a->multiplier, a->phase,       a->depth,                                               \
            a->flags,      a->geometry,                                                            \
        };                                                                                         \
        const uint32_t mode = begin_flushing(fused);                                               \
        all_##type(&v, fused, out);                                                                \
        end_flushing(mode);                                                                        \
    }

#if defined(__ARM_FP16_FORMAT_IEEE)
/* The double result is exact unless the product is too small to matter; it is rounded once. */
static _Float16 fma_half(_Float16 a, _Float16 b, _Float16 c) {
    return (_Float16)fma((double)a, (double)b, (double)c);
}
DEFINE_ORDERED(f16, _Float16, fma_half)
#endif
DEFINE_ORDERED(f32, float, fmaf)
DEFINE_ORDERED(f64, double, fma)

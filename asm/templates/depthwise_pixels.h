/* One call of depthwise_pixels, as its loops hold it, and the loads of its vectors. */
#ifndef PPLCONV_DEPTHWISE_PIXELS_H
#define PPLCONV_DEPTHWISE_PIXELS_H

#include "depthwise.h"

/* The call. Loops that store copy what they need of it: members read through a pointer would be
 * read again after every store. */
struct planes {
    struct pplconv_geometry g;
    struct epilogue epilogue;
    int plain; /* the epilogue is at most a bias */
    const element *src, *residual, *weights, *bias;
    element *dst;
    int64_t src_cs, dst_cs, residual_cs; /* bytes */
    int64_t bias_step;                   /* 0 if all planes have the same */
    int64_t first, end, channels, multiplier;
};

/* One output channel. */
struct plane {
    const element *src, *residual;
    element *dst;
};

static inline struct plane plane_of(const struct planes *s, int64_t channel) {
    const element *src = AT_CONST(element, s->src, channel / s->multiplier * s->src_cs);
    const struct plane p = {src, AT_CONST(element, s->residual, channel * s->residual_cs),
                            AT(element, s->dst, channel * s->dst_cs)};
    return p;
}

/* Every second element of two neighbouring vectors, from the first or the second on. */
INLINE vector every_second(vector low, vector high, const int from) {
#if PPLCONV_NEON
    const neon_vector a = (neon_vector)low, b = (neon_vector)high;
    return (vector)(from ? OF_ELEMENT(vuzp2q)(a, b) : OF_ELEMENT(vuzp1q)(a, b));
#else
    vector_bits lane;
    UNROLL for (int i = 0; i < LANES; i++)
        lane[i] = 2 * i + from;
    return shuffle(low, high, lane);
#endif
}

#endif

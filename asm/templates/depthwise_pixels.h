/* One call of depthwise_pixels, as its loops hold it, and its vectors of output columns. */
#ifndef PPLCONV_DEPTHWISE_PIXELS_H
#define PPLCONV_DEPTHWISE_PIXELS_H

#include "depthwise.h"

enum { LARGEST_SIZE = 5 };

/* The call by value: members read through a pointer would be read again after every store. */
struct planes {
    struct pplconv_geometry g;
    struct epilogue epilogue;
    const element *src, *residual, *weights, *bias; /* bias: null if there is none */
    element *dst;
    int64_t src_cs, dst_cs, residual_cs; /* bytes */
    int64_t first, end, channels, multiplier;
};

/* One output channel. */
struct plane {
    const element *src, *residual;
    element *dst;
};

static inline struct plane plane_of(const struct planes *s, int64_t channel) {
    const int64_t from = s->multiplier == 1 ? channel : channel / s->multiplier;
    const element *src = AT_CONST(element, s->src, from * s->src_cs);
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

#if PPLCONV_VECTOR_BYTES == 64
/* Four elements; what follows them in the vector is of no account. */
INLINE vector load_four(const element *p) {
#if PPLCONV_F64
    return (vector)_mm512_castpd256_pd512(_mm256_loadu_pd(p));
#else
    return (vector)_mm512_castps128_ps512(_mm_loadu_ps(p));
#endif
}

/* Every second element from tap k on. x has those from tap k & 1 on, and `more` has the elements
 * that follow all of those that x was made of. */
INLINE vector moved(vector x, vector more, const int k) {
    const int by = k / 2;
    vector_bits lane;
    UNROLL for (int i = 0; i < LANES; i++) {
        lane[i] = i + by < LANES ? i + by : LANES + 2 * (i + by - LANES) + (k & 1);
    }
    return shuffle(x, more, lane);
}

/* A mask that many products share, in a register of its own. */
INLINE lane_mask in_mask_register(lane_mask m) {
    __asm__("" : "+Yk"(m));
    return m;
}
#endif

#endif

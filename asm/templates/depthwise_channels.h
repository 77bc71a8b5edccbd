/* One call of depthwise_channels, as its loops hold it. */
#ifndef PPLCONV_DEPTHWISE_CHANNELS_H
#define PPLCONV_DEPTHWISE_CHANNELS_H

#include "depthwise.h"

/* The call by value, strides in bytes: members read through a pointer would be read again after
 * every store. */
struct call {
    struct pplconv_geometry g;
    struct epilogue epilogue;
    const element *src, *residual, *weights, *bias; /* bias: null if there is none */
    element *dst;
    int64_t src_rs, src_ps, dst_rs, dst_ps, residual_rs, residual_ps, weights_ts;
};

/* All lanes, or the first n: the `tail` of the channels. */
INLINE vector load_channels(const element *p, int64_t n, const int tail) {
    return tail ? load_tail(p, n) : load(p);
}
INLINE void store_channels(element *p, vector v, int64_t n, const int tail) {
    if (tail) {
        store_tail(p, v, n);
    } else {
        *(unaligned_vector *)p = v;
    }
}

#endif

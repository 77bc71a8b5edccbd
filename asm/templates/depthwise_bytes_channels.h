/* One call of depthwise_bytes_channels, as its loops hold it. */
#ifndef PPLCONV_DEPTHWISE_BYTES_CHANNELS_H
#define PPLCONV_DEPTHWISE_BYTES_CHANNELS_H

#include "depthwise_bytes.h"

/* By value: members read through a pointer would be read again after every store. */
struct call {
    struct pplconv_geometry g;
    const uint8_t *src;
    char *dst;
    int64_t src_rs, src_ps, dst_rs, dst_ps;
    int64_t row_end, column, columns; /* of the outputs */
    int64_t multiplier, phase;
    uint8_t pad[UNIT]; /* a pixel of padding: the input's zero in each channel */
};

#endif

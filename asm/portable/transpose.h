/* A block of LANES x LANES elements, transposed in registers. */
#ifndef PPLCONV_TRANSPOSE_H
#define PPLCONV_TRANSPOSE_H

#include "template.h"

#define UNROLL _Pragma("GCC unroll 16")

/* Eklundh's transposition: log2(LANES) rounds, each swapping the off-diagonal quarters of
 * blocks of 2s x 2s. */
static inline __attribute__((always_inline)) void transpose(vector row[LANES]) {
    vector_bits lane;
    UNROLL for (int i = 0; i < LANES; i++)
        lane[i] = i;
    UNROLL for (int s = 1; s < LANES; s *= 2) {
        const vector_bits upper = (lane & s) != 0;
        const vector_bits keep_low = lane + (upper & (LANES - s));
        const vector_bits keep_high = lane + (~upper & s) + (upper & LANES);
        UNROLL for (int i = 0; i < LANES; i++) {
            if (i & s) continue;
            const vector a = row[i], b = row[i + s];
            row[i] = shuffle(a, b, keep_low);
            row[i + s] = shuffle(a, b, keep_high);
        }
    }
}

#endif

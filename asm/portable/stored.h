/* A vector of elements from and to arrays of the type that is not computed in: halves that are
 * computed in float, and floats that are computed in half precision. */
#ifndef PPLCONV_STORED_H
#define PPLCONV_STORED_H

#if PPLCONV_F16
#include "lanes.h"

typedef float stored;

/* To the nearest, ties to even. Flush-to-zero concerns subnormal floats, far below half of the
 * least half, which are rounded to zero anyway. */
static inline vector load_stored(const stored *p) {
    return (vector)vcombine_f16(vcvt_f16_f32(vld1q_f32(p)), vcvt_f16_f32(vld1q_f32(p + 4)));
}
static inline void store_stored(stored *p, vector v) {
    vst1q_f32(p, vcvt_f32_f16(vget_low_f16((float16x8_t)v)));
    vst1q_f32(p + 4, vcvt_f32_f16(vget_high_f16((float16x8_t)v)));
}

/* The last lanes of a row pass through a vector's worth of memory. */
static inline vector load_stored_lanes(const stored *p, int64_t n) {
    stored buffer[LANES] = {0};
    for (int64_t i = 0; i < n; i++) buffer[i] = p[i];
    return load_stored(buffer);
}
static inline void store_stored_lanes(stored *p, vector v, int64_t n) {
    stored buffer[LANES];
    store_stored(buffer, v);
    for (int64_t i = 0; i < n; i++) p[i] = buffer[i];
}

#else
#include "half.h"

typedef half stored;
#define load_stored load_half
#define store_stored store_half
#define load_stored_lanes load_half_lanes
#define store_stored_lanes store_half_lanes
#endif

#endif

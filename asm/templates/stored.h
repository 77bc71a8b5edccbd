/* Loads and stores of a vector of elements in arrays that may have another type:
 * PPLCONV_STORED_F16, halves that are computed in float; PPLCONV_STORED_F32, floats that are
 * computed in half precision; or the type that is computed in. */
#ifndef PPLCONV_STORED_H
#define PPLCONV_STORED_H

#if defined(PPLCONV_STORED_F16)
#include "half.h"

typedef half stored;

static inline vector load_stored(const stored *p) { return load_half(p); }
static inline void store_stored(stored *p, vector v) { store_half(p, v); }

#else
#include "lanes.h"

#if defined(PPLCONV_STORED_F32)

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

#else

typedef element stored;

static inline vector load_stored(const stored *p) { return *(const unaligned_vector *)p; }
static inline void store_stored(stored *p, vector v) { *(unaligned_vector *)p = v; }

#endif
#endif

/* The last lanes of a row: by what the machine has for them, or through a vector's worth of
 * memory. */
#if defined(PPLCONV_STORED_F16) && PPLCONV_VECTOR_BYTES == 64
static inline vector load_stored_lanes(const stored *p, int64_t n) { return load_half_lanes(p, n); }
static inline void store_stored_lanes(stored *p, vector v, int64_t n) { store_half_lanes(p, v, n); }
#elif defined(PPLCONV_STORED_F16) || defined(PPLCONV_STORED_F32)
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
static inline vector load_stored_lanes(const stored *p, int64_t n) { return load_lanes(p, n); }
static inline void store_stored_lanes(stored *p, vector v, int64_t n) { store_lanes(p, v, n); }
#endif

#endif

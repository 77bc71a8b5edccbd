/* Loads and stores of a vector in the user's arrays. Vectors have the compute type, arrays the
 * storage type: PPLCONV_STORAGE_F16 or PPLCONV_STORAGE_BF16, halves or bfloat16 that are
 * computed in float; PPLCONV_STORAGE_F32, floats that are computed in half precision; or the
 * compute type. */
#ifndef PPLCONV_STORAGE_H
#define PPLCONV_STORAGE_H

#if defined(PPLCONV_STORAGE_F16)
#include "half.h"

typedef half storage;

static inline vector load_storage(const storage *p) { return load_half(p); }
static inline void store_storage(storage *p, vector v) { store_half(p, v); }

#elif defined(PPLCONV_STORAGE_BF16)
#include "bfloat.h"

typedef bfloat storage;

static inline vector load_storage(const storage *p) { return load_bfloat(p); }
static inline void store_storage(storage *p, vector v) { store_bfloat(p, v); }

#else
#include "lanes.h"

#if defined(PPLCONV_STORAGE_F32)

typedef float storage;

/* To the nearest, ties to even. Flush-to-zero concerns subnormal floats, far below half of the
 * least half, which are rounded to zero anyway. */
static inline vector load_storage(const storage *p) {
    return (vector)vcombine_f16(vcvt_f16_f32(vld1q_f32(p)), vcvt_f16_f32(vld1q_f32(p + 4)));
}
static inline void store_storage(storage *p, vector v) {
    vst1q_f32(p, vcvt_f32_f16(vget_low_f16((float16x8_t)v)));
    vst1q_f32(p + 4, vcvt_f32_f16(vget_high_f16((float16x8_t)v)));
}

#else

typedef element storage;

static inline vector load_storage(const storage *p) { return *(const unaligned_vector *)p; }
static inline void store_storage(storage *p, vector v) { *(unaligned_vector *)p = v; }

#endif
#endif

/* The last lanes of a row: by the machine's masked or partial accesses, or through a vector's worth
 * of memory. */
#if defined(PPLCONV_STORAGE_BF16)
static inline vector load_storage_lanes(const storage *p, int64_t n) {
    return load_bfloat_lanes(p, n);
}
static inline void store_storage_lanes(storage *p, vector v, int64_t n) {
    store_bfloat_lanes(p, v, n);
}
#elif defined(PPLCONV_STORAGE_F16) && PPLCONV_VECTOR_BYTES == 64
static inline vector load_storage_lanes(const storage *p, int64_t n) {
    return widened(_mm256_maskz_loadu_epi16(first_lanes(n), p));
}
static inline void store_storage_lanes(storage *p, vector v, int64_t n) {
    _mm256_mask_storeu_epi16(p, first_lanes(n), narrowed(v));
}
#elif defined(PPLCONV_STORAGE_F16) || defined(PPLCONV_STORAGE_F32)
static inline vector load_storage_lanes(const storage *p, int64_t n) {
    storage buffer[LANES] = {0};
    for (int64_t i = 0; i < n; i++) buffer[i] = p[i];
    return load_storage(buffer);
}
static inline void store_storage_lanes(storage *p, vector v, int64_t n) {
    storage buffer[LANES];
    store_storage(buffer, v);
    for (int64_t i = 0; i < n; i++) p[i] = buffer[i];
}
#else
static inline vector load_storage_lanes(const storage *p, int64_t n) { return load_lanes(p, n); }
static inline void store_storage_lanes(storage *p, vector v, int64_t n) { store_lanes(p, v, n); }
#endif

#endif

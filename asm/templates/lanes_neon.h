/* The NEON side of lanes.h. There are no masked loads and stores: a part of a vector goes in pieces
 * of half its size, a quarter and so on, as the bits of the number of lanes say; and where a row of
 * an image ends within a vector, a vector of that row is loaded and its bytes are moved. */
#ifndef PPLCONV_LANES_NEON_H
#define PPLCONV_LANES_NEON_H

#include <arm_neon.h>

#include "template.h"

#if PPLCONV_F64
#define OF_ELEMENT(name) name##_f64
typedef float64x2_t neon_vector;
#elif PPLCONV_F16
#define OF_ELEMENT(name) name##_f16
typedef float16x8_t neon_vector;
#else
#define OF_ELEMENT(name) name##_f32
typedef float32x4_t neon_vector;
#endif

#if !defined(__aarch64__)
/* Functions of AArch64 for 32-bit Arm, which takes two registers or returns pairs. */
static inline uint8x16_t vqtbl1q_u8(uint8x16_t table, uint8x16_t index) {
    const uint8x8x2_t t = {{vget_low_u8(table), vget_high_u8(table)}};
    return vcombine_u8(vtbl2_u8(t, vget_low_u8(index)), vtbl2_u8(t, vget_high_u8(index)));
}
static inline float32x4_t vuzp1q_f32(float32x4_t a, float32x4_t b) {
    return vuzpq_f32(a, b).val[0];
}
static inline float32x4_t vuzp2q_f32(float32x4_t a, float32x4_t b) {
    return vuzpq_f32(a, b).val[1];
}
static inline float32x4_t vtrn1q_f32(float32x4_t a, float32x4_t b) {
    return vtrnq_f32(a, b).val[0];
}
static inline float32x4_t vtrn2q_f32(float32x4_t a, float32x4_t b) {
    return vtrnq_f32(a, b).val[1];
}
#if PPLCONV_F16
static inline uint16x8_t vuzp1q_u16(uint16x8_t a, uint16x8_t b) { return vuzpq_u16(a, b).val[0]; }
static inline float16x8_t vuzp1q_f16(float16x8_t a, float16x8_t b) {
    return vuzpq_f16(a, b).val[0];
}
static inline float16x8_t vuzp2q_f16(float16x8_t a, float16x8_t b) {
    return vuzpq_f16(a, b).val[1];
}
static inline float16x8_t vtrn1q_f16(float16x8_t a, float16x8_t b) {
    return vtrnq_f16(a, b).val[0];
}
static inline float16x8_t vtrn2q_f16(float16x8_t a, float16x8_t b) {
    return vtrnq_f16(a, b).val[1];
}
#endif
#endif

typedef vector_bits lane_mask;

/* Lanes begin <= i < end as a mask vector. */
static inline lane_mask lanes_between(int64_t begin, int64_t end) {
#if PPLCONV_F64
    const vector_bits lane = {0, 1};
#elif PPLCONV_F16
    const vector_bits lane = {0, 1, 2, 3, 4, 5, 6, 7};
#else
    const vector_bits lane = {0, 1, 2, 3};
#endif
    return (lane >= (element_bits)begin) & (lane < (element_bits)end);
}

static inline vector multiply_add(vector a, vector b, vector c) {
    return (vector)OF_ELEMENT(vfmaq)((neon_vector)c, (neon_vector)a, (neon_vector)b);
}
static inline vector if_less(vector x, vector y, vector yes, vector no) {
    return select_lanes(x < y, yes, no);
}
static inline vector if_negative(vector x, vector yes, vector no) {
    return select_lanes((vector_bits)x < 0, yes, no);
}
/* Neither NaN nor the sign of a zero is lost, as fmax and fmin would lose the latter. GCC would
 * compare halves one by one if it were asked to with an operator. */
static inline vector at_least(vector x, vector low) {
    const vector_bits below = (vector_bits)OF_ELEMENT(vcltq)((neon_vector)x, (neon_vector)low);
    return select_lanes(below, low, x);
}
static inline vector at_most(vector x, vector high) {
    const vector_bits above = (vector_bits)OF_ELEMENT(vcgtq)((neon_vector)x, (neon_vector)high);
    return select_lanes(above, high, x);
}

#if PPLCONV_F16
/* Three lanes or fewer. */
static inline float16x4_t load_few(const element *p, int64_t n) {
    const float16_t *from = (const float16_t *)p;
    float16x4_t v = vcreate_f16(0);
    if (n & 2) {
        uint32_t two;
        memcpy(&two, from, sizeof two);
        v = vreinterpret_f16_u32(vset_lane_u32(two, vcreate_u32(0), 0));
        if (n & 1) v = vld1_lane_f16(from + 2, v, 2);
    } else if (n & 1) {
        v = vld1_lane_f16(from, v, 0);
    }
    return v;
}
static inline void store_few(element *p, float16x4_t v, int64_t n) {
    float16_t *to = (float16_t *)p;
    if (n & 2) {
        const uint32_t two = vget_lane_u32(vreinterpret_u32_f16(v), 0);
        memcpy(to, &two, sizeof two);
        if (n & 1) vst1_lane_f16(to + 2, v, 2);
    } else if (n & 1) {
        vst1_lane_f16(to, v, 0);
    }
}
#endif

/* The first n elements, any number of them, and zeros in the other lanes. */
static inline vector load_lanes(const element *p, int64_t n) {
    if (n >= LANES) return *(const unaligned_vector *)p;
    const vector zero = {0};
    if (n <= 0) return zero;
#if PPLCONV_F64
    return (vector)vcombine_f64(vld1_f64(p), vdup_n_f64(0));
#elif PPLCONV_F16
    if (n < 4) return (vector)vcombine_f16(load_few(p, n), vcreate_f16(0));
    return (vector)vcombine_f16(vld1_f16((const float16_t *)p), load_few(p + 4, n - 4));
#else
    if (n == 1) return (vector)vsetq_lane_f32(*p, (neon_vector)zero, 0);
    const neon_vector two = vcombine_f32(vld1_f32(p), vdup_n_f32(0));
    return (vector)(n == 2 ? two : vld1q_lane_f32(p + 2, two, 2));
#endif
}
static inline void store_lanes(element *p, vector v, int64_t n) {
    if (n >= LANES) {
        *(unaligned_vector *)p = v;
        return;
    }
#if PPLCONV_F64
    if (n > 0) *p = v[0];
#elif PPLCONV_F16
    if (n >= 4) {
        vst1_f16((float16_t *)p, vget_low_f16((neon_vector)v));
        store_few(p + 4, vget_high_f16((neon_vector)v), n - 4);
    } else if (n > 0) {
        store_few(p, vget_low_f16((neon_vector)v), n);
    }
#else
    if (n & 2) {
        vst1_f32(p, vget_low_f32((neon_vector)v));
        if (n & 1) vst1q_lane_f32(p + 2, (neon_vector)v, 2);
    } else if (n & 1) {
        *p = v[0];
    }
#endif
}

/* Index for tbl: each lane takes the value of the lane `lanes` further up, or zero if there is
 * none; -LANES <= lanes <= LANES. */
static inline uint8x16_t moving(int64_t lanes) {
    const uint8x16_t byte = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return vaddq_u8(byte, vdupq_n_u8((uint8_t)(lanes * (int64_t)sizeof(element))));
}
static inline vector move_lanes(vector v, uint8x16_t by) {
    return (vector)vqtbl1q_u8((uint8x16_t)v, by);
}

/* Lane i of the result is lane index[i] of v. */
static inline vector pick_lanes(vector v, vector_bits index) {
    /* The number of a lane in each of its bytes, times its size, plus the number of the byte. */
#if PPLCONV_F64
    const vector_bits bytes = index << 3 | index << 11 | index << 19 | index << 27 | index << 35 |
                              index << 43 | index << 51 | index << 59;
    const vector_bits first = {0x0706050403020100, 0x0706050403020100};
    return (vector)vqtbl1q_u8((uint8x16_t)v, (uint8x16_t)(bytes + first));
#elif PPLCONV_F16
    return (vector)vqtbl1q_u8((uint8x16_t)v, (uint8x16_t)(index * 0x0202 + 0x0100));
#else
    return (vector)vqtbl1q_u8((uint8x16_t)v, (uint8x16_t)(index * 0x04040404 + 0x03020100));
#endif
}

static inline int64_t limit(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

/* Elements begin .. end - 1 of p, each in its lane, as far as they have one. */
static inline vector load_between(const element *p, int64_t begin, int64_t end) {
    begin = limit(begin, 0, LANES);
    end = limit(end, begin, LANES);
    const vector v = load_lanes(p + begin, end - begin);
    return begin ? move_lanes(v, moving(-begin)) : v;
}

/* A vector's worth of elements around the end of a row: what is loaded, and how it is moved. */
struct window {
    int64_t at, count;
    uint8x16_t by;
};

/* The elements from `start` on of a row that has elements 0 .. size - 1. */
static inline struct window window_at(int64_t start, int64_t size) {
    const int64_t count = limit(size, 0, LANES), at = limit(start, 0, size - count);
    const struct window w = {at, count, moving(limit(start - at, -LANES, LANES))};
    return w;
}
static inline vector load_window(const element *row, const struct window *w) {
    return move_lanes(load_lanes(row + w->at, w->count), w->by);
}

#endif

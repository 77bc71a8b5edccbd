/* im2col from channel planes, as the tiled im2col of the OpenPPL Arm Server slides: panels of
 * output pixels, k = (channel, tap) down, pixels across. Where a pixel comes from is the same
 * for every channel, so the caller makes a table of runs once per segment
 * (pplconv_pixel_runs) and this loop only follows it: nothing is checked per element. */
#include "lanes.h"

enum { AHEAD = 2 }; /* planes */

/* The lanes that come from the image: from `begin` up to `end`. */
static inline int begin_of(const struct pplconv_run *run) {
    return run->load_mask ? __builtin_ctz(run->load_mask) : 0;
}
static inline int end_of(const struct pplconv_run *run) {
    return begin_of(run) + __builtin_popcount(run->load_mask);
}

#if PPLCONV_VECTOR_BYTES == 64

enum { LARGEST_VECTOR_STRIDE = 2 };

static inline void copy_run(element *dst, const element *p, const struct pplconv_run *run,
                            int64_t stride) {
    vector x;
    if (stride == 1) {
        x = load_masked(p, run->load_mask);
    } else { /* every second element of two neighbouring vectors */
#if PPLCONV_F64
        const uint32_t m = _pdep_u32(run->load_mask, 0x5555u);
        const vector_bits even = {0, 2, 4, 6, 8, 10, 12, 14};
#else
        const uint32_t m = _pdep_u32(run->load_mask, 0x55555555u);
        const vector_bits even = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
#endif
        const vector low = load_masked(p, (lane_mask)(m & ((1u << LANES) - 1u)));
        const vector high = load_masked(p + LANES, (lane_mask)(m >> LANES));
        x = shuffle(low, high, even);
    }
    store_masked(dst, x, run->store_mask);
}

#elif PPLCONV_VECTOR_BYTES == 32

enum { LARGEST_VECTOR_STRIDE = 2 };

/* Masked loads look at the highest bit of each lane only. So shifting the run's bits by one count a
 * lane makes a mask, with less work than the comparisons of `lanes_between`. A count as large as
 * the lane clears it. */
static inline lane_mask by_bit(element_bits bits, vector_bits up) {
#if PPLCONV_F64
    return (lane_mask)_mm256_sllv_epi64(_mm256_set1_epi64x(bits), (__m256i)up);
#else
    return (lane_mask)_mm256_sllv_epi32(_mm256_set1_epi32(bits), (__m256i)up);
#endif
}

static inline void copy_run(element *dst, const element *p, const struct pplconv_run *run,
                            int64_t stride) {
    element_bits bits;
    memcpy(&bits, &run->load_mask, sizeof bits);
    vector x;
    if (stride == 1) {
#if PPLCONV_F64
        const vector_bits up = {63, 62, 61, 60};
#else
        const vector_bits up = {31, 30, 29, 28, 27, 26, 25, 24};
#endif
        x = load_masked(p, by_bit(bits, up));
    } else { /* every second element of two neighbouring vectors, and no others are loaded */
#if PPLCONV_F64
        const vector_bits low = {63, 64, 62, 64}, high = {61, 64, 60, 64}, even = {0, 2, 4, 6};
#else
        const vector_bits low = {31, 32, 30, 32, 29, 32, 28, 32};
        const vector_bits high = {27, 32, 26, 32, 25, 32, 24, 32};
        const vector_bits even = {0, 2, 4, 6, 8, 10, 12, 14};
#endif
        x = shuffle(load_masked(p, by_bit(bits, low)), load_masked(p + LANES, by_bit(bits, high)),
                    even);
    }
    if (__builtin_expect(run->room == LANES, 1)) *(unaligned_vector *)dst = x;
    else store_lanes(dst, x, run->lanes);
}

#elif PPLCONV_NEON

enum { LARGEST_VECTOR_STRIDE = 2 };

static inline void copy_run(element *dst, const element *p, const struct pplconv_run *run,
                            int64_t stride) {
    const int begin = begin_of(run), end = end_of(run);
    if (stride == 1) {
        store_lanes(dst, load_between(p, begin, end), run->lanes);
    } else {
        vector x = {0};
        for (int64_t i = begin; i < end; i++) x[i] = p[i * stride];
        store_lanes(dst, x, run->lanes);
    }
}

#else
enum { LARGEST_VECTOR_STRIDE = 0 };
#endif

#if PPLCONV_VECTOR_BYTES >= 32 || PPLCONV_NEON
/* Elements 0, stride .. of p, LANES of them, for strides up to 2: nothing after the last is read.
 */
static inline vector load_whole(const element *p, int64_t stride) {
    if (stride == 1) return *(const unaligned_vector *)p;
#if PPLCONV_NEON && PPLCONV_F64
    return (vector)vcombine_f64(vld1_f64(p), vld1_f64(p + 2));
#elif PPLCONV_NEON && PPLCONV_F16
    const uint16x8_t low = (uint16x8_t) * (const unaligned_vector *)p;
    const uint16x8_t high = (uint16x8_t) * (const unaligned_vector *)(p + LANES - 1);
    return (vector)vuzp1q_u16(low, vrev32q_u16(high));
#elif PPLCONV_NEON
    const float32x4_t low = vld1q_f32(p), high = vld1q_f32(p + LANES - 1);
    return (vector)vuzp1q_f32(low, vrev64q_f32(high));
#else
    /* The second vector begins with the last element of the first. */
    const vector low = *(const unaligned_vector *)p;
    const vector high = *(const unaligned_vector *)(p + LANES - 1);
    vector_bits lane;
    for (int i = 0; i < LANES; i++) lane[i] = i < LANES / 2 ? 2 * i : 2 * i + 1;
    return shuffle(low, high, lane);
#endif
}

/* Copy whole vectors from p on, and prefetch a later plane from `next` meanwhile. */
static inline void copy_whole(element *dst, const element *p, int64_t vectors, int64_t stride,
                              const char *next) {
    for (int64_t v = 0; v < vectors; v++) {
        if (next) {
            __builtin_prefetch(next);
            if (stride > 1) __builtin_prefetch(next + 64);
            next += stride * (int64_t)sizeof(vector);
        }
        *(unaligned_vector *)dst = load_whole(p, stride);
        dst += LANES;
        p += LANES * stride;
    }
}
#endif

static inline void copy_elements(element *dst, const element *p, const struct pplconv_run *run,
                                 int64_t stride) {
    const int several = run->vectors > 1;
    const int64_t lanes = (int64_t)run->lanes * run->vectors;
    const int64_t begin = several ? 0 : begin_of(run), end = several ? lanes : end_of(run);
    int64_t i = 0;
    for (; i < begin; i++) dst[i] = 0;
    for (; i < end; i++) dst[i] = p[i * stride];
    for (; i < lanes; i++) dst[i] = 0;
}

static inline __attribute__((always_inline)) void pack(const struct pplconv_pack_pixels_args *a,
                                                       int64_t stride) {
    const struct pplconv_run *end = (const struct pplconv_run *)a->runs + a->run_count;
    for (int64_t c = 0; c < a->channels; c++) {
        const element *src = AT_CONST(element, a->src, c * a->src_cs);
        element *dst = AT(element, a->dst, c * a->dst_cs);
        /* Planes are too far apart for the hardware's prefetchers; a prefetch cannot fault. */
        const char *ahead = c + AHEAD < a->channels ? (const char *)src + AHEAD * a->src_cs : 0;
        for (const struct pplconv_run *run = a->runs; run < end; run++) {
            const char *next = ahead ? ahead + (int64_t)run->src * (int64_t)sizeof(element) : 0;
            const element *p = src + run->src;
#if PPLCONV_VECTOR_BYTES >= 32 || PPLCONV_NEON
            if (stride <= LARGEST_VECTOR_STRIDE) {
                if (run->load_mask == (1u << LANES) - 1u) {
                    copy_whole(dst + run->dst, p, run->vectors, stride, next);
                } else {
                    if (next) __builtin_prefetch(next);
                    copy_run(dst + run->dst, p, run, stride);
                }
                continue;
            }
#endif
            if (next) __builtin_prefetch(next);
            copy_elements(dst + run->dst, p, run, stride);
        }
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_pack_pixels_args *a = argument;
    if (a->stride == 1) {
        pack(a, 1);
    } else if (a->stride == 2) {
        pack(a, 2);
    } else {
        pack(a, a->stride);
    }
}

/* Winograd's transforms of floats: the type `value` of their arithmetic, and patches of an image in
 * vectors of it, where pixels outside count as zero. */
#ifndef PPLCONV_WINOGRAD_FLOATS_H
#define PPLCONV_WINOGRAD_FLOATS_H

#include "lanes.h"

#if WINOGRAD_F64
typedef double scalar;
#define OF_TYPE(name) name##_pd
#else
typedef float scalar;
#define OF_TYPE(name) name##_ps
#endif
typedef scalar value __attribute__((vector_size(PPLCONV_VECTOR_BYTES), may_alias));

INLINE value splat(double x) { return (value){0} + (scalar)x; }

/* c + a * b and c - a * b: one rounding where the ISA has it, two where it has not. */
#if PPLCONV_VECTOR_BYTES == 64
INLINE value add_product(value c, value a, value b) {
    return (value)OF_TYPE(_mm512_fmadd)(a, b, c);
}
INLINE value multiply_subtract(value c, value a, value b) {
    return (value)OF_TYPE(_mm512_fnmadd)(a, b, c);
}
#elif PPLCONV_VECTOR_BYTES == 32
INLINE value add_product(value c, value a, value b) {
    return (value)OF_TYPE(_mm256_fmadd)(a, b, c);
}
INLINE value multiply_subtract(value c, value a, value b) {
    return (value)OF_TYPE(_mm256_fnmadd)(a, b, c);
}
#elif PPLCONV_NEON && WINOGRAD_F64
INLINE value add_product(value c, value a, value b) {
    return (value)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}
INLINE value multiply_subtract(value c, value a, value b) {
    return (value)vfmsq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}
#elif PPLCONV_NEON
INLINE value add_product(value c, value a, value b) {
    return (value)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
INLINE value multiply_subtract(value c, value a, value b) {
    return (value)vfmsq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
#else
INLINE value add_product(value c, value a, value b) { return c + a * b; }
INLINE value multiply_subtract(value c, value a, value b) { return c - a * b; }
#endif

#if WINOGRAD_PIXELS

typedef element pixel;

/* A set of lanes that loads and stores are restricted to. */
#if PPLCONV_VECTOR_BYTES == 64
typedef lane_mask lane_set;
INLINE lane_set lanes_up_to(int64_t n) { return first_lanes(n); }
INLINE vector load_set(const element *p, lane_set s) { return load_masked(p, s); }
#elif PPLCONV_VECTOR_BYTES == 32
typedef vector_bits lane_set;
INLINE lane_set lanes_up_to(int64_t n) { return lanes_between(0, n); }
INLINE vector load_set(const element *p, lane_set s) { return load_masked(p, s); }
#elif PPLCONV_NEON
typedef vector_bits lane_set;
INLINE lane_set lanes_up_to(int64_t n) { return lanes_between(0, n); }
/* Of n elements that exist. */
INLINE vector load_kept(const element *p, int64_t n, lane_set s) {
    return (vector)((vector_bits)load_lanes(p, n) & s);
}
#else
typedef int64_t lane_set;
INLINE lane_set lanes_up_to(int64_t n) { return n; }
/* If not all lanes are in use, most often none is. */
INLINE vector load_set(const element *p, lane_set s) {
    const vector zero = {0};
    if (s == LANES) return *(const unaligned_vector *)p;
    return s ? load_tail(p, s) : zero;
}
#endif

INLINE value outside_of(const struct pplconv_winograd_input_args *a) {
    (void)a;
    return (value){0};
}
INLINE value load_pixels(const void *p) { return *(const unaligned_vector *)p; }
/* The first n elements where `s` has any of them. */
INLINE value load_inside(const pixel *p, int64_t n, lane_set s, value outside) {
    (void)outside;
#if PPLCONV_NEON
    return load_kept(p, n, s);
#else
    (void)n;
    return load_set(p, s);
#endif
}

#endif
#endif

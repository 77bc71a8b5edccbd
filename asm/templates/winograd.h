/* What the Winograd templates share: F(MR x MR, NR x NR) as one-dimensional transforms of the
 * rows and columns of a patch, vectors across channels. The transforms themselves are
 * generated (asm/winograd_code.py); a template chooses the type `value` that they work on. */
#ifndef PPLCONV_WINOGRAD_H
#define PPLCONV_WINOGRAD_H

#if PPLCONV_NEON && !defined(__clang__)
/* A patch is more than the registers hold. Scheduling before registers are assigned would move all
 * loads to the front, and spill as many again. */
#pragma GCC optimize("no-schedule-insns")
#endif

#include "lanes.h"

#define UNROLL _Pragma("GCC unroll 16")
#define INLINE static inline __attribute__((always_inline))

enum { TILE = MR, TAPS = NR, PATCH = MR + NR - 1 };

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
/* Where not all of the lanes are in use, most often none are. */
INLINE vector load_set(const element *p, lane_set s) {
    const vector zero = {0};
    if (s == LANES) return *(const unaligned_vector *)p;
    return s ? load_tail(p, s) : zero;
}
#endif

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

/* Address i of a sequence that is visited in order. The step is hidden from the optimiser: it
 * would compute all addresses ahead of the loop and spill most of them. Three at a time are one
 * base, the stride and twice the stride, which an x86 operand can add. */
INLINE char *visit(char **base, int i, int64_t stride) {
    char *here = *base + i % 3 * stride;
    if (i % 3 == 2) {
        *base += 3 * stride;
        __asm__("" : "+r"(*base));
    }
    return here;
}
INLINE const char *visit_const(const char **base, int i, int64_t stride) {
    return visit((char **)base, i, stride);
}

#include WINOGRAD_TRANSFORMS

#endif

/* Common part of the depthwise kernels: the taps inside the image, and the epilogue. */
#ifndef PPLCONV_DEPTHWISE_H
#define PPLCONV_DEPTHWISE_H

#include "lanes.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 64")

/* Whether squares have loops for strides that differ, as text recognisers have them, and for 7x7.
 * Each takes a hundredth of a wheel's megabyte, so there are none for double, and none in portable
 * C. */
#define SELDOM_SQUARES (!PPLCONV_F64 && (PPLCONV_VECTOR_BYTES >= 32 || PPLCONV_NEON))

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t ceil_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* The smallest i >= 0 with start + i * step >= bound. */
static inline int64_t steps_to(int64_t start, int64_t step, int64_t bound) {
    return start >= bound ? 0 : (bound - start + step - 1) / step;
}

/* Taps begin .. end - 1 of `taps` read the image: `start` is where tap 0 reads. */
struct range {
    int64_t begin, end;
};
static inline struct range inside(int64_t start, int64_t dilation, int64_t taps, int64_t size) {
    const struct range r = {steps_to(start, dilation, 0),
                            least(steps_to(start, dilation, size), taps)};
    return r;
}

/* One element in every lane; 0 + x would lose the sign of a zero. */
INLINE vector broadcast(element x) {
    const vector zero = {0};
    return x - zero;
}

INLINE vector load(const element *p) { return *(const unaligned_vector *)p; }

/* Keeps a vector that several products share in a register: GCC would rather load it again. */
INLINE vector in_register(vector x) {
#if PPLCONV_VECTOR_BYTES == 64
    __asm__("" : "+v"(x));
#elif PPLCONV_VECTOR_BYTES == 32
    __asm__("" : "+x"(x));
#elif PPLCONV_NEON
    __asm__("" : "+w"(x));
#endif
    return x;
}

#if PPLCONV_VECTOR_BYTES == 64
/* A mask that many loads share, in a register of its own. */
INLINE lane_mask in_mask_register(lane_mask m) {
    __asm__("" : "+Yk"(m));
    return m;
}
#else
INLINE vector where(lane_mask m, vector yes, vector no) {
    return (vector)((m & (vector_bits)yes) | (~m & (vector_bits)no));
}
/* a * b + c in the lanes of the mask, c in the others. */
INLINE vector multiply_add_where(lane_mask m, vector a, vector b, vector c) {
    return where(m, multiply_add(a, b, c), c);
}
#endif

/* A number that the compiler must keep instead of computing it again where it is used. */
INLINE int64_t kept(int64_t i) {
    __asm__("" : "+r"(i));
    return i;
}

/* The epilogue. Without a bias, -0 is added, which changes no bit. */
struct epilogue {
    int residual, low_bound, high_bound;
    vector bias, low, high;
};

static inline struct epilogue epilogue_of(int64_t flags, const void *clip) {
    const vector zero = {0};
    const element *bounds = clip;
    struct epilogue e = {.residual = (flags & PPLCONV_RESIDUAL) != 0, .bias = -zero};
    if (flags & PPLCONV_CLIP) { /* an infinite bound bounds nothing */
        e.low_bound = !(bounds[0] == -(element)__builtin_inf());
        e.high_bound = !(bounds[1] == (element)__builtin_inf());
        e.low = broadcast(bounds[0]);
        e.high = broadcast(bounds[1]);
    }
    return e;
}

/* A test for all the sums of a block, instead of one for each. */
INLINE void clip_all(const struct epilogue *e, vector *x, const int count) {
    if (e->low_bound) {
        UNROLL for (int i = 0; i < count; i++)
            x[i] = at_least(x[i], e->low);
    }
    if (e->high_bound) {
        UNROLL for (int i = 0; i < count; i++)
            x[i] = at_most(x[i], e->high);
    }
}

#endif

/* Rounding to bfloat16 by Arm's BFCVTN. It gives the same bits as the arithmetic on integers of
 * bfloat.h, NaN included, but for subnormal numbers while flush-to-zero is on: these become zeros,
 * which the arithmetic keeps. So kernels use it where flush-to-zero is off, and for numbers that
 * cannot be subnormal, as arithmetic has flushed them itself. */
#ifndef PPLCONV_FLUSHED_H
#define PPLCONV_FLUSHED_H

/* Whether the level has the instruction. */
#if defined(__aarch64__) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define HAS_BFCVTN 1
#else
#define HAS_BFCVTN 0
#endif

#if HAS_BFCVTN
#include <stdint.h>
#include <string.h>

enum {
    FLUSH_TO_ZERO = 1 << 24,
    /* Numbers from which on it pays to switch flush-to-zero: a switch takes some tens of cycles. */
    WORTH_A_SWITCH = 256,
};

static inline uint64_t control_register(void) {
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control) : : "memory");
    return control;
}
static inline void set_control_register(uint64_t control) {
    __asm__ volatile("msr fpcr, %0" : : "r"(control) : "memory");
}

/* By its bits: comparisons may flush. */
static inline int is_subnormal(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= 0x7fffffff;
    return bits != 0 && bits < 0x00800000;
}
#endif

#endif

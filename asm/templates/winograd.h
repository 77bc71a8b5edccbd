/* Common part of the Winograd templates: F(MR x MR, NR x NR) as one-dimensional transforms of the
 * rows and columns of a patch, vectors across channels. The transforms themselves are
 * generated (asm/winograd_code.py) for the type `value`, which follows from that of the kernel. A
 * template that reads an image asks for WINOGRAD_PIXELS. */
#ifndef PPLCONV_WINOGRAD_H
#define PPLCONV_WINOGRAD_H

#if PPLCONV_NEON && !defined(__clang__)
/* A patch is more than the registers hold. Scheduling before registers are assigned would move all
 * loads to the front, and spill as many again. */
#pragma GCC optimize("no-schedule-insns")
#endif

#define UNROLL _Pragma("GCC unroll 16")
#define INLINE static inline __attribute__((always_inline))

#if PPLCONV_TYPE_U8 || PPLCONV_TYPE_S8 || PPLCONV_TYPE_S16
#include "winograd_words.h"
#elif PPLCONV_TYPE_S32
#include "winograd_sums.h"
#else
#include "winograd_floats.h"
#endif

enum { TILE = MR, TAPS = NR, PATCH = MR + NR - 1 };

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

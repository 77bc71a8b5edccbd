/* Common part of the C templates. A generated file defines PPLCONV_SYMBOL, PPLCONV_F16 or
 * PPLCONV_F64 for those types, PPLCONV_VECTOR_BYTES and PPLCONV_NEON, includes one template, and is
 * compiled with the flags of its ISA. */
#ifndef PPLCONV_TEMPLATE_H
#define PPLCONV_TEMPLATE_H

#include <float.h>
#include <string.h>

#include "pplconv_kernels.h"

#if PPLCONV_F64
typedef double element;
typedef int64_t element_bits;
#elif PPLCONV_F16
typedef _Float16 element;
typedef int16_t element_bits;
#elif PPLCONV_INTEGER_BITS == 64
typedef int64_t element;
typedef int64_t element_bits;
#elif PPLCONV_INTEGER_BITS == 32
typedef int32_t element;
typedef int32_t element_bits;
#else
typedef float element;
typedef int32_t element_bits;
#endif

enum { LANES = PPLCONV_VECTOR_BYTES / (int)sizeof(element) };

/* Loops over the lanes j of a vector that call functions: sixteen calls in a row are no faster than
 * one sixteen times, and most of the code. */
#define EACH_LANE _Pragma("GCC unroll 1") for (int64_t j = 0; j < LANES; j++)

typedef element vector __attribute__((vector_size(PPLCONV_VECTOR_BYTES), may_alias));
typedef element unaligned_vector
    __attribute__((vector_size(PPLCONV_VECTOR_BYTES), aligned(sizeof(element)), may_alias));
typedef element_bits vector_bits __attribute__((vector_size(PPLCONV_VECTOR_BYTES), may_alias));

/* Lane i of the result is lane index[i] of a followed by b; index is a constant. */
#if defined(__clang__)
static inline vector shuffle(vector a, vector b, vector_bits index) {
    vector out;
    for (int i = 0; i < LANES; i++) out[i] = index[i] < LANES ? a[index[i]] : b[index[i] - LANES];
    return out;
}
#else
#define shuffle(a, b, index) __builtin_shuffle(a, b, index)
#endif

/* Lane by lane, yes where the mask is all ones and no where it is all zeros. */
static inline vector select_lanes(vector_bits mask, vector yes, vector no) {
    return (vector)((mask & (vector_bits)yes) | (~mask & (vector_bits)no));
}

/* Rounding twice gives wrong results. On machines with half precision, 16 means the same as 0. */
_Static_assert(FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD == 16, "every operation rounds to its type");

#define PPLCONV_HIDDEN __attribute__((visibility("hidden")))

/* Advance a typed pointer by a stride in bytes. */
#define AT(type, pointer, bytes) ((type *)((char *)(pointer) + (bytes)))
#define AT_CONST(type, pointer, bytes) ((const type *)((const char *)(pointer) + (bytes)))

#endif

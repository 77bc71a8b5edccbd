/* Winograd's transform of integer sums: values are int32 modulo 2^32, so sums of products may have
 * overflowed. The functions of lanes.h move them as they move floats. */
#ifndef PPLCONV_WINOGRAD_SUMS_H
#define PPLCONV_WINOGRAD_SUMS_H

#include "lanes.h"

typedef uint32_t value __attribute__((vector_size(PPLCONV_VECTOR_BYTES), may_alias));
typedef int32_t signed_value __attribute__((vector_size(PPLCONV_VECTOR_BYTES), may_alias));

INLINE value splat(double x) { return (value){0} + (uint32_t)(int32_t)x; }

#endif

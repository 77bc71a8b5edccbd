/* The end of a kernel. */
#ifndef PPLCONV_CLEAN_H
#define PPLCONV_CLEAN_H

#if PPLCONV_VECTOR_BYTES >= 32
#include <immintrin.h>
#endif

/* For the end of kernels that may have used no vector of their own: only where they did, the
 * compiler cleans the upper halves of registers, which callers may have left dirty. */
static inline void clean_registers(void) {
#if PPLCONV_VECTOR_BYTES >= 32
    _mm256_zeroupper();
#endif
}

#endif

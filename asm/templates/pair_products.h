/* Sums of products of pairs of 16-bit integers, in lanes of 32 bits. */
#ifndef PPLCONV_PAIR_PRODUCTS_H
#define PPLCONV_PAIR_PRODUCTS_H

#include "filter_row.h"

typedef int32_t sums __attribute__((vector_size(PPLCONV_VECTOR_BYTES)));
/* A pair of weights, of 16 bits each. */
typedef int32_t weight_pair __attribute__((aligned(2), may_alias));

#if PPLCONV_VECTOR_BYTES == 64
INLINE sums add_products(sums total, words pairs, sums weights) {
#ifdef __AVX512VNNI__
    return (sums)_mm512_dpwssd_epi32((__m512i)total, (__m512i)pairs, (__m512i)weights);
#else
    return (sums)_mm512_add_epi32((__m512i)total,
                                  _mm512_madd_epi16((__m512i)pairs, (__m512i)weights));
#endif
}
#else
INLINE sums add_products(sums total, words pairs, sums weights) {
#ifdef __AVXVNNI__
    return (sums)_mm256_dpwssd_avx_epi32((__m256i)total, (__m256i)pairs, (__m256i)weights);
#else
    return (sums)_mm256_add_epi32((__m256i)total,
                                  _mm256_madd_epi16((__m256i)pairs, (__m256i)weights));
#endif
}
#endif

#endif

/* Results of sums of pairs of 16-bit integers, and how far their fractions are from half way. */
#ifndef PPLCONV_PAIR_RESULTS_H
#define PPLCONV_PAIR_RESULTS_H

#include "pair_products.h"

#define WHOLLY _Pragma("GCC unroll 8")

enum {
    LANES = PPLCONV_VECTOR_BYTES / 4,
    RESULTS = 2 * LANES,
    /* Vectors of a block: each has four vectors of sums, and shares weights with the others. */
    MANY = PPLCONV_VECTOR_BYTES == 64 ? 4 : 2,
};

typedef uint16_t unaligned_words
    __attribute__((vector_size(PPLCONV_VECTOR_BYTES), aligned(1), may_alias));
typedef int32_t unaligned_sums
    __attribute__((vector_size(PPLCONV_VECTOR_BYTES), aligned(1), may_alias));

#if PPLCONV_VECTOR_BYTES == 64
#define OF_VECTOR(name) _mm512_##name
typedef __m512i vector;
INLINE uint32_t at_most(vector x, vector most) { return _mm512_cmple_epu32_mask(x, most); }
INLINE vector both(vector a, vector b) { return _mm512_and_si512(a, b); }
#else
#define OF_VECTOR(name) _mm256_##name
typedef __m256i vector;
INLINE uint32_t at_most(vector x, vector most) {
    const vector is = _mm256_cmpeq_epi32(_mm256_min_epu32(x, most), x);
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(is));
}
INLINE vector both(vector a, vector b) { return _mm256_and_si256(a, b); }
#endif

INLINE vector splat(int64_t x) { return OF_VECTOR(set1_epi32)((int)x); }

/* Add sums of low digits, which are shifted. */
INLINE sums add_shifted(sums y, sums low, __m128i shift) {
    return (sums)OF_VECTOR(add_epi32)((vector)y, OF_VECTOR(sra_epi32)((vector)low, shift));
}

/* Make whole numbers of the sums of some vectors, and take their fractions; gives the least. */
INLINE vector take_fractions(sums (*y)[2], const int many, int64_t fraction, vector (*away)[2]) {
    const __m128i by = _mm_cvtsi64_si128(fraction);
    const vector mask = splat(((int64_t)1 << fraction) - 1);
    vector least = splat(-1);
    WHOLLY for (int v = 0; v < many; v++) WHOLLY for (int p = 0; p < 2; p++) {
        away[v][p] = both((vector)y[v][p], mask);
        least = OF_VECTOR(min_epu32)(least, away[v][p]);
        y[v][p] = (sums)OF_VECTOR(sra_epi32)((vector)y[v][p], by);
    }
    return least;
}

#endif

/* Sums along a row of 16-bit integers, in pairs of neighbours, times weights of two digits. */
#include "pair_results.h"

enum { DIGITS = 2 };

struct numbers {
    int64_t shift, together, flip;
};

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_pair_row_sums_args *a = argument;
    const struct numbers *n = a->parameters;
    const sums zero = {0};
    const __m128i shift = _mm_cvtsi64_si128(n->shift);
    const words flip = (words){0} + (uint16_t)n->flip;
    unaligned_sums *dst = a->dst;
    for (int64_t i = 0; i < a->count; i += MANY * RESULTS, dst += 2 * MANY) {
        const weight_pair *weights = a->weights;
        const char *from = (const char *)a->src + 2 * i;
        sums y[MANY][2], low[MANY][2];
        WHOLLY for (int v = 0; v < MANY; v++) y[v][0] = y[v][1] = zero;
        for (int64_t k = 0; k < a->pairs;) {
            const int64_t end = k + n->together < a->pairs ? k + n->together : a->pairs;
            /* Half of what is shifted out. */
            WHOLLY for (int v = 0; v < MANY; v++) low[v][0] = low[v][1] =
                (sums)splat((int64_t)1 << n->shift >> 1);
            for (; k < end; k++, from += 2 * a->step, weights += DIGITS) {
                const unaligned_words *one = (const void *)from;
                const unaligned_words *next = (const void *)(from + a->step);
                const sums w[DIGITS] = {zero + weights[0], zero + weights[1]};
                WHOLLY for (int v = 0; v < MANY; v++) {
                    const vector x = (vector)(one[v] ^ flip), other = (vector)(next[v] ^ flip);
                    const words pairs[2] = {(words)OF_VECTOR(unpacklo_epi16)(x, other),
                                            (words)OF_VECTOR(unpackhi_epi16)(x, other)};
                    WHOLLY for (int p = 0; p < 2; p++) {
                        y[v][p] = add_products(y[v][p], pairs[p], w[0]);
                        low[v][p] = add_products(low[v][p], pairs[p], w[1]);
                    }
                }
            }
            WHOLLY for (int v = 0; v < MANY; v++) WHOLLY for (int p = 0; p < 2; p++) y[v][p] =
                add_shifted(y[v][p], low[v][p], shift);
        }
        WHOLLY for (int v = 0; v < MANY; v++) WHOLLY for (int p = 0; p < 2; p++) dst[2 * v + p] =
            y[v][p];
    }
    clean_registers();
}

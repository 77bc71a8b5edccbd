/* Sums of columns of sums along rows: a sum is two integers of 16 bits, its high half and its low
 * one less 2^15, which are multiplied at once by a weight of two digits. */
#include "pair_results.h"

typedef const struct pplconv_pair_column_sums_args arguments;

struct numbers {
    int64_t fraction, start, near, shift, flip;
};

/* Make a block of results from result i on, of which `dst` takes all; gives how many are listed. */
INLINE int64_t make_block(arguments *a, const struct numbers *n, int64_t i, char *dst,
                          int64_t *open) {
    const weight_pair *weights = a->weights;
    const char *const *first = a->first, *const *second = a->second;
    const sums zero = {0}, low_sign = zero + 0x8000;
    const __m128i shift = _mm_cvtsi64_si128(n->shift);
    sums y[MANY][2], low[MANY][2];
    WHOLLY for (int v = 0; v < MANY; v++) {
        y[v][0] = y[v][1] = (sums)splat(n->start);
        /* Half of what is shifted out. */
        low[v][0] = low[v][1] = (sums)splat((int64_t)1 << n->shift >> 1);
    }
    for (int64_t r = 0; r < a->taps; r++, weights += 2) {
        const char *one = first[r] + 4 * i, *other = second[r] + 4 * i;
        /* One register for each address. */
        __asm__("" : "+r"(one), "+r"(other));
        const unaligned_sums *from = (const void *)one, *more = (const void *)other;
        const sums high = zero + weights[0], cross = zero + weights[1];
        WHOLLY for (int v = 0; v < MANY; v++) WHOLLY for (int p = 0; p < 2; p++) {
            /* Modulo 2^32. */
            const vector sum =
                OF_VECTOR(add_epi32)((vector)from[2 * v + p], (vector)more[2 * v + p]);
            const words x = (words)((sums)sum ^ low_sign);
            y[v][p] = add_products(y[v][p], x, high);
            low[v][p] = add_products(low[v][p], x, cross);
        }
    }
    WHOLLY for (int v = 0; v < MANY; v++) WHOLLY for (int p = 0; p < 2; p++) y[v][p] =
        add_shifted(y[v][p], low[v][p], shift);
    vector away[MANY][2];
    const vector least = take_fractions(y, MANY, n->fraction, away), twice = splat(2 * n->near);
    const words flip = (words){0} + (uint16_t)n->flip;
    WHOLLY for (int v = 0; v < MANY; v++)((unaligned_words *)dst)[v] =
        (words)OF_VECTOR(packs_epi32)((vector)y[v][0], (vector)y[v][1]) ^ flip;
    if (__builtin_expect(!at_most(least, twice), 1)) return 0;
    /* Vectors stay in registers up to here. */
    uint32_t near[MANY][2];
    WHOLLY for (int v = 0; v < MANY; v++) WHOLLY for (int p = 0; p < 2; p++) near[v][p] =
        at_most(away[v][p], twice);
    int64_t found = 0;
    for (int v = 0; v < MANY; v++) {
        for (int p = 0; p < 2; p++) {
            for (uint32_t bits = near[v][p]; bits; bits &= bits - 1) {
                /* Four lanes of one vector, then those of the other one. */
                const int64_t lane = __builtin_ctz(bits),
                              at = i + v * RESULTS + lane + lane / 4 * 4 + 4 * p;
                if (at < a->count) open[found++] = at;
            }
        }
    }
    return found;
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    arguments *a = argument;
    char last[MANY * PPLCONV_VECTOR_BYTES];
    int64_t *open = a->open, *count = a->open_count, found = 0;
    for (int64_t i = 0; i < a->count; i += MANY * RESULTS) {
        const int64_t left = a->count - i;
        char *to = (char *)a->dst + 2 * i;
        const int whole = left >= MANY * RESULTS;
        found += make_block(a, a->parameters, i, whole ? to : last, open + found);
        if (!whole) memcpy(to, last, (size_t)(2 * left));
    }
    *count = found;
    clean_registers();
}

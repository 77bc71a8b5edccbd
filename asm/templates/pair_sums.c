/* Rows of a filter of integers of at most 16 bits. Neighbours of a row or, of bytes, of a column
 * are pairs in lanes of 32 bits, which are multiplied by weights of two digits: sums of a lane for
 * its first pixel have one set of weights, those for its second pixel another one. Fractions of
 * sums tell how far results are from half way. The few that are near it are made again of longer
 * weights. */
#include "pair_results.h"

enum { DIGITS = 4 };

typedef const struct pplconv_pair_sums_args arguments;
typedef int16_t pixel __attribute__((aligned(1), may_alias));

struct numbers {
    int64_t fraction, shift, start, near, rows, fine_fraction, fine_start, fine_near, flip;
};

#if PPLCONV_VECTOR_BYTES == 64
INLINE vector both_pixels(vector first, vector second) {
    const vector order =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
    return _mm512_shuffle_epi8(_mm512_packs_epi32(first, second), order);
}
/* Lanes of vectors as bytes, saturated, which four vectors fill. */
INLINE vector as_bytes(vector a, vector b, vector c, vector d) {
    const vector order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const vector x = _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
    return _mm512_permutexvar_epi32(order, x);
}
#else
INLINE vector both_pixels(vector first, vector second) {
    const vector order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
    return _mm256_shuffle_epi8(_mm256_packs_epi32(first, second), order);
}
/* Lanes of vectors as bytes, saturated: two vectors fill a half, and so do the others. */
INLINE vector as_bytes(vector a, vector b, vector c, vector d) {
    const vector order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const vector x = _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    return _mm256_permutevar8x32_epi32(x, order);
}
#endif

/* Sum up a result again, of longer weights: its lane begins with number `at` of rows. Whether its
 * rounding stays open. */
static int sum_again(arguments *a, const struct numbers *n, int64_t at, int64_t second) {
    const int64_t *weights = (const int64_t *)a->fine + 2 * second;
    const char *const *rows = a->rows;
    int64_t sum = n->fine_start;
    for (int64_t r = 0; r < a->tap_rows; r++) {
        const char *from = rows[r] + 2 * at;
        for (int64_t k = 0; k < a->pairs; k++, weights += 4, from += a->step) {
            const pixel *x = (const pixel *)from;
            sum += (int16_t)(x[0] ^ n->flip) * weights[0];
            sum += (int16_t)(x[1] ^ n->flip) * weights[1];
            /* Vectors of few products would take much code. */
            __asm__("" : "+r"(sum));
        }
    }
    const int64_t mask = ((int64_t)1 << n->fine_fraction) - 1;
    if (((sum + n->fine_near) & mask) <= 2 * n->fine_near) return 1;
    sum >>= n->fine_fraction;
    const int64_t least = a->second ? 0 : INT16_MIN, most = a->second ? UINT8_MAX : INT16_MAX;
    sum = sum > most ? most : sum < least ? least : sum;
    if (a->second) ((uint8_t *)(second ? a->second : a->dst))[at / 2] = (uint8_t)sum;
    else ((pixel *)a->dst)[at + second] = (pixel)(sum ^ n->flip);
    return 0;
}

/* Settle results of a vector by bits of lanes; whether one of them stays open, which ends it. */
static __attribute__((noinline)) int settle(arguments *a, const struct numbers *n, int64_t i,
                                            const uint32_t *near) {
    for (int64_t second = 0; second < 2; second++) {
        for (uint32_t bits = near[second]; bits; bits &= bits - 1) {
            const int64_t at = i + 2 * __builtin_ctz(bits);
            if (at + second < a->count && sum_again(a, n, at, second)) return 1;
        }
    }
    return 0;
}

/* Make some vectors of results from result i on; gives how many of them are listed. */
INLINE int64_t make_block(arguments *a, const struct numbers *n, int64_t i, int64_t *open,
                          const int many) {
    const char *const *rows = a->rows;
    const weight_pair *weights = a->weights;
    const sums zero = {0};
    const __m128i shift = _mm_cvtsi64_si128(n->shift);
    const words flip = (words){0} + (uint16_t)n->flip;
    sums y[MANY][2], low[MANY][2];
    WHOLLY for (int v = 0; v < many; v++) y[v][0] = y[v][1] = (sums)splat(n->start);
    for (int64_t r = 0; r < a->tap_rows;) {
        const int64_t end = r + n->rows < a->tap_rows ? r + n->rows : a->tap_rows;
        /* Half of what is shifted out. */
        WHOLLY for (int v = 0; v < many; v++) low[v][0] = low[v][1] =
            (sums)splat((int64_t)1 << n->shift >> 1);
        for (; r < end; r++) {
            const char *from = rows[r] + 2 * i;
            for (int64_t k = 0; k < a->pairs; k++, from += a->step, weights += DIGITS) {
                const sums w[DIGITS] = {zero + weights[0], zero + weights[1], zero + weights[2],
                                        zero + weights[3]};
                WHOLLY for (int v = 0; v < many; v++) {
                    const words x = ((const unaligned_words *)from)[v] ^ flip;
                    y[v][0] = add_products(y[v][0], x, w[0]);
                    y[v][1] = add_products(y[v][1], x, w[1]);
                    low[v][0] = add_products(low[v][0], x, w[2]);
                    low[v][1] = add_products(low[v][1], x, w[3]);
                }
            }
        }
        WHOLLY for (int v = 0; v < many; v++) WHOLLY for (int p = 0; p < 2; p++) y[v][p] =
            add_shifted(y[v][p], low[v][p], shift);
    }
    vector away[MANY][2];
    const vector least = take_fractions(y, many, n->fraction, away);
    if (a->second) {
        const int64_t left = (a->count - i) / 2;
        WHOLLY for (int p = 0; p < 2; p++) {
            /* One vector or two are packed again instead of others. */
            const vector x = as_bytes((vector)y[0][p], (vector)y[1 % many][p],
                                      (vector)y[2 % many][p], (vector)y[3 % many][p]);
            char *to = (char *)(p ? a->second : a->dst) + i / 2;
            memcpy(to, &x, (size_t)(many == 1 && left < LANES ? left : many * LANES));
        }
    } else {
        WHOLLY for (int v = 0; v < many; v++) {
            const words x = (words)both_pixels((vector)y[v][0], (vector)y[v][1]) ^ flip;
            char *to = (char *)a->dst + 2 * i + v * PPLCONV_VECTOR_BYTES;
            if (many == 1 && i + RESULTS > a->count) memcpy(to, &x, (size_t)(2 * (a->count - i)));
            else *(unaligned_words *)to = x;
        }
    }
    const vector twice = splat(2 * n->near);
    if (__builtin_expect(!at_most(least, twice), 1)) return 0;
    int64_t found = 0;
    WHOLLY for (int v = 0; v < many; v++) {
        const uint32_t bits[2] = {at_most(away[v][0], twice), at_most(away[v][1], twice)};
        if ((bits[0] | bits[1]) && settle(a, n, i + v * RESULTS, bits))
            open[found++] = i + v * RESULTS;
    }
    return found;
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    arguments *a = argument;
    const struct numbers *n = a->parameters;
    int64_t *open = a->open, *count = a->open_count, found = 0, i = 0;
    for (; i + MANY * RESULTS <= a->count; i += MANY * RESULTS)
        found += make_block(a, n, i, open + found, MANY);
    for (; i < a->count; i += RESULTS) found += make_block(a, n, i, open + found, 1);
    *count = found;
    clean_registers();
}

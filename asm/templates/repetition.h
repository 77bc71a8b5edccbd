/* Windows of pixels that equal the windows a few sums before, as in images of one value and in fine
 * patterns: their results were computed there. */
#ifndef PPLCONV_REPETITION_H
#define PPLCONV_REPETITION_H

#include "lanes.h"

enum {
    /* After n misses in a row 2^n - 1 vectors are not compared; n grows up to this. */
    MOST_MISSES = 4,
};

/* Rows of pixels. A window reaches `beyond` its first number. In places `from` .. `to` - 1,
 * all rows equal the rows `by` places before. `skipped` counts the next vectors that are not
 * compared. */
struct repetition {
    const element *pixels;
    int64_t src_rs, rows, beyond, by;
    int64_t from, to;
    int misses, skipped;
};

static inline int is_any(vector_bits mask) {
#if PPLCONV_VECTOR_BYTES == 64
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif PPLCONV_VECTOR_BYTES == 32
    return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#endif
    uint64_t word[PPLCONV_VECTOR_BYTES / 8], some = 0;
    memcpy(word, &mask, sizeof word);
    for (int i = 0; i < PPLCONV_VECTOR_BYTES / 8; i++) some |= word[i];
    return some != 0;
}

/* Whether n numbers equal the numbers `by` places before. */
static inline int is_same(const element *numbers, int64_t n, int64_t by) {
    if (n == LANES) {
        const vector now = *(const unaligned_vector *)numbers;
        return !is_any(now != *(const unaligned_vector *)(numbers - by));
    }
    return !is_any(load_lanes(numbers, n) != load_lanes(numbers - by, n));
}

/* Whether n sums and their windows, from place i on, equal those r->by places before. The
 * comparison of rows continues where the last one ended, as windows side by side share most
 * pixels. */
static int has_repeated(struct repetition *r, const element *sums, int64_t i, int64_t n) {
    const int64_t end = i + n + r->beyond;
    if (!is_same(sums + i, n, r->by)) return 0;
    if (i < r->from || i >= r->to) r->from = r->to = i;
    while (r->to < end) {
        const int64_t more = end - r->to < LANES ? end - r->to : LANES;
        for (int64_t row = 0; row < r->rows; row++) {
            const element *from = AT_CONST(element, r->pixels, row * r->src_rs) + r->to;
            if (!is_same(from, more, r->by)) return 0;
        }
        r->to += more;
    }
    return 1;
}

/* The same, if that may pay: images without repetitions are to lose no time. */
static inline int is_repeated(struct repetition *r, const element *sums, int64_t i, int64_t n) {
    if (i < r->by || r->skipped-- > 0) return 0;
    r->skipped = 0;
    if (has_repeated(r, sums, i, n)) {
        r->misses = 0;
        return 1;
    }
    if (r->misses < MOST_MISSES) r->misses++;
    r->skipped = (1 << r->misses) - 1;
    return 0;
}

#endif

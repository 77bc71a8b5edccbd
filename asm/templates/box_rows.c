/* Sums of neighbours along a row, with equal taps, in registers. Sums of 2, 4, 8 and 16 elements
 * are made of two of half as many each; a sum of any number is one of some of these, as its binary
 * digits say. Each vector is loaded once, and nothing is subtracted. */
#include "lanes.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

/* Elements of the longest of such sums, and of how many of these a sum may be made. */
enum { LONGEST = 16, MOST = PPLCONV_BOX_TAPS / LONGEST };

typedef const struct pplconv_box_rows_args arguments;

/* Elements `by` lanes further on, of a vector and the next one. */
#define AHEAD(x, next, by) ((vector)_mm512_alignr_epi32((__m512i)(next), (__m512i)(x), by))

INLINE vector ahead(vector x, vector next, vector_bits by) {
    return (vector)_mm512_permutex2var_ps((__m512)x, (__m512i)by, (__m512)next);
}

/* Elements, and sums of them: those of the vector whose results come next are the first. */
struct sums {
    vector one[5], two[4], four[3], eight[2], sixteen;
};

/* Load a vector, weigh it, and make the sums that it completes. */
INLINE void take(struct sums *s, const element *from, vector weight) {
    UNROLL for (int k = 0; k < 4; k++)
        s->one[k] = s->one[k + 1];
    UNROLL for (int k = 0; k < 3; k++)
        s->two[k] = s->two[k + 1];
    UNROLL for (int k = 0; k < 2; k++)
        s->four[k] = s->four[k + 1];
    s->eight[0] = s->eight[1];
    s->one[4] = *(const unaligned_vector *)from * weight;
    s->two[3] = s->one[3] + AHEAD(s->one[3], s->one[4], 1);
    s->four[2] = s->two[2] + AHEAD(s->two[2], s->two[3], 2);
    s->eight[1] = s->four[1] + AHEAD(s->four[1], s->four[2], 4);
    s->sixteen = s->eight[0] + AHEAD(s->eight[0], s->eight[1], 8);
}

/* A row of results. */
INLINE void sum_row(arguments *a, const element *src, element *dst, vector weight,
                    const int stream) {
    const vector zero = {0};
    const vector_bits lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const int64_t many = a->taps / LONGEST, rest = a->taps % LONGEST;
    const vector_bits fours = lane + (int32_t)(rest & 8), twos = lane + (int32_t)(rest & 12);
    const vector_bits ones = lane + (int32_t)(rest & 14);
    struct sums s = {.sixteen = zero};
    vector kept[MOST + 1];
    UNROLL for (int k = 0; k < 4; k++, src += LANES)
        take(&s, src, weight);
    /* Sums of 16 elements that are before the rest of a sum. */
    for (int64_t k = 0; k < many; k++, src += LANES) {
        take(&s, src, weight);
        kept[k] = s.sixteen;
    }
    for (int64_t left = a->count; left > 0; left -= LANES, src += LANES, dst += LANES) {
        take(&s, src, weight);
        vector sum = rest & 8 ? s.eight[0] : zero;
        if (rest & 4) sum += ahead(s.four[0], s.four[1], fours);
        if (rest & 2) sum += ahead(s.two[0], s.two[1], twos);
        if (rest & 1) sum += ahead(s.one[0], s.one[1], ones);
        for (int64_t k = 0; k < many; k++) {
            sum += kept[k];
            kept[k] = kept[k + 1];
        }
        if (many) kept[many - 1] = s.sixteen;
        if (left < LANES) store_lanes(dst, sum, left);
        else if (stream) _mm512_stream_si512((void *)dst, (__m512i)sum);
        else *(unaligned_vector *)dst = sum;
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    arguments *a = argument;
    const vector zero = {0}, weight = *(const element *)a->weight - zero;
    const char *src = a->src;
    char *dst = a->dst;
    for (int64_t l = 0; l < a->lines; l++, src += a->src_rs, dst += a->dst_rs) {
        const int stream = a->stream && (uintptr_t)dst % PPLCONV_VECTOR_BYTES == 0;
        if (stream) sum_row(a, (const element *)src, (element *)dst, weight, 1);
        else sum_row(a, (const element *)src, (element *)dst, weight, 0);
    }
    if (a->stream) _mm_sfence();
    clean_registers();
}

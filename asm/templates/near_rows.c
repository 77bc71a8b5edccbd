/* Sums of neighbours along a row, with equal taps: sums of a few of them first, which stay in L1,
 * and then of these sums. Nothing is subtracted. */
#include "lanes.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

/* Vectors that are summed up together. */
enum { MANY = 4 };

/* What is the same for all rows: single elements of a sum, then sums of `many` neighbours, in
 * `near`. */
struct sums {
    int64_t left, whole, many, step;
    vector weight, one;
    element *near;
};

/* Add `taps` elements, `step` apart, to sums of some vectors. */
INLINE void add_up(vector *sums, const element *from, int64_t taps, int64_t step, vector weight,
                   const int count) {
    for (; taps > 0; taps--, from += step) {
        UNROLL for (int v = 0; v < count; v++)
            sums[v] = multiply_add(((const unaligned_vector *)from)[v], weight, sums[v]);
    }
}

/* Some vectors of results, from element i on. */
INLINE void sum_vectors(const struct sums *s, const element *src, int64_t i, vector *sums,
                        const int count) {
    const vector zero = {0};
    UNROLL for (int v = 0; v < count; v++)
        sums[v] = zero;
    add_up(sums, src + i, s->left, s->step, s->weight, count);
    add_up(sums, s->near + i + s->left * s->step, s->whole, s->many * s->step, s->one, count);
}

/* Sums of neighbours, of as many whole blocks of vectors as hold `count`. */
INLINE void sum_neighbours(const struct sums *s, const element *src, int64_t count) {
    const vector zero = {0};
    for (int64_t i = 0; i < count; i += MANY * LANES) {
        vector sums[MANY];
        UNROLL for (int v = 0; v < MANY; v++)
            sums[v] = zero;
        add_up(sums, src + i, s->many, s->step, s->weight, MANY);
        UNROLL for (int v = 0; v < MANY; v++)
            *(unaligned_vector *)(s->near + i + v * LANES) = sums[v];
    }
}

INLINE void sum_row(const struct sums *s, const element *src, element *dst, int64_t count,
                    int64_t stream) {
    const int64_t ahead = before_line(dst);
    vector sums[MANY];
    int64_t i = 0;
    if (count < ahead + MANY * LANES) stream = 0;
    if (stream) {
        for (; i < ahead; i += LANES) {
            sum_vectors(s, src, i, sums, 1);
            *(unaligned_vector *)(dst + i) = sums[0];
        }
        i = ahead;
    }
    for (; i + MANY * LANES <= count; i += MANY * LANES) {
        sum_vectors(s, src, i, sums, MANY);
        UNROLL for (int v = 0; v < MANY; v++)
            store_past(dst + i + v * LANES, sums[v], stream);
    }
    for (; i < count; i += LANES) {
        sum_vectors(s, src, i, sums, 1);
        if (i + LANES <= count) *(unaligned_vector *)(dst + i) = sums[0];
        else store_lanes(dst + i, sums[0], count - i);
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_near_rows_args a = *(const struct pplconv_near_rows_args *)argument;
    const vector zero = {0};
    const struct sums s = {
        .left = a.neighbours ? a.taps % a.neighbours : a.taps,
        .whole = a.neighbours ? a.taps / a.neighbours : 0,
        .many = a.neighbours,
        .step = a.step,
        .weight = *(const element *)a.weight - zero,
        .one = zero + 1,
        .near = a.near,
    };
    const char *src = a.src;
    char *dst = a.dst;
    for (int64_t l = 0; l < a.lines; l++, src += a.src_rs, dst += a.dst_rs) {
        if (s.many) sum_neighbours(&s, (const element *)src, a.count + (a.taps - s.many) * s.step);
        sum_row(&s, (const element *)src, (element *)dst, a.count, a.stream);
    }
    if (a.stream) _mm_sfence();
    clean_registers();
}

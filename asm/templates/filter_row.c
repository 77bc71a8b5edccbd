/* A row of a filter of bytes in integers of 16 bits: sums of products modulo 2^16, which are exact
 * where the last sum is. */
#include "filter_row.h"

/* Sums of `count` vectors. */
INLINE void add_up(const struct pplconv_filter_row_args *a, int64_t i, const int64_t kind,
                   const int weighed, words *sums, const int count) {
    const int64_t *places = a->places;
    const uint16_t *weights = a->weights;
    UNROLL for (int v = 0; v < count; v++)
        sums[v] = (words){0};
    for (int64_t t = 0; t < a->taps; t++) {
        const char *from = (const char *)a->src + places[t] + i * kind;
        const uint16_t weight = weighed ? weights[t] : 1;
        UNROLL for (int v = 0; v < count; v++) {
            const words x = load_words(from + v * WORDS * kind, kind);
            sums[v] += weighed ? x * weight : x;
        }
    }
}

/* Integers of sums, between the limits. */
INLINE words finished(words sum, const struct rounding *r, const int64_t mode) {
    if (mode == PPLCONV_SUMS_KEPT) return sum;
    if (mode == PPLCONV_SUMS_DIVIDED) {
        return smaller(shifted(upper_halves(sum + r->add, r->factor), r->shift), r->high);
    }
    const words more = sum + r->add + (shifted(sum, r->shift) & r->one);
    if (mode == PPLCONV_SUMS_UNSIGNED) return smaller(shifted(more, r->shift), r->high);
    return between((words)((signed_words)more >> (int16_t)r->shift), r->low, r->high);
}

#define FINISH(kind, bytes)                                                                        \
    UNROLL for (int v = 0; v < count; v++) {                                                       \
        store_words(to + v * WORDS * (bytes), finished(sums[v], r, PPLCONV_SUMS_##kind), bytes);   \
    }                                                                                              \
    break

/* Branches, which are foreseen, take less room than loops for each combination. */
INLINE void filter_vectors(const struct pplconv_filter_row_args *a, const struct rounding *r,
                           int64_t i, const int count) {
    words sums[TOGETHER];
    char *to = (char *)a->dst + i * a->size;
    if (a->kind == 1 && a->weights) add_up(a, i, 1, 1, sums, count);
    else if (a->kind == 1) add_up(a, i, 1, 0, sums, count);
    else if (a->weights) add_up(a, i, 2, 1, sums, count);
    else add_up(a, i, 2, 0, sums, count);
    switch (2 * a->mode + (a->size == 1)) {
    case 2 * PPLCONV_SUMS_SIGNED:
        FINISH(SIGNED, 2);
    case 2 * PPLCONV_SUMS_UNSIGNED:
        FINISH(UNSIGNED, 2);
    case 2 * PPLCONV_SUMS_DIVIDED:
        FINISH(DIVIDED, 2);
    case 2 * PPLCONV_SUMS_SIGNED + 1:
        FINISH(SIGNED, 1);
    case 2 * PPLCONV_SUMS_UNSIGNED + 1:
        FINISH(UNSIGNED, 1);
    case 2 * PPLCONV_SUMS_DIVIDED + 1:
        FINISH(DIVIDED, 1);
    default:
        FINISH(KEPT, 2);
    }
}

/* Less than a vector: sources can be read up to its end, results cannot be written. */
static __attribute__((noinline)) void filter_few(const struct pplconv_filter_row_args *a,
                                                 const struct rounding *r) {
    words sum, result;
    add_up(a, 0, a->kind, a->weights != NULL, &sum, 1);
    store_words(&result, finished(sum, r, a->mode), a->size);
    memcpy(a->dst, &result, (size_t)(a->size * a->count));
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_filter_row_args *a = argument;
    const struct rounding r = rounding_of(a);
    int64_t i = 0;
    if (a->count < WORDS) {
        filter_few(a, &r);
    } else {
        for (; i + TOGETHER * WORDS <= a->count; i += TOGETHER * WORDS) {
            filter_vectors(a, &r, i, TOGETHER);
        }
        for (; i < a->count; i += WORDS) {
            /* The last vector reaches back. */
            if (i + WORDS > a->count) i = a->count - WORDS;
            filter_vectors(a, &r, i, 1);
        }
    }
    clean_registers();
}

/* Filters of bytes that are a row times a column: sums of rows stay in registers until no result
 * needs them.
 *
 * A vector of bytes is one of 16-bit integers, each an even byte plus 256 times an odd one. Sums of
 * these integers modulo 2^16, and sums of the odd bytes alone, give the sums of the even bytes. */
#include "filter_row.h"

/* Sums that are kept are in registers. */
#define WHOLLY _Pragma("GCC unroll 8")

/* Bytes ahead of a column that CPUs would not foresee, as each row is on a page of its own. */
enum { MOST = 5, AHEAD = 256 };

typedef uint16_t unaligned_words
    __attribute__((vector_size(PPLCONV_VECTOR_BYTES), aligned(1), may_alias));

struct sums {
    words all, odd;
};

/* Add products, or terms where weights are ones. */
INLINE void add_up(struct sums *total, struct sums more, const uint16_t *weight) {
    total->all += weight ? more.all * *weight : more.all;
    total->odd += weight ? more.odd * *weight : more.odd;
}

/* Sums along a row. */
INLINE struct sums along(const char *from, int64_t step, const int side, const uint16_t *weights) {
    struct sums s = {{0}, {0}};
    WHOLLY for (int k = 0; k < side; k++) {
        const words x = *(const unaligned_words *)(from + k * step);
        add_up(&s, (struct sums){x, x >> 8}, weights ? weights + k : NULL);
    }
    return s;
}

/* Results of sums. A sum that is divided has its addend already. */
INLINE words finished(words sum, const struct rounding *r, const int divided) {
    if (!divided) sum += r->add + (shifted(sum, r->shift) & r->one);
    else sum = upper_halves(sum, r->factor);
    return r->shift ? shifted(sum, r->shift) : sum;
}

/* A column of vectors of results. */
INLINE void filter_column(const struct pplconv_filter_squares_args *a, const struct rounding *r,
                          int64_t i, const int side, const uint16_t *across) {
    const char *const *rows = a->src;
    const uint16_t *down = across ? across + side : NULL;
    const int divided = a->mode == PPLCONV_SUMS_DIVIDED;
    const words zero = {0}, add = divided ? r->add : zero;
    const struct sums none = {add + (add << 8), add};
    struct sums kept[MOST], total = none;
    WHOLLY for (int k = 0; k < side - 1; k++) {
        kept[k] = along(rows[k] + i, a->step, side, across);
        if (!down) add_up(&total, kept[k], NULL);
    }
    const int64_t ahead = i + AHEAD < a->count ? i + AHEAD : i;
    char *to = (char *)a->dst + i;
    for (int64_t y = 0; y < a->rows; y++, to += a->dst_rs) {
        __builtin_prefetch(rows[y + side - 1] + ahead);
        kept[side - 1] = along(rows[y + side - 1] + i, a->step, side, across);
        if (down) {
            total = none;
            WHOLLY for (int k = 0; k < side; k++) { add_up(&total, kept[k], down + k); }
        } else {
            add_up(&total, kept[side - 1], NULL);
        }
        const words odd = finished(total.odd, r, divided);
        const words even = finished(total.all - (total.odd << 8), r, divided);
        *(unaligned_words *)to = even | odd << 8;
        if (!down) {
            total.all -= kept[0].all;
            total.odd -= kept[0].odd;
        }
        WHOLLY for (int k = 0; k < side - 1; k++) { kept[k] = kept[k + 1]; }
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_filter_squares_args *a = argument;
    const words zero = {0};
    const struct rounding r = {
        .add = zero + (uint16_t)a->add,
        .factor = zero + (uint16_t)a->factor,
        .one = zero + (uint16_t)(a->shift > 0),
        .shift = a->shift,
    };
    for (int64_t i = 0; i < a->count; i += PPLCONV_VECTOR_BYTES) {
        /* The last vector reaches back. */
        if (i + PPLCONV_VECTOR_BYTES > a->count) i = a->count - PPLCONV_VECTOR_BYTES;
        if (a->side == 5) filter_column(a, &r, i, 5, NULL);
        else if (a->weights) filter_column(a, &r, i, 3, a->weights);
        else filter_column(a, &r, i, 3, NULL);
    }
    clean_registers();
}

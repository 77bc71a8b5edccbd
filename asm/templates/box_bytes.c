/* Means of squares of bytes: sums of columns stay in registers from row to row.
 *
 * A vector of bytes is one of 16-bit integers, each an even byte plus 256 times an odd one. Sums of
 * these integers modulo 2^16, and sums of the odd bytes alone, give the sums of the even bytes. */
#include "filter_row.h"

/* Sums that are kept are in registers. */
#define WHOLLY _Pragma("GCC unroll 8")

enum { MOST = 5 };

typedef uint16_t unaligned_words
    __attribute__((vector_size(PPLCONV_VECTOR_BYTES), aligned(1), may_alias));

struct sums {
    words all, odd;
};

/* Sums along a row. */
INLINE struct sums along(const char *from, int64_t step, const int side) {
    struct sums s = {{0}, {0}};
    WHOLLY for (int k = 0; k < side; k++) {
        const words x = *(const unaligned_words *)(from + k * step);
        s.all += x;
        s.odd += x >> 8;
    }
    return s;
}

INLINE void add_up(struct sums *total, struct sums more) {
    total->all += more.all;
    total->odd += more.odd;
}

/* A column of vectors of results. */
INLINE void average(const struct pplconv_box_bytes_args *a, int64_t i, const int side) {
    const char *const *rows = a->src;
    const words zero = {0}, add = zero + (uint16_t)a->add, factor = zero + (uint16_t)a->factor;
    struct sums kept[MOST], total = {add + (add << 8), add};
    WHOLLY for (int r = 0; r < side - 1; r++) {
        kept[r] = along(rows[r] + i, a->step, side);
        add_up(&total, kept[r]);
    }
    char *to = (char *)a->dst + i;
    for (int64_t y = 0; y < a->rows; y++, to += a->dst_rs) {
        kept[side - 1] = along(rows[y + side - 1] + i, a->step, side);
        add_up(&total, kept[side - 1]);
        words odd = upper_halves(total.odd, factor);
        words even = upper_halves(total.all - (total.odd << 8), factor);
        if (a->shift) {
            odd = shifted(odd, a->shift);
            even = shifted(even, a->shift);
        }
        *(unaligned_words *)to = even | odd << 8;
        total.all -= kept[0].all;
        total.odd -= kept[0].odd;
        WHOLLY for (int r = 0; r < side - 1; r++) kept[r] = kept[r + 1];
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_box_bytes_args *a = argument;
    for (int64_t i = 0; i < a->count; i += PPLCONV_VECTOR_BYTES) {
        /* The last vector reaches back. */
        if (i + PPLCONV_VECTOR_BYTES > a->count) i = a->count - PPLCONV_VECTOR_BYTES;
        if (a->side == 3) average(a, i, 3);
        else average(a, i, 5);
    }
    clean_registers();
}

/* Filters of bytes whose rows and columns are mirrored. Pixels with one weight are added up first,
 * exactly. Their sums, in pairs, are multiplied by weights of two digits: sums of products are
 * integers of 32 bits, whose upper halves are results, and whose lower halves say how far these are
 * from half way. */
#include "pair_products.h"

#define WHOLLY _Pragma("GCC unroll 8")

enum { MOST = 5, PAIRS = 3, HALF_BITS = 15, LOW_BITS = 15 };

typedef const struct pplconv_filter_mirrored_args arguments;
typedef uint8_t unaligned_bytes
    __attribute__((vector_size(PPLCONV_VECTOR_BYTES / 2), aligned(1), may_alias));

typedef uint16_t unaligned_words
    __attribute__((vector_size(PPLCONV_VECTOR_BYTES), aligned(1), may_alias));

#if PPLCONV_VECTOR_BYTES == 64
INLINE words lower_pairs(words a, words b) {
    return (words)_mm512_unpacklo_epi16((__m512i)a, (__m512i)b);
}
INLINE words upper_pairs(words a, words b) {
    return (words)_mm512_unpackhi_epi16((__m512i)a, (__m512i)b);
}
#else
INLINE words lower_pairs(words a, words b) {
    return (words)_mm256_unpacklo_epi16((__m256i)a, (__m256i)b);
}
INLINE words upper_pairs(words a, words b) {
    return (words)_mm256_unpackhi_epi16((__m256i)a, (__m256i)b);
}
#endif

/* Weights of both digits. */
struct weights {
    sums high[PAIRS], low[PAIRS];
};

/* The pixels of a row, and the sums of those at both sides of them: of a vector of pixels, or of
 * its even and of its odd pixels. */
struct row {
    words at[PAIRS][2];
};

INLINE words load_pixels(const char *from, const int part, const int parts) {
    if (parts == 1) return widened((bytes) * (const unaligned_bytes *)from);
    const words x = *(const unaligned_words *)from;
    return part ? x >> 8 : x & 0xff;
}

INLINE struct row read_row(const char *from, int64_t step, const int side, const int parts) {
    const int middle = side / 2;
    struct row r;
    from += middle * step;
    WHOLLY for (int part = 0; part < parts; part++) {
        r.at[0][part] = load_pixels(from, part, parts);
        WHOLLY for (int k = 1; k <= middle; k++) r.at[k][part] =
            load_pixels(from - k * step, part, parts) + load_pixels(from + k * step, part, parts);
    }
    return r;
}

/* Sums of products of pairs of sums of pixels: with low digits, which are shifted out, then with
 * high ones. */
INLINE void sum_products(const words (*pixels)[2], const struct weights *w, const int pairs,
                         sums *y) {
    const sums zero = {0};
    words lower[PAIRS], upper[PAIRS];
    /* Half of a unit, and of what is shifted out. */
    y[0] = y[1] = zero + ((1 << (HALF_BITS + LOW_BITS)) + (1 << (LOW_BITS - 1)));
    WHOLLY for (int k = 0; k < pairs; k++) {
        lower[k] = lower_pairs(pixels[k][0], pixels[k][1]);
        upper[k] = upper_pairs(pixels[k][0], pixels[k][1]);
        y[0] = add_products(y[0], lower[k], w->low[k]);
        y[1] = add_products(y[1], upper[k], w->low[k]);
    }
    y[0] >>= LOW_BITS;
    y[1] >>= LOW_BITS;
    WHOLLY for (int k = 0; k < pairs; k++) {
        y[0] = add_products(y[0], lower[k], w->high[k]);
        y[1] = add_products(y[1], upper[k], w->high[k]);
    }
}

/* Upper and lower halves of sums, in the order of pixels. */
INLINE words halves_of(const sums *y, words *fraction) {
#if PPLCONV_VECTOR_BYTES == 64
    const words at = {0,  2,  4,  6,  32, 34, 36, 38, 8,  10, 12, 14, 40, 42, 44, 46,
                      16, 18, 20, 22, 48, 50, 52, 54, 24, 26, 28, 30, 56, 58, 60, 62};
    const __m512i first = (__m512i)y[0], second = (__m512i)y[1];
    *fraction = (words)_mm512_permutex2var_epi16(first, (__m512i)at, second);
    return (words)_mm512_permutex2var_epi16(first, (__m512i)(at + 1), second);
#else
    /* The order of lower halves does not matter. */
    *fraction = (words)_mm256_blend_epi16((__m256i)y[0], (__m256i)(y[1] << 16), 0xaa);
    return (words)_mm256_packs_epi32((__m256i)(y[0] >> 16), (__m256i)(y[1] >> 16));
#endif
}

INLINE int has_zero(words x) {
#if PPLCONV_VECTOR_BYTES == 64
    return _mm512_testn_epi16_mask((__m512i)x, (__m512i)x) != 0;
#else
    return _mm256_movemask_epi8((__m256i)(x == 0)) != 0;
#endif
}

/* A column of vectors of results; gives how many are listed. */
INLINE int64_t filter_column(arguments *a, const struct weights *w, int64_t i, int64_t *open,
                             const int side, const int parts) {
    const char *const *rows = a->src;
    int64_t found = 0;
    struct row r[MOST];
    WHOLLY for (int k = 0; k < side - 1; k++) r[k] = read_row(rows[k] + i, a->step, side, parts);
    char *to = (char *)a->dst + i;
    for (int64_t y = 0; y < a->rows; y++, to += a->dst_rs) {
        words whole[2], fraction[2];
        r[side - 1] = read_row(rows[y + side - 1] + i, a->step, side, parts);
        WHOLLY for (int p = 0; p < parts; p++) {
#define BOTH(k, n) (r[k].at[n][p] + r[side - 1 - (k)].at[n][p])
            sums y2[2];
            if (side == 3) {
                const words pixels[][2] = {{r[1].at[0][p], r[1].at[1][p]},
                                           {BOTH(0, 0), BOTH(0, 1)}};
                sum_products(pixels, w, 2, y2);
            } else {
                const words pixels[][2] = {
                    {r[2].at[0][p], r[2].at[1][p] + BOTH(1, 0)},
                    {BOTH(1, 1), r[2].at[2][p] + BOTH(0, 0)},
                    {BOTH(0, 1) + BOTH(1, 2), BOTH(0, 2)},
                };
                sum_products(pixels, w, 3, y2);
            }
#undef BOTH
            whole[p] = halves_of(y2, fraction + p);
        }
        if (parts == 1) {
            *(unaligned_bytes *)to = (unaligned_bytes)narrowed(whole[0]);
        } else {
            *(unaligned_words *)to = whole[0] | whole[1] << 8;
            fraction[0] = smaller(fraction[0], fraction[1]);
        }
        if (__builtin_expect(has_zero(fraction[0]), 0)) open[found++] = y * a->count + i;
        WHOLLY for (int k = 0; k < side - 1; k++) r[k] = r[k + 1];
    }
    return found;
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    arguments *a = argument;
    const int pairs = a->side / 2 + 1;
    const weight_pair *digits = a->weights;
    const sums zero = {0};
    struct weights w;
    for (int k = 0; k < PAIRS; k++) {
        const int at = k < pairs ? k : 0;
        w.high[k] = zero + digits[at];
        w.low[k] = zero + digits[pairs + at];
    }
    int64_t *open = a->open, *count = a->open_count, found = 0;
    /* More registers than there are would hold even and odd pixels of five rows. */
    const int64_t many = a->side == 3 ? PPLCONV_VECTOR_BYTES : WORDS;
    for (int64_t i = 0; i < a->count; i += many) {
        /* The last vector reaches back. */
        if (i + many > a->count) i = a->count - many;
        if (a->side == 3) found += filter_column(a, &w, i, open + found, 3, 2);
        else found += filter_column(a, &w, i, open + found, 5, 1);
    }
    *count = found;
    clean_registers();
}

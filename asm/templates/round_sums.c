/* Sums to integers: inexact sums with a bound of their error, or exact sums divided. A sum is open
 * if its integer is not certain. Open sums are computed once more in double from the pixels, a
 * vector at a time; sums that are then still open are listed. Windows that repeat earlier ones, as
 * in images of one value and in patterns, are not computed again. */
#include "lanes.h"
#include "repetition.h"

enum {
    /* Vectors between two tests for open sums. */
    TOGETHER = 16,
    /* Up to SINGLY open sums of a vector are computed one by one, if windows are LARGE. */
    SINGLY = 2,
    LARGE = 32,
    WIDE = PPLCONV_VECTOR_BYTES / 8,
    PARTS = LANES / WIDE,
    NARROW_BYTES = WIDE * (int)sizeof(element),
    /* Partial sums of a single sum. */
    CHAINS = 4,
};

typedef int32_t words __attribute__((vector_size(4 * LANES)));
typedef int16_t halves __attribute__((vector_size(2 * LANES)));
typedef int8_t bytes __attribute__((vector_size(LANES)));
typedef double wide __attribute__((vector_size(8 * WIDE)));
typedef int64_t wide_bits __attribute__((vector_size(8 * WIDE)));
typedef element narrow __attribute__((vector_size(NARROW_BYTES)));
typedef element unaligned_narrow
    __attribute__((vector_size(NARROW_BYTES), aligned(sizeof(element)), may_alias));

/* Adding it rounds to an integer; the sums are small enough, as they were limited before. */
static const double WIDE_TO_INTEGER = 6755399441055744.0;
#if PPLCONV_F64
static const element TO_INTEGER = 6755399441055744.0;
#else
static const element TO_INTEGER = 12582912.0f;
#endif
/* Below ONCE, rounding moves a quotient by less than a quarter of one over the divisor: by a unit
 * of 2^-24 (2^-53) of it for the inverse, and by one or two for itself. It stays on its side of
 * half way, from which it is moved by as much. A part is left for smaller terms. */
static const element ONCE = (FUSES ? 7 : 5) * (PPLCONV_F64 ? 140737488355328.0 : 262144.0f);

/* Parameters in vectors. The least and the most are limits times the divisor. Quotients are moved
 * by less than half of what one is from half way at least: for sums whose sign is looked at, by a
 * number of that sign. */
struct limits {
    vector error, low, high;
    vector divisor, inverse, half, least, most, moved;
    vector_bits sign;
};

enum mode { ROUND, ROUND_EXACT, DIVIDE, DIVIDE_ONCE, DIVIDE_TO_EVEN, DIVIDE_AND_LIST };

/* Parameters for computing sums once more. Each digit has a modulus and taps, the lowest first. */
struct around {
    const double *taps, *digits;
    int64_t digit_count;
    int64_t src_rs, step, rows, columns;
    double error;
    int divided;
};

/* NaN stays NaN, which differs from itself. */
static inline vector limited(vector x, const struct limits *l) {
    return at_most(at_least(x, l->low), l->high) + TO_INTEGER - TO_INTEGER;
}

static inline wide wide_limited(wide x, wide low, wide high) {
    const wide_bits below = x<low, above = x> high;
    x = (wide)((below & (wide_bits)low) | (~below & (wide_bits)x));
    x = (wide)((above & (wide_bits)high) | (~above & (wide_bits)x));
    return x + WIDE_TO_INTEGER - WIDE_TO_INTEGER;
}

/* Round sums that have an error; return the open lanes, which now hold their least integer. */
static inline vector_bits round_vector(vector *sum, const struct limits *l) {
    const vector low = limited(*sum - l->error, l), high = limited(*sum + l->error, l);
    const vector_bits open = low != high;
    *sum = select_lanes(open, l->low, high);
    return open;
}

/* The same of exact sums: only NaN is open. */
static inline vector_bits round_exact(vector *sum, const struct limits *l) {
    const vector_bits open = *sum != *sum;
    *sum = select_lanes(open, l->low, limited(*sum, l));
    return open;
}

/* First quotients of sums: at most one off, and exact below ONCE. */
static inline vector first_quotient(vector x, vector moved, const struct limits *l) {
    return multiply_add(x, l->inverse, moved) + TO_INTEGER - TO_INTEGER;
}

/* Divide exact sums; return the lanes that are half way, which now hold the integer below. The
 * remainders are exact: a first quotient may be one off, the second one is small. */
static inline vector_bits divide_vector(vector *sum, const struct limits *l, const enum mode mode) {
    const vector x = at_most(at_least(*sum, l->least), l->most);
    const vector moved = (vector)((vector_bits)l->moved ^ ((vector_bits)x & l->sign));
    vector quotient = first_quotient(x, moved, l);
    if (mode == DIVIDE_ONCE) {
        *sum = quotient;
        return (vector_bits){0};
    }
    const vector rest = multiply_add(-quotient, l->divisor, x);
    quotient += multiply_add(rest, l->inverse, moved) + TO_INTEGER - TO_INTEGER;
    *sum = quotient;
    if (mode != DIVIDE_AND_LIST) return (vector_bits){0};
    return multiply_add(-quotient, l->divisor, x) == l->half;
}

/* Quotients in floating point: one that is half way between integers is exact, and no other is
 * rounded to it, as its distance from there is more than half a unit in the last place. */
static inline vector divide_to_even(vector sum, const struct limits *l) {
    const vector x = at_most(at_least(sum, l->least), l->most);
#if PPLCONV_VECTOR_BYTES == 16 && !PPLCONV_NEON
    const vector quotient = x / l->divisor;
#else
    /* The remainder is exact, as products are fused. */
    const vector near = x * l->inverse;
    const vector quotient = multiply_add(multiply_add(-near, l->divisor, x), l->inverse, near);
#endif
    return quotient + TO_INTEGER - TO_INTEGER;
}

/* Store n integers of `size` bytes each. */
static inline __attribute__((always_inline)) void store_whole(vector whole, char *dst, int64_t n,
                                                              int64_t size) {
    const words all = __builtin_convertvector(whole, words);
    if (size == 1) {
        const bytes few = __builtin_convertvector(all, bytes);
        memcpy(dst, &few, (size_t)n);
    } else if (size == 2) {
        const halves few = __builtin_convertvector(all, halves);
        memcpy(dst, &few, (size_t)n * 2);
    } else {
        memcpy(dst, &all, (size_t)n * 4);
    }
}

/* The sums of one window. */
static inline double single_sum(const struct around *w, const double *taps, const element *pixels) {
    double chains[CHAINS] = {0}, sum = 0;
    for (int64_t r = 0; r < w->rows; r++, taps += w->columns) {
        const element *row = AT_CONST(element, pixels, r * w->src_rs);
        for (int64_t c = 0; c < w->columns; c++) chains[c % CHAINS] += taps[c] * row[c * w->step];
    }
    for (int i = 0; i < CHAINS; i++) sum += chains[i];
    return sum;
}

/* The sums of n windows side by side, of LANES where n is as many. */
static inline __attribute__((always_inline)) void vector_sums(const struct around *w,
                                                              const double *taps,
                                                              const element *pixels, int64_t n,
                                                              wide sums[PARTS]) {
    wide even[PARTS] = {0}, odd[PARTS] = {0};
    for (int64_t r = 0; r < w->rows; r++, taps += w->columns) {
        const element *row = AT_CONST(element, pixels, r * w->src_rs);
        for (int64_t c = 0; c < w->columns; c++, row += w->step) {
            element tail[LANES];
            const element *from = row;
            if (n < LANES) {
                *(unaligned_vector *)tail = load_lanes(row, n);
                from = tail;
            }
            wide *to = c % 2 ? odd : even;
            for (int i = 0; i < PARTS; i++) {
                const narrow some = *(const unaligned_narrow *)(from + i * WIDE);
                to[i] += taps[c] * __builtin_convertvector(some, wide);
            }
        }
    }
    for (int i = 0; i < PARTS; i++) sums[i] = even[i] + odd[i];
}

/* The sums of the open ones among n windows; sums of other windows too, where that is faster. */
static inline void open_sums(const struct around *w, const double *taps, const element *pixels,
                             int64_t n, vector_bits open, int64_t count, wide sums[PARTS]) {
    if (count <= SINGLY) {
        double single[LANES] = {0};
        for (int lane = 0; lane < LANES; lane++) {
            if (open[lane]) single[lane] = single_sum(w, taps, pixels + lane);
        }
        memcpy(sums, single, sizeof single);
    } else if (n == LANES) {
        vector_sums(w, taps, pixels, LANES, sums);
    } else {
        vector_sums(w, taps, pixels, n, sums);
    }
}

/* Sides of the exact sums: numbers whose sign says whether a sum is above or below half way. Sums
 * and half ways are multiples of the last digit, and so close that the digits left out agree. */
static void exact_sides(const struct around *w, const element *pixels, int64_t n, vector_bits open,
                        int64_t count, wide sides[PARTS]) {
    const double *digit = w->digits;
    wide carried[PARTS] = {0};
    memset(sides, 0, sizeof carried);
    for (int64_t k = 0; k < w->digit_count; k++, digit += 1 + w->rows * w->columns) {
        const double modulus = digit[0], inverse = 1 / modulus;
        wide sums[PARTS];
        open_sums(w, digit + 1, pixels, n, open, count, sums);
        for (int i = 0; i < PARTS; i++) {
            sums[i] += carried[i];
            carried[i] = (sums[i] * inverse + WIDE_TO_INTEGER - WIDE_TO_INTEGER) * modulus;
            sums[i] -= carried[i];
            const wide_bits same = sums[i] == 0;
            sides[i] = (wide)((same & (wide_bits)sides[i]) | (~same & (wide_bits)sums[i]));
        }
    }
}

/* The neighbour that sums are nearer to, by their sides of half way; the even one at half way. */
static inline wide beside_half(wide below, wide_bits more, wide_bits less) {
    const wide zero = {0}, one = zero + 1;
    const wide even = below * 0.5 + WIDE_TO_INTEGER - WIDE_TO_INTEGER;
    const wide_bits odd = even * 2 != below;
    return below + (wide)((more | (~less & odd)) & (wide_bits)one);
}

/* Compute the open ones of n sums once more; return the lanes that are still open. `whole` are the
 * integers, or the integers below. */
static __attribute__((noinline)) vector_bits settle_vector(const struct around *w,
                                                           const struct limits *l,
                                                           const element *pixels, int64_t n,
                                                           vector_bits open, vector *whole) {
    wide sums[PARTS];
    int64_t count = LANES;
    if (w->rows * w->columns >= LARGE) {
        count = 0;
        for (int lane = 0; lane < LANES; lane++) count -= open[lane];
    }
    open_sums(w, w->taps, pixels, n, open, count, sums);
    const wide zero = {0}, one = zero + 1;
    element found[LANES], unsure[LANES];
    wide below[PARTS];
    for (int i = 0; i < PARTS; i++) {
        wide result;
        wide_bits doubt;
        if (w->divided) {
            /* Half way and something more, or less, or nothing at all. */
            narrow lower;
            memcpy(&lower, (const element *)whole + i * WIDE, sizeof lower);
            below[i] = __builtin_convertvector(lower, wide);
            const wide_bits more = sums[i] > w->error, less = sums[i] < -w->error;
            const wide_bits none = w->error == 0 ? sums[i] == zero : (wide_bits)zero;
            result = beside_half(below[i], more, less | ~none);
            doubt = ~(more | less | none);
        } else {
            const wide low = zero + (double)l->low[0], high = zero + (double)l->high[0];
            below[i] = wide_limited(sums[i] - w->error, low, high);
            doubt = below[i] != wide_limited(sums[i] + w->error, low, high);
            result = (wide)((~doubt & (wide_bits)below[i]) | (doubt & (wide_bits)low));
        }
        const narrow results = __builtin_convertvector(result, narrow);
        const narrow doubts = __builtin_convertvector((wide)(doubt & (wide_bits)one), narrow);
        memcpy(found + i * WIDE, &results, sizeof results);
        memcpy(unsure + i * WIDE, &doubts, sizeof doubts);
    }
    *whole = select_lanes(open, *(const unaligned_vector *)found, *whole);
    open &= *(const unaligned_vector *)unsure != 0;
    if (!w->digit_count || !is_any(open)) return open;
    exact_sides(w, pixels, n, open, count, sums);
    for (int i = 0; i < PARTS; i++) {
        const wide result = beside_half(below[i], sums[i] > 0, sums[i] < 0);
        const narrow results = __builtin_convertvector(result, narrow);
        memcpy(found + i * WIDE, &results, sizeof results);
    }
    *whole = select_lanes(open, *(const unaligned_vector *)found, *whole);
    return (vector_bits){0};
}

static inline __attribute__((always_inline)) vector_bits finish_vector(vector *sum,
                                                                       const struct limits *l,
                                                                       const enum mode mode) {
    if (mode == ROUND) return round_vector(sum, l);
    if (mode == ROUND_EXACT) return round_exact(sum, l);
    if (mode != DIVIDE_TO_EVEN) return divide_vector(sum, l, mode);
    *sum = divide_to_even(*sum, l);
    return (vector_bits){0};
}

/* Settle the open ones of n sums; sums that are computed again are stored again. Returns the number
 * of listed sums. One function for all sizes and modes: it is called seldom. */
static __attribute__((noinline)) int64_t look_closely(const struct pplconv_round_sums_args *a,
                                                      const struct limits *l,
                                                      const struct around *w, struct repetition *r,
                                                      int64_t i, int64_t n, int64_t *list,
                                                      int64_t found, const int64_t size,
                                                      const enum mode mode) {
    vector sum;
    /* A listed sum has no result yet, so it cannot be copied. */
    if (w->rows && (found == 0 || list[found - 1] < i - r->by) && is_repeated(r, a->src, i, n)) {
        char *dst = (char *)a->dst + i * size;
        memcpy(dst, dst - r->by * size, (size_t)(n * size));
        return found;
    }
    if (n == LANES) sum = *(const unaligned_vector *)((const element *)a->src + i);
    else sum = load_lanes((const element *)a->src + i, n);
    vector_bits open = finish_vector(&sum, l, mode);
    if (n < LANES) {
        /* Lanes from n on hold no sums, so they are not open. */
        element_bits number[LANES];
        for (int lane = 0; lane < LANES; lane++) number[lane] = -(lane < n);
        vector_bits sums;
        memcpy(&sums, number, sizeof sums);
        open &= sums;
    }
    if (!is_any(open)) return found;
    if (w->rows) {
        open = settle_vector(w, l, (const element *)a->pixels + i, n, open, &sum);
        store_whole(sum, (char *)a->dst + i * size, n, size);
        if (!is_any(open)) return found;
    }
    for (int lane = 0; lane < LANES; lane++) {
        if (open[lane]) list[found++] = i + lane;
    }
    return found;
}

static inline __attribute__((always_inline)) int64_t
round_sums(const struct pplconv_round_sums_args *a, const struct limits *l, const struct around *w,
           const int64_t size, const enum mode mode) {
    const element *src = a->src;
    char *dst = a->dst;
    int64_t *list = a->open, found = 0;
    struct repetition r = {
        .pixels = a->pixels,
        .src_rs = w->src_rs,
        .rows = w->rows,
        .beyond = (w->columns - 1) * w->step,
        .by = LANES * w->step,
    };
    for (int64_t begin = 0; begin < a->count; begin += TOGETHER * LANES) {
        const int64_t end =
            a->count - begin < TOGETHER * LANES ? a->count : begin + TOGETHER * LANES;
        vector_bits any = {0};
        int64_t i = begin;
        for (; i + LANES <= end; i += LANES) {
            vector sum = *(const unaligned_vector *)(src + i);
            any |= finish_vector(&sum, l, mode);
            store_whole(sum, dst + i * size, LANES, size);
        }
        if (i < end) {
            vector sum = load_lanes(src + i, end - i);
            any |= finish_vector(&sum, l, mode);
            store_whole(sum, dst + i * size, end - i, size);
        }
        if (mode == DIVIDE || mode == DIVIDE_ONCE || mode == DIVIDE_TO_EVEN) continue;
        if (!is_any(any)) continue;
        for (i = begin; i < end; i += LANES) {
            const int64_t n = end - i < LANES ? end - i : LANES;
            found = look_closely(a, l, w, &r, i, n, list, found, size, mode);
        }
    }
    return found;
}

static inline __attribute__((always_inline)) int64_t
sized_sums(const struct pplconv_round_sums_args *a, const struct limits *l, const struct around *w,
           const enum mode mode) {
    return a->size == 1   ? round_sums(a, l, w, 1, mode)
           : a->size == 2 ? round_sums(a, l, w, 2, mode)
                          : round_sums(a, l, w, 4, mode);
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_round_sums_args *a = argument;
    const element *p = a->parameters;
    const element inverse = p[3] == 0 ? 0 : 1 / p[3];
    const vector zero = {0}, signs = -zero;
    const vector_bits none = {0};
    const struct limits l = {
        .error = zero + p[0],
        .low = zero + p[1],
        .high = zero + p[2],
        .divisor = zero + p[3],
        .inverse = zero + inverse,
        .half = zero + p[3] / 2,
        .least = zero + p[1] * p[3],
        .most = zero + p[2] * p[3],
        .moved = zero + (p[4] > 0 ? inverse / 4 : -inverse / 4),
        .sign = p[4] == 0 ? none : (vector_bits)signs,
    };
    const double *again = a->again;
    const struct around w = {
        .taps = a->rows ? again + 2 : again,
        .digits = a->rows ? again + 2 + a->rows * a->columns : again,
        .digit_count = a->rows ? (int64_t)again[1] : 0,
        .src_rs = a->pixels_rs,
        .step = a->step,
        .rows = a->rows,
        .columns = a->columns,
        .error = a->rows ? again[0] : 0,
        .divided = p[3] != 0,
    };
    const element most = -p[1] > p[2] ? -p[1] : p[2];
    const int once = most * p[3] < ONCE;
    int64_t *count = a->open_count;
    *count = p[3] == 0
                 ? p[0] == 0 ? sized_sums(a, &l, &w, ROUND_EXACT) : sized_sums(a, &l, &w, ROUND)
             : p[4] == 0 ? sized_sums(a, &l, &w, DIVIDE_AND_LIST)
             : p[4] == 2 ? sized_sums(a, &l, &w, DIVIDE_TO_EVEN)
             : once      ? sized_sums(a, &l, &w, DIVIDE_ONCE)
                         : sized_sums(a, &l, &w, DIVIDE);
    clean_registers();
}

/* Sums to integers: with an error, or exact ones divided. What that leaves open is computed once
 * more in double from the pixels, a vector at a time; what that leaves open is listed. */
#include "lanes.h"

enum {
    /* Vectors between two looks at whether any of their sums is open. */
    TOGETHER = 16,
    /* Up to so many of a vector are computed one by one. */
    SINGLY = 2,
    WIDE = PPLCONV_VECTOR_BYTES / 8,
    PARTS = LANES / WIDE,
    NARROW_BYTES = WIDE * (int)sizeof(element),
    /* Sums that a single one is made of. */
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

/* Adding it leaves no place for fractions; the sums are small enough, as they were limited. */
static const double WIDE_TO_INTEGER = 6755399441055744.0;
#if PPLCONV_F64
static const element TO_INTEGER = 6755399441055744.0;
#else
static const element TO_INTEGER = 12582912.0f;
#endif

/* Parameters in vectors. The least and the most are where quotients are beyond the limits. */
struct limits {
    vector error, low, high;
    vector divisor, inverse, half, least, most;
    vector_bits up, down, listed;
};

/* How sums are computed once more. */
struct window {
    const double *taps;
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

/* Sums with an error; gives the lanes that it leaves open, which are the least integer now. */
static inline vector_bits round_vector(vector *sum, const struct limits *l) {
    const vector low = limited(*sum - l->error, l), high = limited(*sum + l->error, l);
    const vector_bits open = low != high;
    *sum = select_lanes(open, l->low, high);
    return open;
}

/* Exact sums by a divisor; gives the lanes that are half way, which are the integer below now. All
 * products are exact, so it is the same whether they are fused. */
static inline vector_bits divide_vector(vector *sum, const struct limits *l) {
    const vector zero = {0}, one = zero + 1, x = at_most(at_least(*sum, l->least), l->most);
    vector quotient = x * l->inverse + TO_INTEGER - TO_INTEGER;
    vector rest = x - quotient * l->divisor;
    /* It may be one off, and half way it is to be the one below. */
    const vector_bits small = rest <= -l->half, large = rest > l->half;
    quotient += select_lanes(large, one, zero) - select_lanes(small, one, zero);
    rest += select_lanes(small, l->divisor, zero);
    const vector_bits tie = rest == l->half;
    const vector_bits up = tie & (((x > zero) & l->up) | ((x < zero) & l->down));
    const vector_bits open = tie & l->listed & (quotient >= l->low) & (quotient < l->high);
    *sum = at_most(at_least(quotient + select_lanes(up, one, zero), l->low), l->high);
    return open;
}

/* n integers of which each is `size` bytes long. */
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
static inline double single_sum(const struct window *w, const element *pixels) {
    double chains[CHAINS] = {0}, sum = 0;
    const double *taps = w->taps;
    for (int64_t r = 0; r < w->rows; r++, taps += w->columns) {
        const element *row = AT_CONST(element, pixels, r * w->src_rs);
        for (int64_t c = 0; c < w->columns; c++) chains[c % CHAINS] += taps[c] * row[c * w->step];
    }
    for (int i = 0; i < CHAINS; i++) sum += chains[i];
    return sum;
}

/* The sums of n windows side by side, of LANES where n is as many. */
static inline void vector_sums(const struct window *w, const element *pixels, int64_t n,
                               wide sums[PARTS]) {
    wide even[PARTS] = {0}, odd[PARTS] = {0};
    const double *taps = w->taps;
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

/* Computes lanes of n sums that are open once more; gives those that still are. `whole` are the
 * integers, or those below. */
static __attribute__((noinline)) vector_bits settle_vector(const struct window *w,
                                                           const struct limits *l,
                                                           const element *pixels, int64_t n,
                                                           vector_bits open, vector *whole) {
    wide sums[PARTS] = {0};
    int64_t count = 0;
    for (int lane = 0; lane < LANES; lane++) count -= open[lane];
    if (count <= SINGLY) {
        for (int lane = 0; lane < LANES; lane++) {
            if (open[lane]) sums[lane / WIDE][lane % WIDE] = single_sum(w, pixels + lane);
        }
    } else {
        vector_sums(w, pixels, n, sums);
    }
    element found[LANES], unsure[LANES];
    for (int i = 0; i < PARTS; i++) {
        wide result, doubt;
        if (w->divided) {
            /* Half way and something more, or less, or nothing at all. */
            const wide zero = {0}, one = zero + 1;
            narrow below;
            memcpy(&below, (const element *)whole + i * WIDE, sizeof below);
            const wide whole_below = __builtin_convertvector(below, wide);
            const wide even = whole_below * 0.5 + WIDE_TO_INTEGER - WIDE_TO_INTEGER;
            const wide_bits odd = even * 2 != whole_below;
            const wide_bits more = sums[i] > w->error, less = sums[i] < -w->error;
            const wide_bits none = w->error == 0 ? sums[i] == zero : (wide_bits)zero;
            result = whole_below + (wide)((more | (none & odd)) & (wide_bits)one);
            doubt = (wide)(~(more | less | none) & (wide_bits)one);
        } else {
            const wide zero = {0}, low = zero + (double)l->low[0], high = zero + (double)l->high[0];
            result = wide_limited(sums[i] - w->error, low, high);
            const wide_bits differ = result != wide_limited(sums[i] + w->error, low, high);
            doubt = (wide)(differ & (wide_bits)(zero + 1));
            result = (wide)((~differ & (wide_bits)result) | (differ & (wide_bits)low));
        }
        const narrow results = __builtin_convertvector(result, narrow);
        const narrow doubts = __builtin_convertvector(doubt, narrow);
        memcpy(found + i * WIDE, &results, sizeof results);
        memcpy(unsure + i * WIDE, &doubts, sizeof doubts);
    }
    *whole = select_lanes(open, *(const unaligned_vector *)found, *whole);
    return open & (*(const unaligned_vector *)unsure != 0);
}

static inline __attribute__((always_inline)) int64_t
round_sums(const struct pplconv_round_sums_args *a, const struct limits *l, const struct window *w,
           const int64_t size, const int divided) {
    const element *src = a->src, *pixels = a->pixels;
    char *dst = a->dst;
    int64_t *list = a->open, found = 0;
    for (int64_t begin = 0; begin < a->count; begin += TOGETHER * LANES) {
        const int64_t left = a->count - begin;
        vector_bits open[TOGETHER], any = {0};
        vector whole[TOGETHER];
        int64_t vectors = 0;
        for (; vectors < TOGETHER && vectors * LANES < left; vectors++) {
            const int64_t i = begin + vectors * LANES, n = left - vectors * LANES;
            vector sum;
            if (n >= LANES) sum = *(const unaligned_vector *)(src + i);
            else sum = load_lanes(src + i, n);
            open[vectors] = divided ? divide_vector(&sum, l) : round_vector(&sum, l);
            any |= open[vectors];
            whole[vectors] = sum;
            store_whole(sum, dst + i * size, n < LANES ? n : LANES, size);
        }
        element_bits some = 0;
        for (int lane = 0; lane < LANES; lane++) some |= any[lane];
        if (!some) continue;
        for (int64_t v = 0; v < vectors; v++) {
            const int64_t i = begin + v * LANES, n = left - v * LANES;
            some = 0;
            for (int lane = 0; lane < LANES; lane++) {
                /* Lanes that are no sums are none that are open. */
                if (lane >= n) open[v][lane] = 0;
                some |= open[v][lane];
            }
            if (!some) continue;
            if (w->rows) {
                open[v] = settle_vector(w, l, pixels + i, n, open[v], &whole[v]);
                store_whole(whole[v], dst + i * size, n < LANES ? n : LANES, size);
            }
            for (int lane = 0; lane < LANES; lane++) {
                if (open[v][lane]) list[found++] = i + lane;
            }
        }
    }
    return found;
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_round_sums_args *a = argument;
    const element *p = a->parameters;
    const vector zero = {0}, divisor = zero + p[3];
    const vector_bits none = {0};
    const struct limits l = {
        .error = zero + p[0],
        .low = zero + p[1],
        .high = zero + p[2],
        .divisor = divisor,
        .inverse = zero + (p[3] == 0 ? 0 : 1 / p[3]),
        .half = divisor * (element)0.5,
        .least = (zero + p[1] - 1) * divisor,
        .most = (zero + p[2] + 1) * divisor,
        .up = none - (p[4] > 0),
        .down = none - (p[4] < 0),
        .listed = none - (p[4] == 0),
    };
    const double *again = a->again;
    const struct window w = {
        .taps = a->rows ? again + 1 : again,
        .src_rs = a->pixels_rs,
        .step = a->step,
        .rows = a->rows,
        .columns = a->columns,
        .error = a->rows ? again[0] : 0,
        .divided = p[3] != 0,
    };
    int64_t *count = a->open_count;
    if (p[3] == 0) {
        *count = a->size == 1   ? round_sums(a, &l, &w, 1, 0)
                 : a->size == 2 ? round_sums(a, &l, &w, 2, 0)
                                : round_sums(a, &l, &w, 4, 0);
    } else {
        *count = a->size == 1   ? round_sums(a, &l, &w, 1, 1)
                 : a->size == 2 ? round_sums(a, &l, &w, 2, 1)
                                : round_sums(a, &l, &w, 4, 1);
    }
    clean_registers();
}

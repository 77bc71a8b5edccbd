/* Rows of a filter in floating point. Four rows of results are made together: each vector of pixels
 * is loaded once for all rows of taps that see it, and each tap once for several vectors. The sums
 * stay in registers.
 *
 * Kernels of 3x3 and 5x5 go down a strip of columns instead: what a row of pixels gives to all
 * results that see it is added to sums in registers, so no row is summed up along itself twice. */
#include "lanes.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")
/* Whether there are registers for sums of four rows. In double precision, which images rarely have,
 * the code would be large for what it saves. */
#define SHARES ((PPLCONV_VECTOR_BYTES >= 32 || PPLCONV_NEON) && !PPLCONV_F64)

/* Vectors that are summed up together: of one row alone (MANY), and of each of four (WIDE); how
 * many are left to be summed up one by one; and rows of taps from which on rows share what they
 * load. */
enum { LINES = 4, MANY = 8, FEW = 2, LEAST_ROWS = 3, WIDE = PPLCONV_VECTOR_BYTES == 32 ? 2 : 4 };

/* Vectors of a strip; the most rows and columns of its taps, and weights that registers hold. */
enum { STRIP = PPLCONV_VECTOR_BYTES == 64 ? 4 : 2, MOST_SIDE = 5, KEPT = 10, LEAST_STRIP = 16 };
/* With AVX2 `filter_strips` makes them, of whole rows; the portable kernels are never large. */
#define STRIPS (!PPLCONV_F64 && (PPLCONV_VECTOR_BYTES == 64 || PPLCONV_NEON))

typedef const struct pplconv_filter_floats_args arguments;

/* Some vectors of a row of results, from element i on; `down` tells that taps are a column. */
INLINE void filter_row(arguments *a, int64_t i, const int count, const int down,
                       const int64_t stream) {
    const vector zero = {0};
    const int64_t *places = a->places;
    const element *weights = a->weights;
    const int64_t across = down ? 1 : a->across;
    vector sums[MANY];
    UNROLL for (int v = 0; v < count; v++)
        sums[v] = zero;
    for (int64_t r = 0; r < a->tap_rows; r++) {
        const element *src = ((const element *const *)a->rows)[r] + i;
        for (int64_t t = 0; t < across; t++) {
            const unaligned_vector *from = AT_CONST(unaligned_vector, src, places[t]);
            const vector weight = *weights++ - zero;
            UNROLL for (int v = 0; v < count; v++)
                sums[v] = multiply_add(weight, from[v], sums[v]);
        }
    }
    element *dst = (element *)a->dst + i;
    UNROLL for (int v = 0; v < count; v++)
        store_past(dst + v * LANES, sums[v], stream);
}

#if SHARES
/* Add what a row of pixels gives to the rows of results from low to high; it is row `row` of those
 * that the first row of results sees. */
INLINE void add_row(arguments *a, int64_t row, int64_t i, vector (*sums)[WIDE], const int low,
                    const int high, const int count) {
    const int64_t *places = a->places;
    const element *src = ((const element *const *)a->rows)[row] + i;
    const element *weights = (const element *)a->weights + (row - low) * a->across;
    const vector zero = {0};
    for (int64_t t = 0; t < a->across; t++, weights++) {
        const unaligned_vector *from = AT_CONST(unaligned_vector, src, places[t]);
        vector x[WIDE];
        UNROLL for (int v = 0; v < count; v++)
            x[v] = from[v];
        UNROLL for (int l = low; l <= high; l++) {
            const vector weight = weights[-(l - low) * a->across] - zero;
            UNROLL for (int v = 0; v < count; v++)
                sums[l][v] = multiply_add(weight, x[v], sums[l][v]);
        }
    }
}

/* Some vectors of four rows of results, from element i on. */
INLINE void filter_four(arguments *a, int64_t i, const int count, const int64_t stream) {
    const vector zero = {0};
    vector sums[LINES][WIDE];
    UNROLL for (int l = 0; l < LINES; l++) {
        UNROLL for (int v = 0; v < count; v++)
            sums[l][v] = zero;
    }
#define CASE(low, high)                                                                            \
    case (low) * LINES + (high):                                                                   \
        add_row(a, r, i, sums, low, high, count);                                                  \
        break
    for (int64_t r = 0; r < a->tap_rows + LINES - 1; r++) {
        const int64_t low = r < a->tap_rows ? 0 : r - a->tap_rows + 1;
        const int64_t high = r < LINES ? r : LINES - 1;
        switch (low * LINES + high) {
            CASE(0, 0);
            CASE(0, 1);
            CASE(0, 2);
            CASE(0, 3);
            CASE(1, 3);
            CASE(2, 3);
            CASE(3, 3);
        default:
            __builtin_unreachable();
        }
    }
#undef CASE
    UNROLL for (int l = 0; l < LINES; l++) {
        element *dst = AT(element, a->dst, l * a->dst_rs) + i;
        UNROLL for (int v = 0; v < count; v++)
            store_past(dst + v * LANES, sums[l][v], stream);
    }
}
#endif

/* Some vectors of all rows of results, from element i on, of a square kernel or of the product of a
 * row and a column. `parts[j]` are the sums of results that see the next row of pixels by row j of
 * their taps. */
INLINE void filter_strip(arguments *a, int64_t i, const int side, const int product,
                         const int count, const int64_t stream) {
    const vector zero = {0};
    const element *weights = a->weights, *down = a->down;
    int64_t places[MOST_SIDE];
    vector parts[MOST_SIDE][STRIP], kept[KEPT];
    const int keeps = product || side * side < KEPT;
    UNROLL for (int j = 0; j < side; j++) {
        places[j] = ((const int64_t *)a->places)[j];
        UNROLL for (int v = 0; v < count; v++)
            parts[j][v] = zero;
        if (product) {
            kept[j] = weights[j] - zero;
            kept[side + j] = down[j] - zero;
        } else if (keeps) {
            UNROLL for (int t = 0; t < side; t++)
                kept[j * side + t] = weights[j * side + t] - zero;
        }
    }
    element *dst = (element *)a->dst + i;
    for (int64_t r = 0; r < a->lines + side - 1; r++) {
        const element *src = ((const element *const *)a->rows)[r] + i;
        vector sums[STRIP], x[STRIP];
        UNROLL for (int v = 0; v < count; v++)
            sums[v] = zero;
        UNROLL for (int t = 0; t < side; t++) {
            const unaligned_vector *from = AT_CONST(unaligned_vector, src, places[t]);
            UNROLL for (int v = 0; v < count; v++) {
                x[v] = from[v];
                if (product) sums[v] = multiply_add(kept[t], x[v], sums[v]);
            }
            UNROLL for (int j = 0; j < side && !product; j++) {
                const int at = j * side + t;
                vector weight = weights[at] - zero;
                if (keeps) weight = kept[at];
                UNROLL for (int v = 0; v < count; v++)
                    parts[j][v] = multiply_add(weight, x[v], parts[j][v]);
            }
        }
        UNROLL for (int v = 0; v < count; v++) {
            UNROLL for (int j = 0; j < side && product; j++)
                parts[j][v] = multiply_add(kept[side + j], sums[v], parts[j][v]);
            if (r >= side - 1) store_past(dst + v * LANES, parts[side - 1][v], stream);
            UNROLL for (int j = side - 1; j > 0; j--)
                parts[j][v] = parts[j - 1][v];
            parts[0][v] = zero;
        }
        if (r >= side - 1) dst = AT(element, dst, a->dst_rs);
    }
}

/* A vector or less of one row of results, from element i on. */
static __attribute__((noinline)) void filter_lanes(arguments *a, int64_t i) {
    const vector zero = {0};
    const element *weights = a->weights, *down = a->down;
    const int64_t count = a->count - i < LANES ? a->count - i : LANES;
    vector sum = zero;
    for (int64_t r = 0; r < a->tap_rows; r++) {
        vector row = down ? zero : sum;
        for (int64_t t = 0; t < a->across; t++) {
            const element *from = ((const element *const *)a->rows)[r] + i;
            from = AT_CONST(element, from, ((const int64_t *)a->places)[t]);
            row = multiply_add(weights[t] - zero, load_lanes(from, count), row);
        }
        sum = down ? multiply_add(down[r] - zero, row, sum) : row;
        if (!down) weights += a->across;
    }
    store_lanes((element *)a->dst + i, sum, count);
}

/* Parts of rows of results: of one row, of four, or of all. */
#define PART(name, ...)                                                                            \
    static __attribute__((noinline)) void name(arguments *a, int64_t i, const int64_t stream) {    \
        __VA_ARGS__;                                                                               \
    }
typedef void part(arguments *a, int64_t i, const int64_t stream);

PART(one_vector, filter_row(a, i, 1, 0, 0); (void)stream)
PART(some_vectors, filter_row(a, i, MANY, 0, stream))
PART(some_columns, filter_row(a, i, MANY, 1, stream))
#if SHARES
PART(one_of_four, filter_four(a, i, 1, 0); (void)stream)
PART(some_of_four, filter_four(a, i, WIDE, stream))
#endif
#if STRIPS
#define STRIP_OF(side, kind, product)                                                              \
    PART(one_##kind##_##side, filter_strip(a, i, side, product, 1, 0); (void)stream)               \
    PART(some_##kind##_##side, filter_strip(a, i, side, product, STRIP, stream))
STRIP_OF(3, square, 0)
STRIP_OF(5, square, 0)
STRIP_OF(3, product, 1)
STRIP_OF(5, product, 1)
#endif

/* One row of results, or more: `some` makes `many` vectors of each. */
static void filter_lines(arguments *a, part *one, part *some, const int64_t many,
                         const int64_t lines) {
    int64_t i = 0, stream = 0;
    const int64_t ahead = before_line(a->dst);
    if (a->stream && a->count >= ahead + LANES && (lines == 1 || a->dst_rs % CACHE_LINE == 0)) {
        stream = 1;
        for (; i < ahead; i += LANES) one(a, i, 0);
        i = ahead;
    }
    /* If much is left, the last of these blocks reaches back. */
    const int64_t rest = (a->count - i) % (many * LANES), few = a->across == 1 ? 0 : FEW * LANES;
    const int64_t end = rest > few && a->count >= many * LANES ? a->count : a->count - rest;
    for (; i < end; i += many * LANES) {
        const int64_t over = i + many * LANES - end;
        some(a, over > 0 ? i - over : i, over > 0 ? 0 : stream);
    }
    for (; i < a->count; i += LANES) {
        /* So does the last vector. */
        if (i + LANES > a->count) i = a->count - LANES;
        one(a, i, 0);
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    struct pplconv_filter_floats_args a = *(const struct pplconv_filter_floats_args *)argument;
    while (a.lines > 0) {
        int64_t made = 1;
#if STRIPS
        const int64_t side = a.across == a.tap_rows ? a.across : 0;
        /* Of 5x5 drawn taps, few rows of results lose more at both ends than they share. */
        if (a.count >= LANES && (side == 3 || (side == 5 && (a.down || a.lines >= LEAST_STRIP)))) {
            made = a.lines;
            if (side == 3 && a.down) filter_lines(&a, one_product_3, some_product_3, STRIP, made);
            else if (side == 3) filter_lines(&a, one_square_3, some_square_3, STRIP, made);
            else if (a.down) filter_lines(&a, one_product_5, some_product_5, STRIP, made);
            else filter_lines(&a, one_square_5, some_square_5, STRIP, made);
        } else
#endif
            if (a.count < LANES || a.down) {
            for (int64_t i = 0; i < a.count; i += LANES) filter_lanes(&a, i);
        } else if (a.across == 1) {
            filter_lines(&a, one_vector, some_columns, MANY, made);
#if SHARES
        } else if (a.lines >= LINES && a.tap_rows >= LEAST_ROWS) {
            made = LINES;
            filter_lines(&a, one_of_four, some_of_four, WIDE, made);
#endif
        } else {
            filter_lines(&a, one_vector, some_vectors, MANY, made);
        }
        a.lines -= made;
        a.rows = (const void *const *)a.rows + made;
        a.dst = AT(void, a.dst, made *a.dst_rs);
    }
#if PPLCONV_VECTOR_BYTES >= 32
    if (a.stream) _mm_sfence();
#endif
    clean_registers();
}

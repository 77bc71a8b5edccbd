/* Rows of a filter in floating point. Four rows of results are made together: each vector of pixels
 * is loaded once for all rows of taps that see it, and each tap once for several vectors. The sums
 * stay in registers. */
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

typedef const struct pplconv_filter_floats_args arguments;

/* Add what a row of pixels gives to the rows of results from low to high; it is row `row` of those
 * that the first row of results sees. */
INLINE void add_row(arguments *a, int64_t row, int64_t i, vector (*sums)[MANY], const int low,
                    const int high, const int count) {
    const int64_t *places = a->places;
    const element *src = ((const element *const *)a->rows)[row] + i;
    const element *weights = (const element *)a->weights + (row - low) * a->across;
    const vector zero = {0};
    for (int64_t t = 0; t < a->across; t++, weights++) {
        const unaligned_vector *from = AT_CONST(unaligned_vector, src, places[t]);
        vector x[MANY];
        UNROLL for (int v = 0; v < count; v++)
            x[v] = from[v];
        UNROLL for (int l = low; l <= high; l++) {
            const vector weight = weights[-(l - low) * a->across] - zero;
            UNROLL for (int v = 0; v < count; v++)
                sums[l][v] = multiply_add(weight, x[v], sums[l][v]);
        }
    }
}

INLINE void store_vector(element *p, vector sum, const int64_t stream) {
#if PPLCONV_VECTOR_BYTES == 64
    if (stream) {
        _mm512_stream_si512((void *)p, (__m512i)sum);
        return;
    }
#elif PPLCONV_VECTOR_BYTES == 32
    if (stream) {
        _mm256_stream_si256((void *)p, (__m256i)sum);
        return;
    }
#endif
    (void)stream;
    *(unaligned_vector *)p = sum;
}

/* Some vectors of one row of results or of four, from element i on. */
INLINE void filter_vectors(arguments *a, int64_t i, const int lines, const int count,
                           const int64_t stream) {
    const vector zero = {0};
    vector sums[LINES][MANY];
    UNROLL for (int l = 0; l < lines; l++) {
        UNROLL for (int v = 0; v < count; v++)
            sums[l][v] = zero;
    }
#define CASE(low, high)                                                                            \
    case (low) * LINES + (high):                                                                   \
        add_row(a, r, i, sums, low, high, count);                                                  \
        break
    if (lines == 1) {
        for (int64_t r = 0; r < a->tap_rows; r++) add_row(a, r, i, sums, 0, 0, count);
    } else {
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
    }
#undef CASE
    UNROLL for (int l = 0; l < lines; l++) {
        element *dst = AT(element, a->dst, l * a->dst_rs) + i;
        UNROLL for (int v = 0; v < count; v++)
            store_vector(dst + v * LANES, sums[l][v], stream);
    }
}

/* Less than a vector of one row of results. */
static __attribute__((noinline)) void filter_lanes(arguments *a) {
    const vector zero = {0};
    const element *weights = a->weights;
    vector sum = zero;
    for (int64_t r = 0; r < a->tap_rows; r++) {
        for (int64_t t = 0; t < a->across; t++) {
            const element *from = AT_CONST(element, ((const void *const *)a->rows)[r],
                                           ((const int64_t *)a->places)[t]);
            sum = multiply_add(*weights++ - zero, load_lanes(from, a->count), sum);
        }
    }
    store_lanes(a->dst, sum, a->count);
}

/* One vector of one row or of four. */
#define ALONE static __attribute__((noinline)) void
ALONE filter_vector(arguments *a, int64_t i) { filter_vectors(a, i, 1, 1, 0); }
#if SHARES
ALONE filter_four(arguments *a, int64_t i) { filter_vectors(a, i, LINES, 1, 0); }
#else
#define filter_four filter_vector
#endif

/* One row of results, or four. */
INLINE void filter_lines(arguments *a, const int lines) {
    const int many = lines == 1 ? MANY : WIDE;
    void (*const one)(arguments *, int64_t) = lines == 1 ? filter_vector : filter_four;
    int64_t i = 0, stream = 0;
#if PPLCONV_VECTOR_BYTES >= 32
    const int64_t ahead = -(uintptr_t)a->dst % PPLCONV_VECTOR_BYTES / sizeof(element);
    if (a->stream && (lines == 1 || a->dst_rs % PPLCONV_VECTOR_BYTES == 0)) {
        /* Stores that pass by the caches are of whole vectors. */
        stream = 1;
        if (ahead) one(a, 0);
        i = ahead;
    }
#endif
    /* If much is left, the last of these blocks reaches back. */
    const int64_t rest = (a->count - i) % (many * LANES);
    const int64_t end = rest > FEW * LANES && a->count >= many * LANES ? a->count : a->count - rest;
    for (; i < end; i += many * LANES) {
        const int64_t over = i + many * LANES - end;
        filter_vectors(a, over > 0 ? i - over : i, lines, many, over > 0 ? 0 : stream);
    }
    for (; i < a->count; i += LANES) {
        /* So does the last vector. */
        if (i + LANES > a->count) i = a->count - LANES;
        one(a, i);
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    struct pplconv_filter_floats_args a = *(const struct pplconv_filter_floats_args *)argument;
    while (a.lines > 0) {
        int64_t made = 1;
        if (a.count < LANES) {
            filter_lanes(&a);
        } else if (SHARES && a.lines >= LINES && a.tap_rows >= LEAST_ROWS) {
            made = LINES;
            filter_lines(&a, LINES);
        } else {
            filter_lines(&a, 1);
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

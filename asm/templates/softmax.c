/* Softmax of each row of a matrix, and its logarithm. */
#include "row_tools.h"

#include "exponential.h"

/* exp(x - top) for top >= x. The difference is kept to more digits than the type has: it may be
 * large, and its rounding error becomes a relative error of the exponential. */
INLINE vector relative_exponential(vector x, vector top) {
    const vector y = x - top, back = y - x;
    return bounded_exponential(y, (x - (y - back)) - (top + back));
}

/* log(x) for x >= 1, of which there is one a row: 2 atanh((m - 1) / (m + 1)) of the mantissa m, by
 * its series, as no library gives the same bits everywhere. */
static double logarithm(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    /* The mantissa lies between sqrt(1/2) and sqrt(2), about. */
    const int64_t n = (int64_t)((bits - 0x3fe6a09e00000000u) >> 52);
    bits -= (uint64_t)n << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    const double z = (m - 1) / (m + 1), square = z * z;
    double sum = 0;
    for (int k = 23; k > 1; k -= 2) sum = (sum + 1.0 / k) * square;
    /* The two parts of ln 2: the first times n is exact. */
    const double high = 0x1.62e42feep-1, low = 0x1.a39ef35793c76p-33;
    return (double)n * high + (2 * z + (2 * z * sum + (double)n * low));
}

/* A sum with the excess that its roundings have added, by Kahan: with a thousand small terms and a
 * large one, a plain sum loses up to a thousand halves of its last place. */
struct total {
    vector sum, excess;
};

INLINE void add(struct total *t, vector x) {
    const vector y = x - t->excess, sum = t->sum + y;
    t->excess = (sum - t->sum) - y;
    t->sum = sum;
}

INLINE struct total added(struct total a, struct total b) {
    struct total t;
    t.sum = a.sum + b.sum;
    const vector back = t.sum - a.sum;
    const vector lost = (a.sum - (t.sum - back)) + (b.sum - back);
    t.excess = (a.excess + b.excess) - lost;
    return t;
}

/* Sum of the exponentials of a row relative to its largest element. Exponentials of whole vectors
 * are stored as well, unless they would be rounded to halves. Those of the tail are returned: data
 * stored under a mask cannot be loaded right after. */
INLINE double sum_exponentials(storage *dst, const storage *src, int64_t columns, vector top,
                               int store, vector *tail) {
    const vector zero = {0}, nothing = zero - (element)INFINITY;
    struct total total[2] = {{zero, zero}, {zero, zero}};
    int64_t j = 0;
    for (; j + 2 * LANES <= columns; j += 2 * LANES) {
        UNROLL for (int k = 0; k < 2; k++) {
            const vector p = relative_exponential(load_storage(src + j + k * LANES), top);
            if (store) store_storage(dst + j + k * LANES, p);
            add(&total[k], p);
        }
    }
    if (j + LANES <= columns) {
        const vector p = relative_exponential(load_storage(src + j), top);
        if (store) store_storage(dst + j, p);
        add(&total[0], p);
        j += LANES;
    }
    *tail = zero;
    if (j < columns) {
        *tail = relative_exponential(load_part(src + j, columns - j, nothing), top);
        add(&total[1], *tail);
    }
    struct total t = added(total[0], total[1]);
    UNROLL for (int s = LANES / 2; s; s /= 2) {
        const vector_bits other = lane_numbers() ^ s;
        t = added(t, (struct total){pick_lanes(t.sum, other), pick_lanes(t.excess, other)});
    }
    return (double)t.sum[0] - (double)t.excess[0];
}

/* Values of dst: src - top - factor, src * factor where src is an exponential, or
 * exp(src - top) * factor. */
enum { LOGARITHMS, SCALED, PROBABILITIES };

INLINE vector result(vector x, vector top, vector factor, int what) {
    if (what == LOGARITHMS) return (x - top) - factor;
    return (what == SCALED ? x : relative_exponential(x, top)) * factor;
}

INLINE void write_vectors(storage *dst, const storage *src, int64_t columns, vector top,
                          vector factor, int what) {
    for (int64_t j = 0; j + LANES <= columns; j += LANES)
        store_storage(dst + j, result(load_storage(src + j), top, factor, what));
}

INLINE void write_row(storage *dst, const storage *src, int64_t columns, vector top, int log) {
    const vector zero = {0};
    const int64_t n = columns % LANES, whole = columns - n;
    vector tail;
#if defined(PPLCONV_STORAGE_F16)
    const int keeps = 0;
#else
    const int keeps = 1;
#endif
    const double sum = sum_exponentials(dst, src, columns, top, keeps && !log, &tail);
    if (log) {
        const vector factor = zero + (element)logarithm(sum);
        write_vectors(dst, src, whole, top, factor, LOGARITHMS);
        if (n) tail = result(load_storage_lanes(src + whole, n), top, factor, LOGARITHMS);
    } else {
        const vector factor = zero + (element)(1 / sum);
        if (keeps) write_vectors(dst, dst, whole, top, factor, SCALED);
        else write_vectors(dst, src, whole, top, factor, PROBABILITIES);
        tail *= factor;
    }
    if (n) store_storage_lanes(dst + whole, tail, n);
}

static void write_nan(storage *dst, int64_t columns) {
    const vector nan = (vector){0} + (element)NAN;
    for (int64_t j = 0; j < columns; j += LANES) store_part(dst + j, nan, columns - j);
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_softmax_args *a = argument;
    const int64_t rows = a->columns > 0 ? a->rows : 0;
    for (int64_t i = 0; i < rows; i++) {
        const storage *src = AT_CONST(storage, a->src, i * a->src_rs);
        storage *dst = AT(storage, a->dst, i * a->dst_rs);
        const element largest = row_extreme(src, a->columns, 1);
        const vector top = (vector){0} + largest;
        if (!(largest - largest == 0)) write_nan(dst, a->columns);
        else if (a->log) write_row(dst, src, a->columns, top, 1);
        else write_row(dst, src, a->columns, top, 0);
    }
    clean_registers();
}

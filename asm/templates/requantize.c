/* Rows of int32 sums to the type of an array. Every step is one rounding in float32, so that all
 * levels give the same bits.
 *
 * The bounds of the type are those of the clamp, less zero: what is clamped to integers and then
 * rounded is what is rounded and then clamped. So numbers are small when they are rounded, and
 * nothing has to saturate behind that. */
#include "words.h"

#if PPLCONV_TYPE_S32
enum { FLOAT = 0 };
#else
enum { FLOAT = 1 };
#endif

/* What is the same for all elements of a call. */
struct constants {
    vector low, high, residual_scale;
    words residual_zero, zero;
};

static struct constants constants_of(const struct pplconv_requantize_args *a) {
    struct constants c = {0};
#if !PPLCONV_TYPE_S32
    const struct pplconv_quantization *q = a->parameters;
    float low = q->low, high = q->high;
#if PPLCONV_TYPE_U8 || PPLCONV_TYPE_S8
    const float least = (float)(LEAST_STORED - q->zero), most = (float)(MOST_STORED - q->zero);
    low = low < least ? least : low > most ? most : low;
    high = high < least ? least : high > most ? most : high;
    c.zero = splat_word(q->zero);
    c.residual_zero = splat_word(q->residual_zero);
    c.residual_scale = splat(q->residual_scale);
#endif
    c.low = splat(low);
    c.high = splat(high);
#else
    (void)a;
#endif
    return c;
}

INLINE vector residual_of(const struct constants *c, words r) {
#if PPLCONV_TYPE_U8 || PPLCONV_TYPE_S8
    return to_float(r - c->residual_zero) * c->residual_scale;
#else
    (void)c;
    return (vector)r;
#endif
}

/* One vector, of n lanes. */
INLINE words requantized(const struct constants *c, words sum, vector scale, const stored *residual,
                         int64_t n, const int add) {
    if (!FLOAT) return sum;
    vector v = to_float(sum) * scale;
    if (add) v += residual_of(c, load_stored(residual, n));
    v = at_most(at_least(v, c->low), c->high);
#if PPLCONV_TYPE_U8 || PPLCONV_TYPE_S8
    return rounded(v) + c->zero;
#else
    return (words)v;
#endif
}

/* One row, with an offset and a scale for all of it or for each column. */
INLINE void requantize_row(const struct constants *c, const int32_t *src, stored *dst,
                           const int32_t *offset, const float *scale, const stored *residual,
                           int64_t columns, const int by_row, const int add) {
    const words one_offset = by_row ? splat_word(*offset) : splat_word(0);
    const vector one_scale = by_row && FLOAT ? splat(*scale) : splat(0);
#define ONE(i, n)                                                                                  \
    requantized(c,                                                                                 \
                (words)load_vector(src + (i), n) +                                                 \
                    (by_row ? one_offset : (words)load_vector(offset + (i), n)),                   \
                by_row || !FLOAT ? one_scale : load_vector(scale + (i), n), residual + (i), n,     \
                add)
    int64_t i = 0;
    for (; i + 4 * LANES <= columns; i += 4 * LANES) {
        words w[4];
        UNROLL for (int v = 0; v < 4; v++)
            w[v] = ONE(i + v * LANES, LANES);
        store_four(dst + i, w);
    }
    for (; i + LANES <= columns; i += LANES) store_stored(dst + i, ONE(i, LANES), LANES);
    if (i < columns) store_stored(dst + i, ONE(i, columns - i), columns - i);
#undef ONE
}

INLINE void requantize(const struct pplconv_requantize_args *a, const int by_row, const int add) {
    const struct constants c = constants_of(a);
    const int64_t columns = a->columns;
    for (int64_t r = 0; r < a->rows; r++) {
        requantize_row(&c, AT_CONST(int32_t, a->src, r * a->src_rs),
                       AT(stored, a->dst, r * a->dst_rs),
                       (const int32_t *)a->offset + (by_row ? r : 0),
                       (const float *)a->scale + (by_row ? r : 0),
                       AT_CONST(stored, a->residual, r * a->residual_rs), columns, by_row, add);
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_requantize_args *a = argument;
    const int by_row = (a->flags & PPLCONV_BIAS_ROW) != 0;
    const int add = FLOAT && (a->flags & PPLCONV_RESIDUAL);
    if (by_row && add) {
        requantize(a, 1, 1);
    } else if (by_row) {
        requantize(a, 1, 0);
    } else if (add) {
        requantize(a, 0, 1);
    } else {
        requantize(a, 0, 0);
    }
    clean_registers();
}

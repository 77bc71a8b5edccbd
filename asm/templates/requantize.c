/* Rows of int32 sums to the type of an array. Every step is one rounding in float32, so that all
 * levels give the same bits.
 *
 * Four vectors of sums become one vector of bytes. The four come from one row, two rows or four
 * rows, as the number of columns allows. Offsets and scales of columns stay in registers for all
 * rows. */
#include "words.h"

#if PPLCONV_TYPE_U8 || PPLCONV_TYPE_S8
#define TO_BYTES 1
#else
#define TO_BYTES 0
#endif

#if TO_BYTES
#include "lookup.h"
#endif

#if TO_BYTES && !PPLCONV_NO_PACKING
#define SATURATES 1
#include "narrow.h"
#else
#define SATURATES 0
#endif

#if PPLCONV_TYPE_S32
enum { FLOAT = 0 };
#else
enum { FLOAT = 1 };
#endif

/* Levels that store bytes lane by lane are slow anyway, and wide loops would be much code. */
enum { WIDE = SATURATES || !TO_BYTES };

INLINE int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

/* Values shared by all elements of a call. */
struct constants {
#if SATURATES
    struct ends ends;
#else
    vector low, high;
    words zero;
#endif
    vector residual_scale, slope, middle, shift;
    words residual_zero;
};

INLINE struct constants constants_of(const struct pplconv_requantize_args *a) {
    struct constants c = {0};
#if !PPLCONV_TYPE_S32
    const struct pplconv_quantization *q = a->parameters;
#if TO_BYTES
    c.residual_zero = splat_word(q->residual_zero);
    c.residual_scale = splat(q->residual_scale);
#endif
    c.slope = splat(q->slope);
    c.middle = splat(q->middle);
    c.shift = splat(q->shift);
#if SATURATES
    c.ends = ends_of(q);
#else
    float low = q->low, high = q->high;
#if TO_BYTES
    /* Apply the bounds of the type, less zero, as well: clamping to integers and then rounding
     * gives the same as rounding and then clamping. So nothing has to saturate. */
    const float first = (float)(LEAST_STORED - q->zero), last = (float)(MOST_STORED - q->zero);
    low = low < first ? first : low > last ? last : low;
    high = high < first ? first : high > last ? last : high;
    c.zero = splat_word(q->zero);
#endif
    c.low = splat(low);
    c.high = splat(high);
#endif
#else
    (void)a;
#endif
    return c;
}

INLINE vector residual_of(const struct constants *c, words r) {
#if TO_BYTES
    return to_float(r - c->residual_zero) * c->residual_scale;
#else
    (void)c;
    return (vector)r;
#endif
}

/* Variant of the loops for a call or a part of it, in constants that the compiler knows. */
struct kind {
    /* by_row: each row has its own offset and scale. add: residuals are added. gate: there is a
     * gate. bare: zero is 0 and the bounds are those of the type, as after ReLU with unsigned
     * bytes. huge: see `rounded_within`. compact: less code, which takes longer. */
    int by_row, add, gate, bare, huge, compact;
};

INLINE vector gated(const struct constants *c, vector v) {
    const vector open = at_most(at_least(v * c->slope + c->middle, splat(0)), splat(1));
    return v * open + c->shift;
}

/* One vector, of n lanes, before the last steps in `store_group`. */
INLINE words requantized(const struct constants *c, words sum, vector scale, const stored *residual,
                         int64_t n, const struct kind kind) {
    if (!FLOAT) return sum;
    vector v = to_float(sum) * scale;
    if (kind.add) v += residual_of(c, load_stored(residual, n));
    if (kind.gate) v = gated(c, v);
#if SATURATES
    return rounded_within(v, kind.huge);
#else
    v = at_most(at_least(v, c->low), c->high);
#if TO_BYTES
    return rounded(v) + c->zero;
#else
    return (words)v;
#endif
#endif
}

/* Four vectors, `across` of them in a row, the last one of n lanes. */
INLINE void store_group(const struct constants *c, stored *const dst[4], const words w[4],
                        const int across, int64_t n, const struct kind kind) {
#if SATURATES
    const quads bytes = kind.bare ? saturated(w) : narrowed(&c->ends, w);
    if (across == 4) store_quads(dst[0], bytes);
    UNROLL for (int j = 0; across == 2 && j < 2; j++)
        store_half(dst[j], bytes, j);
    UNROLL for (int j = 0; across == 1 && j < 4; j++)
        store_quarter(dst[j], bytes, j, n);
#else
    (void)c, (void)kind;
    UNROLL for (int v = 0; v < 4; v++)
        store_stored(dst[v / across] + v % across * LANES, w[v], n);
#endif
}

/* Position in a call: its current row, with the row's offset and scale. */
struct place {
    const char *src, *residual;
    char *dst;
    const int32_t *offset;
    const float *scale;
};

INLINE struct place place_of(const struct pplconv_requantize_args *a, int64_t row, int64_t column,
                             const int by_row) {
    return (struct place){
        (const char *)a->src + row * a->src_rs + column * 4,
        (const char *)a->residual + row * a->residual_rs + column * (int64_t)sizeof(stored),
        (char *)a->dst + row * a->dst_rs + column * (int64_t)sizeof(stored),
        (const int32_t *)a->offset + (by_row ? row : column),
        (const float *)a->scale + (by_row ? row : column),
    };
}
INLINE struct place below(struct place p, const struct pplconv_requantize_args *a, int64_t rows,
                          const int by_row) {
    p.src += rows * a->src_rs;
    p.residual += rows * a->residual_rs;
    p.dst += rows * a->dst_rs;
    if (by_row) p.offset += rows, p.scale += rows;
    return p;
}

/* Offsets and scales of four vectors, by column or by row. */
struct factors {
    words offset[4];
    vector scale[4];
};

INLINE void load_factors(struct factors *f, struct place p, const int across, int64_t n) {
    UNROLL for (int v = 0; v < across; v++) {
        f->offset[v] = (words)load_vector(p.offset + v * LANES, n);
        if (FLOAT) f->scale[v] = load_vector(p.scale + v * LANES, n);
    }
}
INLINE void splat_factors(struct factors *f, struct place p, const int64_t at[4], const int down) {
    UNROLL for (int j = 0; j < down; j++) {
        f->offset[j] = splat_word(p.offset[at[j]]);
        if (FLOAT) f->scale[j] = splat(p.scale[at[j]]);
    }
}

/* `across` vectors of each of 4 / across rows, those at[j] below p. All is loaded before anything
 * is stored. */
INLINE void requantize_group(const struct constants *c, const struct pplconv_requantize_args *a,
                             const struct factors *f, struct place p, const int64_t at[4],
                             const int across, int64_t n, const struct kind kind) {
    words w[4];
    stored *dst[4] = {0};
    UNROLL for (int v = 0; v < 4; v++) {
        const int j = v / across, i = v % across, own = kind.by_row ? j : i;
        const int32_t *src = AT_CONST(int32_t, p.src, at[j] * a->src_rs) + i * LANES;
        const stored *residual = AT_CONST(stored, p.residual, at[j] * a->residual_rs) + i * LANES;
        const words sum = (words)load_vector(src, n) + f->offset[own];
        w[v] = requantized(c, sum, f->scale[own], residual, n, kind);
        if (i == 0) dst[j] = AT(stored, p.dst, at[j] * a->dst_rs);
    }
    store_group(c, dst, w, across, n, kind);
}

/* The same for a group of rows of which only `left` exist: the last row is repeated in place of the
 * missing ones. */
INLINE void requantize_left(const struct constants *c, const struct pplconv_requantize_args *a,
                            struct factors f, struct place p, int64_t left, const int across,
                            int64_t n, const struct kind kind) {
    const int64_t last = left - 1;
    const int64_t at[4] = {0, least(last, 1), least(last, 2), least(last, 3)};
    if (kind.by_row) splat_factors(&f, p, at, 4 / across);
    requantize_group(c, a, &f, p, at, across, n, kind);
}

/* All rows of `across` vectors, of n lanes each. */
INLINE void requantize_columns(const struct constants *constants,
                               const struct pplconv_requantize_args *arguments, int64_t column,
                               const int across, int64_t n, const struct kind kind) {
    /* Copies, which no store can change. */
    const struct pplconv_requantize_args a = *arguments;
    const struct constants c = *constants;
    const int down = 4 / across;
    struct place p = place_of(&a, 0, column, kind.by_row);
    struct factors f = {0};
    if (!kind.by_row) load_factors(&f, p, across, n);
    int64_t left = a.rows;
    for (; !kind.compact && left >= down; left -= down) {
        requantize_left(&c, &a, f, p, 4, across, n, kind);
        p = below(p, &a, down, kind.by_row);
    }
    for (; down > 1 && left > 0; left -= down) {
        requantize_left(&c, &a, f, p, left, across, n, kind);
        if (!kind.compact) break;
        p = below(p, &a, down, kind.by_row);
    }
}

/* All columns that fill groups of four vectors. Rows with their own factors go one after the other,
 * in the order of memory. */
INLINE void requantize_fours(const struct constants *constants,
                             const struct pplconv_requantize_args *arguments, int64_t columns,
                             const struct kind kind) {
    if (!kind.by_row) {
        for (int64_t i = 0; i < columns; i += 4 * LANES)
            requantize_columns(constants, arguments, i, 4, LANES, kind);
        return;
    }
    const struct pplconv_requantize_args a = *arguments;
    const struct constants c = *constants;
    const int64_t at[4] = {0};
    for (int64_t row = 0; row < a.rows; row++) {
        struct place p = place_of(&a, row, 0, 1);
        struct factors f = {0};
        splat_factors(&f, p, at, 1);
        for (int64_t i = 0; i < columns; i += 4 * LANES) {
            requantize_group(&c, &a, &f, p, at, 4, LANES, kind);
            p.src += 4 * LANES * sizeof(int32_t);
            p.residual += 4 * LANES * sizeof(stored);
            p.dst += 4 * LANES * sizeof(stored);
        }
    }
}

/* The loops as functions, each with all registers to itself: for the columns that fill groups of
 * four vectors, for two vectors, for one, for up to n lanes, and for n lanes of huge numbers. */
#define ARGUMENTS                                                                                  \
    const struct constants *c, const struct pplconv_requantize_args *a, int64_t column, int64_t n
#define PART(name, ...)                                                                            \
    static __attribute__((noinline)) void name(ARGUMENTS) {                                        \
        (void)n;                                                                                   \
        __VA_ARGS__;                                                                               \
    }
#define COLUMNS(across, n, ...)                                                                    \
    requantize_columns(c, a, column, across, n, (struct kind){__VA_ARGS__})
#define WHOLE(name, by_row, add, gate, bare)                                                       \
    PART(name##_fours,                                                                             \
         requantize_fours(c, a, column, (struct kind){by_row, add, gate, bare, 0, 0}))             \
    PART(name##_two, COLUMNS(2, LANES, by_row, add, gate, bare, 0, 0))                             \
    PART(name##_one, COLUMNS(1, LANES, by_row, add, gate, bare, 0, 0))
#define KIND(name, by_row, add, gate)                                                              \
    WHOLE(name, by_row, add, gate, 0)                                                              \
    PART(name##_few, COLUMNS(1, n, by_row, add, gate, 0, 0, 1))                                    \
    PART(name##_huge, COLUMNS(1, n, by_row, add, gate, 0, SATURATES, 1))
#define PARTS(whole, rest) {whole##_fours, whole##_two, whole##_one, rest##_few, rest##_huge}

KIND(of_columns, 0, 0, 0)
KIND(of_rows, 1, 0, 0)
KIND(of_columns_add, 0, FLOAT, 0)
KIND(of_rows_add, 1, FLOAT, 0)
KIND(of_columns_gate, 0, 0, FLOAT)
KIND(of_rows_gate, 1, 0, FLOAT)
#if SATURATES
WHOLE(of_columns_bare, 0, 0, 0, 1)
WHOLE(of_columns_add_bare, 0, 1, 0, 1)
#endif

struct parts {
    void (*fours)(ARGUMENTS), (*two)(ARGUMENTS), (*one)(ARGUMENTS), (*few)(ARGUMENTS),
        (*huge)(ARGUMENTS);
};

INLINE void requantize(const struct pplconv_requantize_args *a, const struct parts parts,
                       int huge) {
    const struct constants c = constants_of(a);
    const int64_t columns = a->columns, fours = columns - columns % (4 * LANES);
    int64_t i = 0;
    if (huge) {
        /* Rare, so speed does not matter. */
        for (; i < columns; i += LANES) parts.huge(&c, a, i, least(columns - i, LANES));
        return;
    }
    if (fours) parts.fours(&c, a, fours, LANES);
    i = fours;
    if (WIDE && i + 2 * LANES <= columns) {
        parts.two(&c, a, i, LANES);
        i += 2 * LANES;
    }
    if (WIDE && i + LANES <= columns) {
        parts.one(&c, a, i, LANES);
        i += LANES;
    }
    for (; i < columns; i += LANES) parts.few(&c, a, i, least(columns - i, LANES));
}

/* Whether numbers could be too large to be rounded without a bound: see `rounded_within`. */
static int huge_numbers(const struct pplconv_requantize_args *a) {
#if SATURATES && !PPLCONV_NEON
    const struct pplconv_quantization *q = a->parameters;
    const int64_t scales = a->flags & PPLCONV_BIAS_ROW ? a->rows : a->columns;
    const float added = a->flags & PPLCONV_RESIDUAL ? q->residual_scale : q->gate ? q->shift : 0;
    return any_huge(a->scale, scales) || !(added > -0x1p20f && added < 0x1p20f);
#else
    (void)a;
    return 0;
#endif
}

#if SATURATES
/* Whether saturation alone gives the right bounds. */
static int bare_numbers(const struct pplconv_requantize_args *a) {
    const struct pplconv_quantization *q = a->parameters;
    return q->zero == 0 && q->low <= LEAST_STORED && q->high >= MOST_STORED;
}
#endif

/* Replace the stored bytes through the table, if there is one. This is a pass of its own: few calls
 * have a table, and loops that test for one are slower. */
static void look_up(const struct pplconv_requantize_args *a) {
#if TO_BYTES
    const uint8_t *table = ((const struct pplconv_quantization *)a->parameters)->table;
    for (int64_t row = 0; table && row < a->rows; row++) {
        uint8_t *bytes = AT(uint8_t, a->dst, row * a->dst_rs);
        look_up_row(table, bytes, bytes, a->columns);
    }
#else
    (void)a;
#endif
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_requantize_args *a = argument;
    const int by_row = (a->flags & PPLCONV_BIAS_ROW) != 0;
    const int add = FLOAT && (a->flags & PPLCONV_RESIDUAL);
    if (a->rows > 0 && a->columns > 0) {
        const int huge = huge_numbers(a);
        if (FLOAT && ((const struct pplconv_quantization *)a->parameters)->gate) {
            if (by_row) requantize(a, (struct parts)PARTS(of_rows_gate, of_rows_gate), huge);
            else requantize(a, (struct parts)PARTS(of_columns_gate, of_columns_gate), huge);
        } else if (by_row && add) {
            requantize(a, (struct parts)PARTS(of_rows_add, of_rows_add), huge);
#if SATURATES
        } else if (add && bare_numbers(a)) {
            requantize(a, (struct parts)PARTS(of_columns_add_bare, of_columns_add), huge);
        } else if (!by_row && !add && bare_numbers(a)) {
            requantize(a, (struct parts)PARTS(of_columns_bare, of_columns), huge);
#endif
        } else if (add) {
            requantize(a, (struct parts)PARTS(of_columns_add, of_columns_add), huge);
        } else if (by_row) {
            requantize(a, (struct parts)PARTS(of_rows, of_rows), huge);
        } else {
            requantize(a, (struct parts)PARTS(of_columns, of_columns), huge);
        }
        look_up(a);
    }
    clean_registers();
}

/* Rows times factors, plus addends, between bounds, to bytes: in one pass, and with the same bits
 * as `dequantize`, `elementwise` and `quantize` one after the other. Short rows that follow one
 * another are run as longer ones; what repeats from row to row is written down several times for
 * that. */
#include "quotients.h"

enum { REPEATED = 64 * LANES, BATCH = 4 * LANES };

/* Numbers of a row: PPLCONV_OPERAND_*, and scale and zero of bytes. */
struct operand {
    int64_t kind;
    const char *data;
    int64_t rs;
    vector scale, one;
    words zero;
};

INLINE struct operand operand_of(int64_t kind, const void *data, int64_t rs, const void *numbers) {
    struct operand o = {kind, data, rs, splat(0), splat(0), splat_word(0)};
    if (kind == PPLCONV_OPERAND_BYTES) {
        o.scale = splat(float_at(numbers));
        o.zero = splat_word(word_at((const int32_t *)numbers + 1));
    }
    return o;
}

INLINE int64_t element_bytes(const struct operand *o) {
    return o->kind == PPLCONV_OPERAND_BYTES ? 1 : (int64_t)sizeof(float);
}

INLINE int has_columns(const struct operand *o) {
    return o->kind == PPLCONV_OPERAND_COLUMNS || o->kind == PPLCONV_OPERAND_BYTES;
}

/* `count` vectors from column i on, the only one of `n` elements. */
INLINE void read_operand(vector *x, const struct operand *o, const char *row, int64_t i,
                         const int count, int64_t n) {
    if (o->kind == PPLCONV_OPERAND_BYTES) {
        UNROLL for (int v = 0; v < count; v++) {
            const words w = load_stored((const stored *)row + i + v * LANES, n);
            x[v] = to_float(w - o->zero) * o->scale;
        }
    } else if (o->kind == PPLCONV_OPERAND_COLUMNS) {
        UNROLL for (int v = 0; v < count; v++)
            x[v] = load_vector((const float *)row + i + v * LANES, n);
    } else {
        UNROLL for (int v = 0; v < count; v++)
            x[v] = o->one;
    }
}

/* What all rows share. */
struct shared {
    struct operand src, factor, addend;
    struct divisor divisor;
    vector low, high;
    words zero;
    int clips;
};

INLINE void compute(vector *x, const struct shared *s, const char *src, const char *factor,
                    const char *addend, int64_t i, const int count, int64_t n) {
    vector y[4];
    read_operand(x, &s->src, src, i, count, n);
    if (s->factor.kind) {
        read_operand(y, &s->factor, factor, i, count, n);
        UNROLL for (int v = 0; v < count; v++)
            x[v] = x[v] * y[v];
    }
    if (s->addend.kind) {
        read_operand(y, &s->addend, addend, i, count, n);
        UNROLL for (int v = 0; v < count; v++)
            x[v] = x[v] + y[v];
    }
    if (s->clips) {
        UNROLL for (int v = 0; v < count; v++)
            x[v] = at_most(at_least(x[v], s->low), s->high);
    }
}

/* The row of an operand, whose one number of the row goes to all lanes. */
INLINE const char *row_of(struct operand *o, int64_t r) {
    const char *row = o->data + r * o->rs;
    if (o->kind == PPLCONV_OPERAND_ONE) o->one = splat(float_at((const float *)row));
    return o->kind ? row : NULL;
}

/* `given` is copied, so that no store of bytes may change it. */
INLINE void rescale_rows(const struct shared *given, char *dst, int64_t dst_rs, int64_t rows,
                         int64_t columns, const int moderate) {
    struct shared own = *given, *const s = &own;
    for (int64_t r = 0; r < rows; r++) {
        const char *src = row_of(&s->src, r), *factor = row_of(&s->factor, r);
        const char *addend = row_of(&s->addend, r);
        stored *to = AT(stored, dst, r * dst_rs);
        vector x[4];
        int64_t i = 0;
        for (; i + BATCH <= columns; i += BATCH) {
            compute(x, s, src, factor, addend, i, 4, LANES);
            store_quotients(to + i, x, &s->divisor, s->zero, moderate);
        }
        for (; i < columns; i += LANES) {
            const int64_t n = columns - i < LANES ? columns - i : LANES;
            compute(x, s, src, factor, addend, i, 1, n);
            const struct divisor *d = &s->divisor;
            const vector q = moderate ? divided(x[0], d) : (vector)(x[0] / d->scale);
            store_stored(to + i, quantized(q, s->zero), n);
        }
    }
}

static void run(const struct shared *s, char *dst, int64_t dst_rs, int64_t rows, int64_t columns) {
    if (is_moderate(s->divisor.scale[0])) rescale_rows(s, dst, dst_rs, rows, columns, 1);
    else rescale_rows(s, dst, dst_rs, rows, columns, 0);
}

/* How many rows become one: a whole number of batches if few enough make one; 1 if rows do not
 * follow one another. `repeats` says whether an operand has the same columns in each row. */
INLINE int64_t together_of(const struct shared *s, int64_t dst_rs, int64_t rows, int64_t columns,
                           int *repeats) {
    const struct operand *operands[] = {&s->src, &s->factor, &s->addend};
    *repeats = 0;
    if (rows < 2 || dst_rs != columns) return 1;
    for (int k = 0; k < 3; k++) {
        const struct operand *o = operands[k];
        if (!o->kind || (!has_columns(o) && o->rs == 0)) continue;
        if (!has_columns(o)) return 1;
        if (o->rs == columns * element_bytes(o)) continue;
        if (o->rs != 0 || o->kind != PPLCONV_OPERAND_COLUMNS) return 1;
        *repeats = 1;
    }
    if (!*repeats) return rows;
    if (columns % BATCH == 0 || columns * 2 > REPEATED) return 1;
    int64_t whole = 1;
    while (whole * columns % BATCH != 0) whole *= 2;
    const int64_t most = REPEATED / columns < rows ? REPEATED / columns : rows;
    return most >= whole ? most / whole * whole : most;
}

INLINE void repeat(struct operand *o, float *to, int64_t times, int64_t columns) {
    if (o->kind == PPLCONV_OPERAND_COLUMNS && o->rs == 0) {
        for (int64_t i = 0; i < times; i++)
            memcpy(to + i * columns, o->data, (size_t)columns * sizeof(float));
        o->data = (const char *)to;
    } else {
        o->rs *= times;
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_rescale_args *a = argument;
    float repeated[3][REPEATED];
    if (a->rows <= 0 || a->columns <= 0) {
        clean_registers();
        return;
    }
    struct shared s = {
        .src = operand_of(a->src_kind, a->src, a->src_rs, a->src_numbers),
        .factor = operand_of(a->factor_kind, a->factor, a->factor_rs, a->factor_numbers),
        .addend = operand_of(a->addend_kind, a->addend, a->addend_rs, a->addend_numbers),
        .divisor = divisor_of(float_at(a->scale), word_at(a->zero)),
        .zero = splat_word(word_at(a->zero)),
        .clips = (a->flags & PPLCONV_CLIP) != 0,
    };
    if (s.clips) {
        s.low = splat(float_at(a->low));
        s.high = splat(float_at(a->high));
    }
    int64_t rows = a->rows, columns = a->columns, dst_rs = a->dst_rs;
    char *dst = a->dst;
    int repeats;
    const int64_t together = together_of(&s, dst_rs, rows, columns, &repeats);
    if (together > 1) {
        const int64_t rest = rows % together;
        repeat(&s.factor, repeated[0], together, columns);
        repeat(&s.addend, repeated[1], together, columns);
        repeat(&s.src, repeated[2], together, columns);
        dst_rs *= together;
        rows /= together;
        if (rest) {
            struct shared last = s;
            last.src.data += rows * s.src.rs;
            last.factor.data += rows * s.factor.rs;
            last.addend.data += rows * s.addend.rs;
            run(&last, dst + rows * dst_rs, dst_rs, 1, rest * columns);
        }
        columns *= together;
    }
    run(&s, dst, dst_rs, rows, columns);
    clean_registers();
}

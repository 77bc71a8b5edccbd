/* Element-wise programs of one instruction: its operands go through machine registers instead of
 * chunks. Rows that follow one another are run as longer rows, so that few vectors are partial;
 * inputs that are the same for each row are repeated for that. A template defines its
 * STRAIGHT_OPERATIONS, load_storage and its kin, and whether there are BFLOAT_STREAMS, before it
 * includes this. */
#ifndef PPLCONV_STRAIGHT_H
#define PPLCONV_STRAIGHT_H

#include <string.h>

#include "template.h"

enum { REPEATED = 64 * LANES /* elements of an input that is written down several times */ };

#if BFLOAT_STREAMS && HAS_BFCVTN
enum { FLUSHED = 2 /* bfloat16, of numbers that are not subnormal */ };
#endif

/* Three operands and the result; `narrow` says which of these are bfloat16. */
struct straight {
    const void *from[3];
    int64_t from_rs[3], step[3];
    void *to;
    int64_t to_rs, rows, columns;
    int narrow[4];
};

static inline vector in_all_lanes(const storage *from) {
#if defined(PPLCONV_STORAGE_F16) || defined(PPLCONV_STORAGE_BF16) || defined(PPLCONV_STORAGE_F32)
    const element x = load_storage_lanes(from, 1)[0];
#else
    const element x = *from;
#endif
    return x - (vector){0}; /* minus, since plus would lose the sign of a zero */
}

#define ROW_LOOPS(name, expression, kind)                                                          \
    static void kind##_##name(const struct straight *s) {                                          \
        const int64_t columns = s->columns;                                                        \
        STEPS_##kind;                                                                              \
        for (int64_t i = 0; i < s->rows; i++) {                                                    \
            const void *p = AT_CONST(void, s->from[0], i * s->from_rs[0]);                         \
            const void *q = AT_CONST(void, s->from[1], i * s->from_rs[1]);                         \
            const void *r = AT_CONST(void, s->from[2], i * s->from_rs[2]);                         \
            void *to = AT(void, s->to, i * s->to_rs);                                              \
            vector x = {0}, y = {0}, z = {0};                                                      \
            int64_t j = 0;                                                                         \
            if (!x_steps) x = fill_##kind(s, 0, p);                                                \
            if (!y_steps) y = fill_##kind(s, 1, q);                                                \
            if (!z_steps) z = fill_##kind(s, 2, r);                                                \
            (void)y;                                                                               \
            (void)z;                                                                               \
            for (; j + LANES <= columns; j += LANES) {                                             \
                if (x_steps) x = load_##kind(s, 0, p, j);                                          \
                if (y_steps) y = load_##kind(s, 1, q, j);                                          \
                if (z_steps) z = load_##kind(s, 2, r, j);                                          \
                store_##kind(s, to, j, (expression));                                              \
            }                                                                                      \
            if (j < columns) {                                                                     \
                const int64_t n = columns - j;                                                     \
                if (x_steps) x = load_last_##kind(s, 0, p, j, n);                                  \
                if (y_steps) y = load_last_##kind(s, 1, q, j, n);                                  \
                if (z_steps) z = load_last_##kind(s, 2, r, j, n);                                  \
                store_last_##kind(s, to, j, (expression), n);                                      \
            }                                                                                      \
        }                                                                                          \
    }

/* Compilers make a loop for each combination of these. */
#define STEPS_plain                                                                                \
    const int x_steps = s->step[0] != 0, y_steps = s->step[1] != 0, z_steps = s->step[2] != 0

#define OPERAND const struct straight *s, int k, const void *p

static inline vector fill_plain(OPERAND) { return (void)s, (void)k, in_all_lanes(p); }
static inline vector load_plain(OPERAND, int64_t j) {
    return (void)s, (void)k, load_storage((const storage *)p + j);
}
static inline vector load_last_plain(OPERAND, int64_t j, int64_t n) {
    return (void)s, (void)k, load_storage_lanes((const storage *)p + j, n);
}
static inline void store_plain(const struct straight *s, void *to, int64_t j, vector v) {
    (void)s;
    store_storage((storage *)to + j, v);
}
static inline void store_last_plain(const struct straight *s, void *to, int64_t j, vector v,
                                    int64_t n) {
    (void)s;
    store_storage_lanes((storage *)to + j, v, n);
}

#define PLAIN_ROWS(name, expression) ROW_LOOPS(name, expression, plain)
STRAIGHT_OPERATIONS(PLAIN_ROWS)

#if BFLOAT_STREAMS

/* Branches for each vector, which are foreseen, take less room than loops for each mixture of
 * types: a store may change what `s` points to. */
#define STEPS_mixed const int64_t *const steps = s->step
#define x_steps steps[0]
#define y_steps steps[1]
#define z_steps steps[2]

static inline vector fill_mixed(OPERAND) {
    if (!s->narrow[k]) return in_all_lanes(p);
    return load_bfloat_lanes(p, 1)[0] - (vector){0};
}
static inline vector load_mixed(OPERAND, int64_t j) {
    return s->narrow[k] ? load_bfloat((const bfloat *)p + j) : load_storage((const storage *)p + j);
}
static inline vector load_last_mixed(OPERAND, int64_t j, int64_t n) {
    return s->narrow[k] ? load_bfloat_lanes((const bfloat *)p + j, n)
                        : load_storage_lanes((const storage *)p + j, n);
}
static inline void store_mixed(const struct straight *s, void *to, int64_t j, vector v) {
#if HAS_BFCVTN
    if (s->narrow[3] == FLUSHED) {
        store_flushed_bfloat((bfloat *)to + j, v);
        return;
    }
#endif
    if (s->narrow[3]) store_bfloat((bfloat *)to + j, v);
    else store_storage((storage *)to + j, v);
}
static inline void store_last_mixed(const struct straight *s, void *to, int64_t j, vector v,
                                    int64_t n) {
#if HAS_BFCVTN
    if (s->narrow[3] == FLUSHED) {
        store_flushed_bfloat_lanes((bfloat *)to + j, v, n);
        return;
    }
#endif
    if (s->narrow[3]) store_bfloat_lanes((bfloat *)to + j, v, n);
    else store_storage_lanes((storage *)to + j, v, n);
}

#define MIXED_ROWS(name, expression) ROW_LOOPS(name, expression, mixed)
MIXED_OPERATIONS(MIXED_ROWS)
#undef x_steps
#undef y_steps
#undef z_steps

/* 0 if the operation takes so long that chunks are as fast. */
static int run_mixed(int64_t op, const struct straight *s) {
    (void)s;
    switch (op) {
#define MIXED_ROWS_OF(name, expression)                                                            \
    case PPLCONV_DO_##name:                                                                        \
        mixed_##name(s);                                                                           \
        return 1;
        MIXED_OPERATIONS(MIXED_ROWS_OF)
    }
    return 0;
}

#endif

static void run_rows(int64_t op, const struct straight *s) {
    switch (op) {
#define ROWS_OF(name, expression)                                                                  \
    case PPLCONV_DO_##name:                                                                        \
        plain_##name(s);                                                                           \
        break;
        STRAIGHT_OPERATIONS(ROWS_OF)
    }
}

static int is_straight(int64_t op) {
    switch (op) {
#define IS_STRAIGHT(name, expression) case PPLCONV_DO_##name:
        STRAIGHT_OPERATIONS(IS_STRAIGHT)
        return 1;
    }
    return 0;
}

static inline int64_t element_bytes(const struct straight *s, int k) {
    return s->narrow[k] ? 2 : (int64_t)sizeof(storage);
}

/* Whether all rows follow one another or, for inputs of one value, are the same: then one row. */
static int are_one_row(const struct straight *s) {
    if (s->to_rs != s->columns * element_bytes(s, 3)) return 0;
    for (int k = 0; k < 3; k++) {
        if (s->from_rs[k] != (s->step[k] ? s->columns * element_bytes(s, k) : 0)) return 0;
    }
    return 1;
}

/* Run rows of whichever types; 0 if chunks are as fast. */
static int run_any(int64_t op, const struct straight *s, int mixed) {
#if BFLOAT_STREAMS
    if (mixed) return run_mixed(op, s);
#endif
    (void)mixed;
    run_rows(op, s);
    return 1;
}

/* Run groups of rows that follow one another, each group as one row; 0 if rows do not follow. */
static int run_joined(int64_t op, const struct straight *s, int mixed) {
    storage repeated[3][REPEATED];
    int64_t bytes[4];
    struct straight joined = *s;
    int64_t together = 1;
    for (int k = 0; k < 4; k++) bytes[k] = s->columns * element_bytes(s, k);
    if (s->to_rs != bytes[3]) return 0;
    for (int k = 0; k < 3; k++) {
        if (s->from_rs[k] != 0 && !(s->step[k] && s->from_rs[k] == bytes[k])) return 0;
    }
    while (together * 2 <= s->rows && together * 2 * s->columns <= REPEATED) together *= 2;
    if (together == 1) return 0;
    for (int k = 0; k < 3; k++) {
        joined.from_rs[k] = together * s->from_rs[k];
        if (!s->step[k] || s->from_rs[k] != 0) continue;
        for (int64_t i = 0; i < together; i++)
            memcpy((char *)repeated[k] + i * bytes[k], s->from[k], (size_t)bytes[k]);
        joined.from[k] = repeated[k];
    }
    joined.to_rs = together * bytes[3];
    joined.columns = together * s->columns;
    joined.rows = s->rows / together;
    if (!run_any(op, &joined, mixed)) return 0;
    for (int k = 0; k < 3; k++) {
        const void *first = s->from_rs[k] != 0 ? s->from[k] : joined.from[k];
        joined.from[k] = AT_CONST(void, first, joined.rows *joined.from_rs[k]);
    }
    joined.to = AT(void, s->to, joined.rows *joined.to_rs);
    joined.columns = s->rows % together * s->columns;
    joined.rows = joined.columns > 0;
    return run_any(op, &joined, mixed);
}

/* Run a program of one instruction; 0 if the program is of another kind. */
static int run_straight(const struct pplconv_elementwise_args *a) {
    const struct pplconv_stream *inputs = a->inputs, *output = a->outputs;
    const struct pplconv_instruction *code = a->code;
    struct straight s; /* member by member: to clear it would take as long as some vectors */
    int mixed = 0;
    if (a->code_count != 1 || a->output_count != 1 || output->reg != code->to) return 0;
    if (!is_straight(code->op)) return 0;
    for (int k = 0; k < 4; k++) {
        const int64_t wanted = k == 0 ? code->a : k == 1 ? code->b : code->c;
        const struct pplconv_stream *stream = output;
        if (k < 3) {
            int64_t i = 0;
            while (i < a->input_count && inputs[i].reg != wanted) i++;
            if (i == a->input_count) return 0;
            stream = inputs + i;
            s.from[k] = stream->data;
            s.from_rs[k] = stream->rs;
            s.step[k] = stream->step;
        }
        s.narrow[k] = BFLOAT_STREAMS && stream->stored == PPLCONV_STORED_BF16;
        if (stream->stored && !s.narrow[k]) return 0;
        mixed |= s.narrow[k];
    }
#if BFLOAT_STREAMS && HAS_BFCVTN
    if (s.narrow[3] && flushed_registers(a) >> output->reg & 1) s.narrow[3] = FLUSHED;
#endif
    s.to = output->data;
    s.to_rs = output->rs;
    s.rows = a->rows;
    s.columns = a->columns;
    if (s.rows > 1 && are_one_row(&s)) {
        s.columns *= s.rows;
        s.rows = 1;
    }
    const int whole = s.columns % LANES == 0 || s.columns >= 16 * LANES;
    int done = s.rows > 1 && !whole && run_joined(code->op, &s, mixed);
    if (!done) done = run_any(code->op, &s, mixed);
    clean_registers();
    return done;
}

#endif

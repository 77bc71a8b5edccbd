/* Element-wise programs of one instruction: its operands go through machine registers instead of
 * chunks. Rows that follow one another are run as longer rows, so that few vectors are partial;
 * inputs that are the same for each row are repeated for that. A template defines its
 * STRAIGHT_OPERATIONS, load_storage and its kin before it includes this. */
#ifndef PPLCONV_STRAIGHT_H
#define PPLCONV_STRAIGHT_H

#include <string.h>

#include "template.h"

enum { REPEATED = 64 * LANES /* elements of an input that is written down several times */ };

/* Three operands and the result. */
struct straight {
    const storage *from[3];
    int64_t from_rs[3], step[3];
    storage *to;
    int64_t to_rs, rows, columns;
};

static inline vector in_all_lanes(const storage *from) {
#if defined(PPLCONV_STORAGE_F16) || defined(PPLCONV_STORAGE_BF16) || defined(PPLCONV_STORAGE_F32)
    const element x = load_storage_lanes(from, 1)[0];
#else
    const element x = *from;
#endif
    return x - (vector){0}; /* minus, since plus would lose the sign of a zero */
}

#define STRAIGHT(name, expression)                                                                 \
    static void straight_##name(const struct straight *s) {                                        \
        const int64_t columns = s->columns;                                                        \
        const int x_steps = s->step[0] != 0, y_steps = s->step[1] != 0, z_steps = s->step[2] != 0; \
        for (int64_t i = 0; i < s->rows; i++) {                                                    \
            const storage *p = AT_CONST(storage, s->from[0], i * s->from_rs[0]);                   \
            const storage *q = AT_CONST(storage, s->from[1], i * s->from_rs[1]);                   \
            const storage *r = AT_CONST(storage, s->from[2], i * s->from_rs[2]);                   \
            storage *to = AT(storage, s->to, i * s->to_rs);                                        \
            vector x = {0}, y = {0}, z = {0};                                                      \
            int64_t j = 0;                                                                         \
            if (!x_steps) x = in_all_lanes(p);                                                     \
            if (!y_steps) y = in_all_lanes(q);                                                     \
            if (!z_steps) z = in_all_lanes(r);                                                     \
            (void)y;                                                                               \
            (void)z;                                                                               \
            for (; j + LANES <= columns; j += LANES) {                                             \
                if (x_steps) x = load_storage(p + j);                                              \
                if (y_steps) y = load_storage(q + j);                                              \
                if (z_steps) z = load_storage(r + j);                                              \
                store_storage(to + j, (expression));                                               \
            }                                                                                      \
            if (j < columns) {                                                                     \
                const int64_t n = columns - j;                                                     \
                if (x_steps) x = load_storage_lanes(p + j, n);                                     \
                if (y_steps) y = load_storage_lanes(q + j, n);                                     \
                if (z_steps) z = load_storage_lanes(r + j, n);                                     \
                store_storage_lanes(to + j, (expression), n);                                      \
            }                                                                                      \
        }                                                                                          \
    }
STRAIGHT_OPERATIONS(STRAIGHT)

static void run_rows(int64_t op, const struct straight *s) {
    switch (op) {
#define ROWS_OF(name, expression)                                                                  \
    case PPLCONV_DO_##name:                                                                        \
        straight_##name(s);                                                                        \
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

/* Whether all rows follow one another or, for inputs of one value, are the same: then one row. */
static int are_one_row(const struct straight *s) {
    const int64_t bytes = s->columns * (int64_t)sizeof(storage);
    if (s->to_rs != bytes) return 0;
    for (int k = 0; k < 3; k++) {
        if (s->from_rs[k] != (s->step[k] ? bytes : 0)) return 0;
    }
    return 1;
}

/* Run groups of rows that follow one another, each group as one row; 0 if rows do not follow. */
static int run_joined(int64_t op, const struct straight *s) {
    storage repeated[3][REPEATED];
    const int64_t bytes = s->columns * (int64_t)sizeof(storage);
    struct straight joined = *s;
    int64_t together = 1;
    if (s->to_rs != bytes) return 0;
    for (int k = 0; k < 3; k++) {
        if (s->from_rs[k] != 0 && !(s->step[k] && s->from_rs[k] == bytes)) return 0;
    }
    while (together * 2 <= s->rows && together * 2 * s->columns <= REPEATED) together *= 2;
    if (together == 1) return 0;
    for (int k = 0; k < 3; k++) {
        joined.from_rs[k] = together * s->from_rs[k];
        if (!s->step[k] || s->from_rs[k] != 0) continue;
        for (int64_t i = 0; i < together; i++)
            memcpy(repeated[k] + i * s->columns, s->from[k], (size_t)bytes);
        joined.from[k] = repeated[k];
    }
    joined.to_rs = together * bytes;
    joined.columns = together * s->columns;
    joined.rows = s->rows / together;
    run_rows(op, &joined);
    for (int k = 0; k < 3; k++) {
        const storage *first = s->from_rs[k] != 0 ? s->from[k] : joined.from[k];
        joined.from[k] = AT_CONST(storage, first, joined.rows * joined.from_rs[k]);
    }
    joined.to = AT(storage, s->to, joined.rows * joined.to_rs);
    joined.columns = s->rows % together * s->columns;
    joined.rows = joined.columns > 0;
    run_rows(op, &joined);
    return 1;
}

/* Find the three operands and the result of a program of one instruction whose streams have none of
 * the types but `stored`; 0 if the program is of another kind. */
static int find_streams(const struct pplconv_elementwise_args *a, int stored,
                        const struct pplconv_stream *found[4]) {
    const struct pplconv_stream *inputs = a->inputs, *output = a->outputs;
    const struct pplconv_instruction *code = a->code;
    if (a->code_count != 1 || a->output_count != 1 || output->reg != code->to) return 0;
    if (!is_straight(code->op)) return 0;
    found[3] = output;
    for (int k = 0; k < 3; k++) {
        const int64_t wanted = k == 0 ? code->a : k == 1 ? code->b : code->c;
        int64_t i = 0;
        while (i < a->input_count && inputs[i].reg != wanted) i++;
        if (i == a->input_count) return 0;
        found[k] = inputs + i;
    }
    for (int k = 0; k < 4; k++) {
        if (found[k]->stored && found[k]->stored != stored) return 0;
    }
    return 1;
}

/* Run a program of one instruction; 0 if the program is of another kind. */
static int run_straight(const struct pplconv_elementwise_args *a) {
    const struct pplconv_instruction *code = a->code;
    const struct pplconv_stream *found[4];
    struct straight s; /* member by member: to clear it would take as long as some vectors */
    if (!find_streams(a, 0, found)) return 0;
    for (int k = 0; k < 3; k++) {
        s.from[k] = found[k]->data;
        s.from_rs[k] = found[k]->rs;
        s.step[k] = found[k]->step;
    }
    s.to = found[3]->data;
    s.to_rs = found[3]->rs;
    s.rows = a->rows;
    s.columns = a->columns;
    if (s.rows > 1 && are_one_row(&s)) {
        s.columns *= s.rows;
        s.rows = 1;
    }
    const int whole = s.columns % LANES == 0 || s.columns >= 16 * LANES;
    if (s.rows == 1 || whole || !run_joined(code->op, &s)) run_rows(code->op, &s);
    clean_registers();
    return 1;
}

#endif

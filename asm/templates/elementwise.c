/* Programs for every element, interpreted a chunk of columns at a time. Each instruction works on
 * several vectors in a row, so that its dispatch costs little beside its work, and intermediate
 * results never leave L1. The last chunk of a row has as many vectors as there are columns for. */
#include <math.h>

#include "curves.h"
#include "straight.h"

enum {
    VECTORS = PPLCONV_VECTOR_BYTES == 64 ? 4 : 8, /* in a chunk */
    CHUNK = VECTORS * LANES,
};

typedef struct {
    vector v[VECTORS];
} chunk;

typedef element (*function)(element);

static void by_lanes(chunk *to, const chunk *a, function f, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < LANES; j++) to->v[i][j] = f(a->v[i][j]);
    }
}

static void by_pairs(chunk *to, const chunk *a, const chunk *b, element (*f)(element, element),
                     int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < LANES; j++) to->v[i][j] = f(a->v[i][j], b->v[i][j]);
    }
}

/* Name, and function of the mathematical library. */
#define LIBRARY_OPERATIONS(X)                                                                      \
    X(FLOOR, floor)                                                                                \
    X(CEIL, ceil)                                                                                  \
    X(ROUND, nearbyint)                                                                            \
    X(LOGARITHM, log)                                                                              \
    X(ARC_SINE, asin)                                                                              \
    X(ARC_COSINE, acos)                                                                            \
    X(ARC_TANGENT, atan)                                                                           \
    X(HYPERBOLIC_SINE, sinh)                                                                       \
    X(HYPERBOLIC_COSINE, cosh)                                                                     \
    X(AREA_SINE, asinh)                                                                            \
    X(AREA_COSINE, acosh)                                                                          \
    X(AREA_TANGENT, atanh)

#define LIBRARY_CASE(name, function)                                                               \
    case PPLCONV_DO_##name:                                                                        \
        by_lanes(to, a, OF_LIBRARY(function), count);                                              \
        break;

#define CASE(name, expression)                                                                     \
    case PPLCONV_DO_##name:                                                                        \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const vector x = a->v[i], y = b->v[i], z = c->v[i];                                    \
            (void)y;                                                                               \
            (void)z;                                                                               \
            to->v[i] = (expression);                                                               \
        }                                                                                          \
        break;

static inline __attribute__((always_inline)) void
run_instruction(chunk *registers, const struct pplconv_instruction *s, const int64_t count) {
    const vector zero = {0};
    chunk *to = registers + s->to;
    const chunk *a = registers + s->a, *b = registers + s->b, *c = registers + s->c;
    switch (s->op) {
        STRAIGHT_OPERATIONS(CASE)
        OTHER_OPERATIONS(CASE)
        LIBRARY_OPERATIONS(LIBRARY_CASE)
    case PPLCONV_DO_POWER:
        by_pairs(to, a, b, OF_LIBRARY(pow), count);
        break;
    case PPLCONV_DO_REMAINDER:
        by_pairs(to, a, b, OF_LIBRARY(fmod), count);
        break;
    }
}

static void run_whole(chunk *registers, const struct pplconv_instruction *code, int64_t steps) {
    for (int64_t k = 0; k < steps; k++) run_instruction(registers, code + k, VECTORS);
}

static void run_part(chunk *registers, const struct pplconv_instruction *code, int64_t steps,
                     int64_t count) {
    for (int64_t k = 0; k < steps; k++) run_instruction(registers, code + k, count);
}

/* The one element of a row in all lanes. */
static void fill(chunk *registers, const struct pplconv_stream *s, int64_t row) {
    const void *from = AT_CONST(void, s->data, row * s->rs);
    vector v = {0};
    if (!s->truth) v = in_all_lanes(from);
    else v += (element)(*(const uint8_t *)from != 0);
    for (int64_t i = 0; i < VECTORS; i++) registers[s->reg].v[i] = v;
}

static void load(chunk *to, const storage *from, int64_t n) {
    if (n >= CHUNK) {
        for (int64_t i = 0; i < VECTORS; i++) to->v[i] = load_storage(from + i * LANES);
        return;
    }
    for (int64_t i = 0; n > 0; i++, n -= LANES) {
        to->v[i] =
            n >= LANES ? load_storage(from + i * LANES) : load_storage_lanes(from + i * LANES, n);
    }
}

static void store(storage *to, const chunk *from, int64_t n) {
    if (n >= CHUNK) {
        for (int64_t i = 0; i < VECTORS; i++) store_storage(to + i * LANES, from->v[i]);
        return;
    }
    for (int64_t i = 0; n > 0; i++, n -= LANES) {
        if (n >= LANES) store_storage(to + i * LANES, from->v[i]);
        else store_storage_lanes(to + i * LANES, from->v[i], n);
    }
}

/* The chunk of n elements at `column` of a row, or what there is of it. */
static void load_stream(chunk *registers, const struct pplconv_stream *s, int64_t row,
                        int64_t column, int64_t n) {
    chunk *to = registers + s->reg;
    if (!s->truth) {
        load(to, AT_CONST(storage, s->data, row * s->rs) + column, n);
        return;
    }
    const uint8_t *from = AT_CONST(uint8_t, s->data, row * s->rs) + column;
    for (int64_t i = 0; i < CHUNK && i < n; i += LANES)
        to->v[i / LANES] = load_truths(from + i, n - i);
}

static void store_stream(const chunk *registers, const struct pplconv_stream *s, int64_t row,
                         int64_t column, int64_t n) {
    const chunk *from = registers + s->reg;
    if (!s->truth) {
        store(AT(storage, s->data, row * s->rs) + column, from, n);
        return;
    }
    uint8_t *to = AT(uint8_t, s->data, row * s->rs) + column;
    for (int64_t i = 0; i < CHUNK && i < n; i += LANES)
        store_truths(to + i, from->v[i / LANES], n - i);
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_elementwise_args *a = argument;
    const struct pplconv_stream *inputs = a->inputs, *outputs = a->outputs;
    const struct pplconv_instruction *code = a->code;
    chunk registers[PPLCONV_MOST_REGISTERS];
    const int64_t rows = a->columns > 0 ? a->rows : 0;
    if (rows > 0 && run_straight(a)) return;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t k = 0; k < a->input_count; k++) {
            const struct pplconv_stream *s = inputs + k;
            /* An input that is the same for all rows is filled in once. */
            if (!s->step && (i == 0 || s->rs)) fill(registers, s, i);
        }
        for (int64_t j = 0; j < a->columns; j += CHUNK) {
            const int64_t n = a->columns - j;
            for (int64_t k = 0; k < a->input_count; k++) {
                if (inputs[k].step) load_stream(registers, inputs + k, i, j, n);
            }
            if (n >= CHUNK) run_whole(registers, code, a->code_count);
            else run_part(registers, code, a->code_count, (n + LANES - 1) / LANES);
            for (int64_t k = 0; k < a->output_count; k++)
                store_stream(registers, outputs + k, i, j, n);
        }
    }
    clean_registers();
}

/* Programs for every element, interpreted a chunk of columns at a time. Each instruction works on
 * several vectors in a row, so that its dispatch costs little beside its work, and intermediate
 * results never leave L1. */
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

static void by_lanes(chunk *to, const chunk *a, function f) {
    for (int64_t i = 0; i < VECTORS; i++) {
        for (int64_t j = 0; j < LANES; j++) to->v[i][j] = f(a->v[i][j]);
    }
}

static element power(element a, element b) { return OF_LIBRARY(pow)(a, b); }

#define CASE(name, expression)                                                                     \
    case PPLCONV_DO_##name:                                                                        \
        for (int64_t i = 0; i < VECTORS; i++) {                                                    \
            const vector x = a->v[i], y = b->v[i], z = c->v[i];                                    \
            (void)y;                                                                               \
            (void)z;                                                                               \
            to->v[i] = (expression);                                                               \
        }                                                                                          \
        break;

static void run_instruction(chunk *registers, const struct pplconv_instruction *s) {
    const vector zero = {0};
    chunk *to = registers + s->to;
    const chunk *a = registers + s->a, *b = registers + s->b, *c = registers + s->c;
    switch (s->op) {
        STRAIGHT_OPERATIONS(CASE)
        OTHER_OPERATIONS(CASE)
    case PPLCONV_DO_FLOOR:
        by_lanes(to, a, OF_LIBRARY(floor));
        break;
    case PPLCONV_DO_CEIL:
        by_lanes(to, a, OF_LIBRARY(ceil));
        break;
    case PPLCONV_DO_ROUND:
        by_lanes(to, a, OF_LIBRARY(nearbyint));
        break;
    case PPLCONV_DO_POWER:
        for (int64_t i = 0; i < CHUNK; i++)
            to->v[i / LANES][i % LANES] =
                power(a->v[i / LANES][i % LANES], b->v[i / LANES][i % LANES]);
        break;
    case PPLCONV_DO_LOGARITHM:
        by_lanes(to, a, OF_LIBRARY(log));
        break;
    }
}

/* One element in all lanes. */
static void fill(chunk *to, const storage *from) {
    const vector v = in_all_lanes(from);
    for (int64_t i = 0; i < VECTORS; i++) to->v[i] = v;
}

static void load(chunk *to, const storage *from, int64_t n) {
    if (n >= CHUNK) {
        for (int64_t i = 0; i < VECTORS; i++) to->v[i] = load_storage(from + i * LANES);
        return;
    }
    for (int64_t i = 0; i < VECTORS; i++, n -= LANES) {
        if (n >= LANES) to->v[i] = load_storage(from + i * LANES);
        else to->v[i] = n > 0 ? load_storage_lanes(from + i * LANES, n) : (vector){0};
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
            if (!s->step && (i == 0 || s->rs))
                fill(registers + s->reg, AT_CONST(storage, s->data, i * s->rs));
        }
        for (int64_t j = 0; j < a->columns; j += CHUNK) {
            const int64_t n = a->columns - j;
            for (int64_t k = 0; k < a->input_count; k++) {
                const struct pplconv_stream *s = inputs + k;
                if (s->step) load(registers + s->reg, AT_CONST(storage, s->data, i * s->rs) + j, n);
            }
            for (int64_t k = 0; k < a->code_count; k++) run_instruction(registers, code + k);
            for (int64_t k = 0; k < a->output_count; k++) {
                const struct pplconv_stream *s = outputs + k;
                store(AT(storage, s->data, i * s->rs) + j, registers + s->reg, n);
            }
        }
    }
    clean_registers();
}

/* Element-wise programs, interpreted a chunk of columns at a time. Each instruction works on
 * several vectors in a row, so that its dispatch costs little beside its work, and intermediate
 * results never leave L1. The last chunk of a row has as many vectors as there are columns for. A
 * template defines load_storage and its kin, and whether there are BFLOAT_STREAMS, before it
 * includes this, and calls run_program with a function that runs one instruction. */
#ifndef PPLCONV_CHUNKS_H
#define PPLCONV_CHUNKS_H

#include "truths.h"

enum {
    VECTORS = PPLCONV_VECTOR_BYTES == 64 ? 4 : 8, /* in a chunk */
    CHUNK = VECTORS * LANES,
};

typedef struct {
    vector v[VECTORS];
} chunk;

/* Runs an instruction on `count` vectors of its registers. */
typedef void (*run_function)(chunk *registers, const struct pplconv_instruction *s, int64_t count);

#define INSTRUCTION static inline __attribute__((always_inline)) void

#define CASE(name, expression)                                                                     \
    case PPLCONV_DO_##name:                                                                        \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const vector x = a->v[i], y = b->v[i], z = c->v[i];                                    \
            (void)y;                                                                               \
            (void)z;                                                                               \
            to->v[i] = (expression);                                                               \
        }                                                                                          \
        break;

/* A function of two elements, lane by lane. */
static void by_pairs(chunk *to, const chunk *a, const chunk *b, element (*f)(element, element),
                     int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        EACH_LANE to->v[i][j] = f(a->v[i][j], b->v[i][j]);
    }
}

/* Name, type of elements in memory, and the type that numbers take on their way there: of numbers
 * below zero, C defines unsigned integers only if they were integers before. */
#define STORED_TYPES(X)                                                                            \
    X(U8, uint8_t, int32_t)                                                                        \
    X(S8, int8_t, int32_t)                                                                         \
    X(S32, int32_t, int32_t)                                                                       \
    X(S64, int64_t, int64_t)                                                                       \
    X(F32, float, float)                                                                           \
    X(F64, double, double)

/* The first n elements of a chunk, from another type; zeros fill the last vector. */
static void convert_from(chunk *to, int stored, const void *from, int64_t n) {
    element *elements = (element *)to;
    switch (stored) {
#define FROM(name, type, middle)                                                                   \
    case PPLCONV_STORED_##name: {                                                                  \
        const type *p = from;                                                                      \
        for (int64_t i = 0; i < n; i++) elements[i] = (element)p[i];                               \
        break;                                                                                     \
    }
        STORED_TYPES(FROM)
    }
    for (int64_t i = n; i % LANES; i++) elements[i] = 0;
}

/* The same, to another type. */
static void convert_to(void *to, int stored, const chunk *from, int64_t n) {
    const element *elements = (const element *)from;
    switch (stored) {
#define TO(name, type, middle)                                                                     \
    case PPLCONV_STORED_##name: {                                                                  \
        type *p = to;                                                                              \
        for (int64_t i = 0; i < n; i++) p[i] = (type)(middle)elements[i];                          \
        break;                                                                                     \
    }
        STORED_TYPES(TO)
    }
}

static int64_t bytes_of(int stored) {
    switch (stored) {
    case PPLCONV_STORED_TRUTH:
        return 1;
    case PPLCONV_STORED_BF16:
        return 2;
#define BYTES_OF(name, type, middle)                                                               \
    case PPLCONV_STORED_##name:                                                                    \
        return (int64_t)sizeof(type);
        STORED_TYPES(BYTES_OF)
    }
    return (int64_t)sizeof(storage);
}

/* The one element of a row in all lanes. */
static void fill(chunk *registers, const struct pplconv_stream *s, int64_t row) {
    const void *from = AT_CONST(void, s->data, row * s->rs);
    chunk *to = registers + s->reg;
    vector v = {0};
    if (s->stored == PPLCONV_STORED_TRUTH) {
        v += (element)(*(const uint8_t *)from != 0);
#if BFLOAT_STREAMS
    } else if (s->stored == PPLCONV_STORED_BF16) {
        v = load_bfloat_lanes(from, 1)[0] - v;
#endif
    } else if (s->stored) {
        convert_from(to, s->stored, from, 1);
        v = to->v[0][0] - v; /* minus, since plus would lose the sign of a zero */
    } else {
        v = in_all_lanes(from);
    }
    for (int64_t i = 0; i < VECTORS; i++) to->v[i] = v;
}

/* Loads and stores of n elements of a type, or of a chunk if there are more. */
#define LOADS(name, type)                                                                          \
    static void load_##name##s(chunk *to, const type *from, int64_t n) {                           \
        if (n >= CHUNK) {                                                                          \
            for (int64_t i = 0; i < VECTORS; i++) to->v[i] = load_##name(from + i * LANES);        \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; n > 0; i++, n -= LANES) {                                              \
            to->v[i] = n >= LANES ? load_##name(from + i * LANES)                                  \
                                  : load_##name##_lanes(from + i * LANES, n);                      \
        }                                                                                          \
    }

#define STORES(name, type)                                                                         \
    static void store_##name##s(type *to, const chunk *from, int64_t n) {                          \
        if (n >= CHUNK) {                                                                          \
            for (int64_t i = 0; i < VECTORS; i++) store_##name(to + i * LANES, from->v[i]);        \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; n > 0; i++, n -= LANES) {                                              \
            if (n >= LANES) store_##name(to + i * LANES, from->v[i]);                              \
            else store_##name##_lanes(to + i * LANES, from->v[i], n);                              \
        }                                                                                          \
    }
LOADS(storage, storage)
STORES(storage, storage)
#if BFLOAT_STREAMS
LOADS(bfloat, bfloat)
STORES(bfloat, bfloat)
#if HAS_BFCVTN
STORES(flushed_bfloat, bfloat)
#endif
#endif

/* The chunk of n elements at `column` of a row, or what there is of it. */
static void load_stream(chunk *registers, const struct pplconv_stream *s, int64_t row,
                        int64_t column, int64_t n) {
    chunk *to = registers + s->reg;
    const char *from = AT_CONST(char, s->data, row * s->rs + column * bytes_of(s->stored));
    if (!s->stored) {
        load_storages(to, (const storage *)from, n);
#if BFLOAT_STREAMS
    } else if (s->stored == PPLCONV_STORED_BF16) {
        load_bfloats(to, (const bfloat *)from, n);
#endif
    } else if (s->stored == PPLCONV_STORED_TRUTH) {
        for (int64_t i = 0; i < CHUNK && i < n; i += LANES)
            to->v[i / LANES] = load_truths((const uint8_t *)from + i, n - i);
    } else {
        convert_from(to, s->stored, from, n < CHUNK ? n : CHUNK);
    }
}

static void store_stream(const chunk *registers, const struct pplconv_stream *s, int64_t row,
                         int64_t column, int64_t n) {
    const chunk *from = registers + s->reg;
    char *to = AT(char, s->data, row * s->rs + column * bytes_of(s->stored));
    if (!s->stored) {
        store_storages((storage *)to, from, n);
#if BFLOAT_STREAMS
    } else if (s->stored == PPLCONV_STORED_BF16) {
        store_bfloats((bfloat *)to, from, n);
#endif
    } else if (s->stored == PPLCONV_STORED_TRUTH) {
        for (int64_t i = 0; i < CHUNK && i < n; i += LANES)
            store_truths((uint8_t *)to + i, from->v[i / LANES], n - i);
    } else {
        convert_to(to, s->stored, from, n < CHUNK ? n : CHUNK);
    }
}

static inline __attribute__((always_inline)) void
run_program(const struct pplconv_elementwise_args *a, run_function run) {
    const struct pplconv_stream *inputs = a->inputs, *outputs = a->outputs;
    const struct pplconv_instruction *code = a->code;
    chunk registers[PPLCONV_MOST_REGISTERS];
    const int64_t rows = a->columns > 0 ? a->rows : 0;
#if BFLOAT_STREAMS && HAS_BFCVTN
    const uint32_t flushed = rows > 0 ? flushed_registers(a) : 0;
#endif
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
            /* Portable C stays small: it has one copy of the instructions. */
            if (n >= CHUNK && PPLCONV_VECTOR_BYTES >= 32) {
                for (int64_t k = 0; k < a->code_count; k++) run(registers, code + k, VECTORS);
            } else {
                const int64_t count = ((n < CHUNK ? n : CHUNK) + LANES - 1) / LANES;
                for (int64_t k = 0; k < a->code_count; k++) run(registers, code + k, count);
            }
            for (int64_t k = 0; k < a->output_count; k++) {
#if BFLOAT_STREAMS && HAS_BFCVTN
                const struct pplconv_stream *s = outputs + k;
                if (s->stored == PPLCONV_STORED_BF16 && flushed >> s->reg & 1) {
                    char *to = AT(char, s->data, i * s->rs + j * (int64_t)sizeof(bfloat));
                    store_flushed_bfloats((bfloat *)to, registers + s->reg, n);
                    continue;
                }
#endif
                store_stream(registers, outputs + k, i, j, n);
            }
        }
    }
}

#endif

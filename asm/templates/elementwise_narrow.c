/* Programs of integers for every element. Registers are unsigned where they could overflow, since C
 * leaves that open for signed integers. */
#include "clean.h"
#include "template.h"

#if PPLCONV_INTEGER_BITS == 64
typedef uint64_t unsigned_element;
#else
typedef uint32_t unsigned_element;
#endif
typedef element storage;
typedef unsigned_element whole_vector __attribute__((vector_size(PPLCONV_VECTOR_BYTES), may_alias));

static inline vector load_storage(const storage *p) { return *(const unaligned_vector *)p; }
static inline void store_storage(storage *p, vector v) { *(unaligned_vector *)p = v; }
static inline vector load_storage_lanes(const storage *p, int64_t n) {
    vector v = {0};
    for (int64_t i = 0; i < n; i++) v[i] = p[i];
    return v;
}
static inline void store_storage_lanes(storage *p, vector v, int64_t n) {
    for (int64_t i = 0; i < n; i++) p[i] = v[i];
}

static inline vector added(vector a, vector b) {
    return (vector)((whole_vector)a + (whole_vector)b);
}
static inline vector subtracted(vector a, vector b) {
    return (vector)((whole_vector)a - (whole_vector)b);
}
static inline vector multiplied(vector a, vector b) {
    return (vector)((whole_vector)a * (whole_vector)b);
}

/* Name, and result for x, y and z: of programs that are often one instruction. */
#define STRAIGHT_OPERATIONS(X)                                                                     \
    X(ADD, added(x, y))                                                                            \
    X(SUBTRACT, subtracted(x, y))                                                                  \
    X(MULTIPLY, multiplied(x, y))                                                                  \
    X(MULTIPLY_ADD, added(multiplied(x, y), z))

#define BFLOAT_STREAMS 0
#include "straight.h"

#include "chunks.h"

static inline vector smaller(vector a, vector b) {
    return select_lanes((vector_bits)(a < b), a, b);
}
static inline vector larger(vector a, vector b) { return select_lanes((vector_bits)(a > b), a, b); }

/* Rounded toward zero; no quotient by zero ends the process, and none that overflows. */
static inline element quotient(element a, element b) {
    if (b == 0) return 0;
    return b == -1 ? (element)(0 - (unsigned_element)a) : a / b;
}
static inline element remainder_of(element a, element b) { return b == 0 || b == -1 ? 0 : a % b; }

/* The same, of all others. */
#define INTEGER_OPERATIONS(X)                                                                      \
    X(COPY, x)                                                                                     \
    X(MINIMUM, smaller(x, y))                                                                      \
    X(MAXIMUM, larger(x, y))                                                                       \
    X(CLIP, smaller(larger(x, y), z))                                                              \
    X(NEGATE, subtracted(zero, x))                                                                 \
    X(ABSOLUTE, select_lanes((vector_bits)(x < zero), subtracted(zero, x), x))                     \
    X(LESS, truth((vector_bits)(x < y)))                                                           \
    X(LESS_OR_EQUAL, truth((vector_bits)(x <= y)))                                                 \
    X(EQUAL, truth((vector_bits)(x == y)))                                                         \
    X(NOT, truth((vector_bits)(x == zero)))                                                        \
    X(AND, truth((vector_bits)((x != zero) & (y != zero))))                                        \
    X(OR, truth((vector_bits)((x != zero) | (y != zero))))                                         \
    X(WHERE, select_lanes((vector_bits)(x != zero), y, z))

INSTRUCTION run_instruction(chunk *registers, const struct pplconv_instruction *s,
                            const int64_t count) {
    const vector zero = {0};
    chunk *to = registers + s->to;
    const chunk *a = registers + s->a, *b = registers + s->b, *c = registers + s->c;
    switch (s->op) {
        STRAIGHT_OPERATIONS(CASE)
        INTEGER_OPERATIONS(CASE)
    case PPLCONV_DO_DIVIDE:
        by_pairs(to, a, b, quotient, count);
        break;
    case PPLCONV_DO_REMAINDER:
        by_pairs(to, a, b, remainder_of, count);
        break;
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_elementwise_args *a = argument;
    if (a->rows > 0 && a->columns > 0 && run_straight(a)) return;
    run_program(a, run_instruction);
    clean_registers();
}

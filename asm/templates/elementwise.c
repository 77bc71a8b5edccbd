/* Programs of floating-point numbers for every element. */
#include <math.h>

#include "clean.h"
#include "elementwise_operations.h"

/* Only registers of float load and store bfloat16. */
#if !PPLCONV_F64 && !defined(PPLCONV_STORAGE_F16)
#define BFLOAT_STREAMS 1
#include "bfloat.h"
/* Portable C stays small. */
#if PPLCONV_VECTOR_BYTES >= 32 || PPLCONV_NEON
#define MIXED_OPERATIONS(X) SHORT_OPERATIONS(X)
#else
#define MIXED_OPERATIONS(X)
#endif
#include "flushed_registers.h"
#else
#define BFLOAT_STREAMS 0
#endif
#include "straight.h"

#include "chunks.h"

typedef element (*function)(element);

static void by_lanes(chunk *to, const chunk *a, function f, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        EACH_LANE to->v[i][j] = f(a->v[i][j]);
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

INSTRUCTION run_instruction(chunk *registers, const struct pplconv_instruction *s,
                            const int64_t count) {
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

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_elementwise_args *a = argument;
    if (a->rows > 0 && a->columns > 0 && run_straight(a)) return;
    run_program(a, run_instruction);
    clean_registers();
}

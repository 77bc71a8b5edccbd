/* Registers of an element-wise program that end without subnormal numbers, so that BFCVTN may round
 * them (flushed.h). No register counts where a level has no such instruction. */
#ifndef PPLCONV_FLUSHED_REGISTERS_H
#define PPLCONV_FLUSHED_REGISTERS_H

#include "bfloat.h"

#if HAS_BFCVTN

/* Operations that end with arithmetic, whatever the operands are. Arithmetic flushes its results,
 * unless flush-to-zero is off, and then BFCVTN flushes nothing either. */
#define ARITHMETIC_OPERATIONS(X)                                                                   \
    X(ADD) X(SUBTRACT) X(MULTIPLY) X(MULTIPLY_ADD) X(DIVIDE) X(SIGMOID) X(SILU) X(HARDSWISH)

/* Operations that give one of their operands or a product. */
#define MOVING_OPERATIONS(X)                                                                       \
    X(COPY, from_a)                                                                                \
    X(SLOPE, from_a)                                                                               \
    X(MINIMUM, from_a &&from_b)                                                                    \
    X(MAXIMUM, from_a &&from_b)                                                                    \
    X(CLIP, from_a && from_b && from_c)

/* One bit for each register, after the last instruction. */
static uint32_t flushed_registers(const struct pplconv_elementwise_args *a) {
    const struct pplconv_stream *inputs = a->inputs;
    const struct pplconv_instruction *code = a->code;
    uint32_t flushed = 0;
    for (int64_t i = 0; i < a->input_count; i++) {
        const struct pplconv_stream *s = inputs + i;
        /* One number, such as a bound. */
        if (s->stored || s->step || s->rs || is_subnormal(*(const float *)s->data)) continue;
        flushed |= (uint32_t)1 << s->reg;
    }
    for (int64_t i = 0; i < a->code_count; i++) {
        const int from_a = flushed >> code[i].a & 1, from_b = flushed >> code[i].b & 1;
        const int from_c = flushed >> code[i].c & 1;
        int now = 0;
        switch (code[i].op) {
#define ARITHMETIC(name)                                                                           \
    case PPLCONV_DO_##name:                                                                        \
        now = 1;                                                                                   \
        break;
#define MOVING(name, operands)                                                                     \
    case PPLCONV_DO_##name:                                                                        \
        now = operands;                                                                            \
        break;
            ARITHMETIC_OPERATIONS(ARITHMETIC)
            MOVING_OPERATIONS(MOVING)
        }
        flushed = (flushed & ~((uint32_t)1 << code[i].to)) | (uint32_t)now << code[i].to;
    }
    return flushed;
}

_Static_assert(PPLCONV_MOST_REGISTERS <= 32, "each register has a bit");

#endif
#endif

/* State that a kernel must preserve by the System V ABI of x86-64. Part of checked_call.c. */
#include <stddef.h>

struct call_state {
    int64_t level;
    uint64_t sp_before, sp_after, saved_after[6], flags_after;
    uint32_t mxcsr_before, mxcsr_after;
    uint8_t x87_before[32], x87_after[32];
    uint64_t above[ABOVE_WORDS];
    uint8_t vectors[16][64];
};
_Static_assert(offsetof(struct call_state, saved_after) == SAVED_AFTER, "SAVED_AFTER");
_Static_assert(offsetof(struct call_state, mxcsr_before) == MXCSR_BEFORE, "MXCSR_BEFORE");
_Static_assert(offsetof(struct call_state, x87_after) == X87_AFTER, "X87_AFTER");
_Static_assert(offsetof(struct call_state, above) == ABOVE, "ABOVE");
_Static_assert(offsetof(struct call_state, vectors) == VECTORS, "VECTORS");

void watched_call(kernel_function kernel, const void *args, struct call_state *state);

static struct call_state state;

static void enter(kernel_function kernel, const void *args, int64_t level) {
    state.level = level;
    watched_call(kernel, args, &state);
}

static int64_t judge(void) {
    static const uint64_t saved[6] = {RBX_POISON, RBP_POISON, R12_POISON,
                                      R13_POISON, R14_POISON, R15_POISON};
    int64_t faults = 0;
    for (int i = 0; i < 6; i++) {
        if (state.saved_after[i] != saved[i]) faults |= (int64_t)FAULT_SAVED << i;
    }
    if (state.sp_after != state.sp_before) faults |= FAULT_STACK_POINTER;
    for (uint64_t i = 0; i < ABOVE_WORDS; i++) {
        if (state.above[i] != CANARY + i) faults |= FAULT_STACK_ABOVE;
    }
    if (state.flags_after & 1u << 10) faults |= FAULT_DIRECTION;
    /* The six lowest bits say which exceptions have occurred; the ABI lets them change. */
    if ((state.mxcsr_before ^ state.mxcsr_after) >> 6) faults |= FAULT_CONTROL;
    uint16_t control[2], tags[2]; /* bytes 0 and 8 of the environment */
    memcpy(&control[0], state.x87_before, 2);
    memcpy(&control[1], state.x87_after, 2);
    memcpy(&tags[0], state.x87_before + 8, 2);
    memcpy(&tags[1], state.x87_after + 8, 2);
    if (control[0] != control[1] || tags[0] != tags[1]) faults |= FAULT_X87;
#ifndef __SANITIZE_ADDRESS__ /* such builds optimise nothing, and vzeroupper is an optimisation */
    static const size_t first_upper = 16, vector_bytes[] = {16, 32, 64};
    for (int r = 0; r < 16; r++) {
        for (size_t i = first_upper; i < vector_bytes[state.level]; i++) {
            if (state.vectors[r][i]) faults |= FAULT_UPPER_HALVES;
        }
    }
#endif
    return faults;
}

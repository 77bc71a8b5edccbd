/* State that a kernel must preserve by the procedure call standard of 32-bit Arm, with floats in
 * registers. Part of checked_call.c. */
#include <stddef.h>

struct call_state {
    uint32_t sp_before, sp_after, core_after[CORE_REGISTERS];
    uint64_t vectors_after[SAVED_WORDS - CORE_REGISTERS];
    uint32_t fpscr_before, fpscr_after;
    uint64_t above[ABOVE_WORDS];
};
_Static_assert(offsetof(struct call_state, core_after) == SAVED_AFTER, "SAVED_AFTER");
_Static_assert(offsetof(struct call_state, fpscr_before) == FPSCR_BEFORE, "FPSCR_BEFORE");
_Static_assert(offsetof(struct call_state, above) == ABOVE, "ABOVE");
_Static_assert(CANARY == ((uint64_t)CANARY_HIGH << 32 | CANARY_LOW), "CANARY");

/* The control bits of FPSCR, without the flags of comparisons and exceptions. */
enum { CONTROL = 0x07ff9f00 };

void watched_call(kernel_function kernel, const void *args, struct call_state *state);

static struct call_state state;

/* No vector register has upper halves to be cleaned here, so one level is all. */
static void enter(kernel_function kernel, const void *args, int64_t level) {
    (void)level;
    watched_call(kernel, args, &state);
}

static int64_t judge(void) {
    int64_t faults = 0;
    for (uint32_t i = 0; i < SAVED_WORDS; i++) {
        const uint32_t poison = SAVED_POISON + i;
        const int core = i < CORE_REGISTERS;
        if (core ? state.core_after[i] != poison
                 : state.vectors_after[i - CORE_REGISTERS] != ((uint64_t)poison << 32 | poison)) {
            faults |= (int64_t)FAULT_SAVED << i;
        }
    }
    if (state.sp_after != state.sp_before) faults |= FAULT_STACK_POINTER;
    for (uint32_t i = 0; i < ABOVE_WORDS; i++) {
        if (state.above[i] != (uint64_t)CANARY + i) faults |= FAULT_STACK_ABOVE;
    }
    if ((state.fpscr_before ^ state.fpscr_after) & CONTROL) faults |= FAULT_CONTROL;
    return faults;
}

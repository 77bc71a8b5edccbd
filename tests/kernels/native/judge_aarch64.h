/* State that a kernel must preserve by the AArch64 procedure call standard; for checked_call.c. */
#include <stddef.h>

struct call_state {
    uint64_t sp_before, sp_after, saved_after[SAVED_WORDS], fpcr_before, fpcr_after;
    uint64_t above[ABOVE_WORDS];
};
_Static_assert(offsetof(struct call_state, saved_after) == SAVED_AFTER, "SAVED_AFTER");
_Static_assert(offsetof(struct call_state, fpcr_before) == FPCR_BEFORE, "FPCR_BEFORE");
_Static_assert(offsetof(struct call_state, above) == ABOVE, "ABOVE");

void watched_call(kernel_function kernel, const void *args, struct call_state *state);

static struct call_state state;

/* No vector register has upper halves to be cleaned here, so one level is all. */
static void enter(kernel_function kernel, const void *args, int64_t level) {
    (void)level;
    watched_call(kernel, args, &state);
}

static int64_t judge(void) {
    int64_t faults = 0;
    for (uint64_t i = 0; i < SAVED_WORDS; i++) {
        if (state.saved_after[i] != SAVED_POISON + i) faults |= (int64_t)FAULT_SAVED << i;
    }
    if (state.sp_after != state.sp_before) faults |= FAULT_STACK_POINTER;
    for (uint64_t i = 0; i < ABOVE_WORDS; i++) {
        if (state.above[i] != CANARY + i) faults |= FAULT_STACK_ABOVE;
    }
    /* Which exceptions have occurred stands in FPSR; the standard lets it change. */
    if (state.fpcr_before != state.fpcr_after) faults |= FAULT_CONTROL;
    return faults;
}

/* Call a kernel so that whatever it does wrong becomes a report and not a crash. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "checked_call.h"

typedef void (*kernel_function)(const void *args);

/* Mirrored by ctypes in kernel_checker.py. */
struct call_report {
    int64_t faults; /* FAULT_* bits */
    int64_t signal; /* 0: it returned */
    uint64_t fault_address;
};

enum {
    FAULT_SIGNAL = 1,
    FAULT_RBX = 2, /* and five more bits for rbp r12 r13 r14 r15 */
    FAULT_STACK_POINTER = 128,
    FAULT_STACK_ABOVE = 256,
    FAULT_DIRECTION = 512,
    FAULT_MXCSR = 1024,
    FAULT_X87 = 2048,
    FAULT_UPPER_HALVES = 4096,
};

enum { ALTERNATE_STACK = 1 << 16 };

/* Processor time that a kernel may take before it counts as endless. */
int checked_call_seconds = 20;

static const int watched[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGVTALRM};
enum { WATCHED = sizeof watched / sizeof *watched };

static struct sigaction previous[WATCHED];
static sigjmp_buf escape;
static pthread_t caller;
static volatile sig_atomic_t caught;
static void *volatile caught_address;

static void on_signal(int number, siginfo_t *info, void *context) {
    (void)context;
    if (!pthread_equal(pthread_self(), caller)) {
        /* The timer may reach any thread; a fault of another thread is not ours to judge. */
        if (number == SIGVTALRM) pthread_kill(caller, number);
        else signal(number, SIG_DFL);
        return;
    }
    caught = number;
    caught_address = info->si_addr;
    siglongjmp(escape, 1);
}

#if defined(__x86_64__)
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
        if (state.saved_after[i] != saved[i]) faults |= (int64_t)FAULT_RBX << i;
    }
    if (state.sp_after != state.sp_before) faults |= FAULT_STACK_POINTER;
    for (uint64_t i = 0; i < ABOVE_WORDS; i++) {
        if (state.above[i] != CANARY + i) faults |= FAULT_STACK_ABOVE;
    }
    if (state.flags_after & 1u << 10) faults |= FAULT_DIRECTION;
    /* The six lowest bits say which exceptions have occurred; the ABI lets them change. */
    if ((state.mxcsr_before ^ state.mxcsr_after) >> 6) faults |= FAULT_MXCSR;
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

#else

static void enter(kernel_function kernel, const void *args, int64_t level) {
    (void)level;
    kernel(args);
}

static int64_t judge(void) { return 0; }

#endif

static void set_timer(int seconds) {
    const struct itimerval timer = {{0, 0}, {seconds, 0}};
    setitimer(ITIMER_VIRTUAL, &timer, NULL);
}

/* level: 0 for kernels of 16-byte vectors, 1 for 32, 2 for 64. */
void checked_call(kernel_function kernel, const void *args, int64_t level,
                  struct call_report *report) {
    static char alternate[ALTERNATE_STACK];
    /* A kernel that loses the stack pointer must not take the handler with it. */
    const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    stack_t previous_stack;
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);

    memset(report, 0, sizeof *report);
    caught = 0;
    caller = pthread_self();
    sigaltstack(&stack, &previous_stack);
    for (int i = 0; i < WATCHED; i++) sigaction(watched[i], &action, &previous[i]);
    if (sigsetjmp(escape, 1) == 0) {
        set_timer(checked_call_seconds);
        enter(kernel, args, level);
        report->faults = judge();
    } else {
        report->faults = FAULT_SIGNAL;
        report->signal = caught;
        report->fault_address = (uint64_t)(uintptr_t)caught_address;
    }
    set_timer(0);
    for (int i = 0; i < WATCHED; i++) sigaction(watched[i], &previous[i], NULL);
    sigaltstack(&previous_stack, NULL);
}

/* Call a kernel; rules that it breaks are reported instead of a crash. */
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

/* The bits from FAULT_SAVED on are callee-saved registers, as many as the machine has. */
enum {
    FAULT_SIGNAL = 1,
    FAULT_STACK_POINTER = 2,
    FAULT_STACK_ABOVE = 4,
    FAULT_CONTROL = 8,
    FAULT_DIRECTION = 16,
    FAULT_X87 = 32,
    FAULT_UPPER_HALVES = 64,
    FAULT_SAVED = 128,
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
#include "judge_x86_64.h"
#elif defined(__aarch64__)
#include "judge_aarch64.h"
#elif defined(__arm__)
#include "judge_armv7l.h"
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

/* Threads that go on at another CPU than the system has chosen for them.
 *
 * A thread is moved by its mask of CPUs, which is afterwards as it was before: so it may go
 * wherever it might before, and the system may move it again. */
#ifndef PPLCONV_MOVES_H
#define PPLCONV_MOVES_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#if defined(__linux__)
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of the longest mask of CPUs. */
enum { PPLCONV_CPU_WORDS = 8192 / (8 * sizeof(unsigned long)) };

/* Have a thread, 0 for the calling one, run on these CPUs, a bit each; it stays where it is if the
 * system refuses. */
static inline int pplconv_move_to(int thread, const unsigned long *cpus, size_t bytes) {
    return syscall(SYS_sched_setaffinity, thread, bytes, cpus) == 0;
}

/* Move a thread to one CPU, or away from it, if its mask has others. */
static inline void pplconv_move(int thread, int cpu, int away) {
    unsigned long mask[PPLCONV_CPU_WORDS] = {0}, part[PPLCONV_CPU_WORDS] = {0}, any = 0;
    const int bits = 8 * sizeof *mask;
    const long bytes = syscall(SYS_sched_getaffinity, thread, sizeof mask, mask);
    if (bytes <= 0 || cpu < 0 || cpu >= 8 * bytes) return;
    const unsigned long one = 1ul << cpu % bits;
    if (away) {
        memcpy(part, mask, (size_t)bytes);
        part[cpu / bits] &= ~one;
    } else {
        part[cpu / bits] = mask[cpu / bits] & one;
    }
    for (int i = 0; i < PPLCONV_CPU_WORDS; i++) any |= part[i];
    if (any == 0) return;
    if (pplconv_move_to(thread, part, (size_t)bytes)) pplconv_move_to(thread, mask, (size_t)bytes);
}

/* The number by which the system knows the calling thread. */
static inline int pplconv_thread(void) { return (int)syscall(SYS_gettid); }

/* The clock that says how long the calling thread has run; 0 if there is none. */
static inline int pplconv_clock_here(clockid_t *clock) {
    return pthread_getcpuclockid(pthread_self(), clock) == 0;
}
#else
static inline int pplconv_move_to(int thread, const unsigned long *cpus, size_t bytes) {
    (void)thread, (void)cpus, (void)bytes;
    return 0;
}

static inline void pplconv_move(int thread, int cpu, int away) {
    (void)thread, (void)cpu, (void)away;
}

static inline int pplconv_thread(void) { return 0; }

static inline int pplconv_clock_here(clockid_t *clock) {
    (void)clock;
    return 0;
}
#endif

/* How long the thread of a clock has run (ns). */
static inline int64_t pplconv_time_run(clockid_t clock) {
    struct timespec now = {0, 0};
    (void)clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif

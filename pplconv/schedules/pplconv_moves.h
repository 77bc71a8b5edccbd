/* Move threads to another CPU than the system has chosen for them.
 *
 * A thread is moved by a change of its mask of CPUs, which is then restored; so the system may move
 * the thread again, to any of its CPUs. A side effect: Linux remembers that a mask was set, and
 * gives the thread none of the CPUs that a container gets later. */
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

/* Words of the longest mask of CPUs. */
enum { PPLCONV_CPU_WORDS = 8192 / (8 * sizeof(unsigned long)) };

/* Have a thread, 0 for the calling one, run on these CPUs, a bit each; it stays where it is if the
 * system refuses. */
static inline int pplconv_move_to(int thread, const unsigned long *cpus, size_t bytes) {
    return syscall(SYS_sched_setaffinity, thread, bytes, cpus) == 0;
}

/* A thread whose mask is reduced for the moment: the whole mask, and the part in force. */
typedef struct {
    int thread;
    size_t bytes;
    unsigned long mask[PPLCONV_CPU_WORDS], part[PPLCONV_CPU_WORDS];
} pplconv_moved;

/* Move a thread to one CPU, or away from it. Returns 0 if the CPU is not in its mask, if no other
 * is, or if the system refuses. */
static inline int pplconv_begin_move(pplconv_moved *m, int thread, int cpu, int away) {
    const int bits = 8 * sizeof *m->mask;
    const long bytes = syscall(SYS_sched_getaffinity, thread, sizeof m->mask, m->mask);
    unsigned long any = 0;
    if (bytes <= 0 || thread == 0 || cpu < 0 || cpu >= 8 * bytes) return 0;
    const unsigned long one = 1ul << cpu % bits;
    if (away && !(m->mask[cpu / bits] & one)) return 0;
    m->thread = thread, m->bytes = (size_t)bytes;
    if (away) memcpy(m->part, m->mask, m->bytes), m->part[cpu / bits] &= ~one;
    else memset(m->part, 0, m->bytes), m->part[cpu / bits] = m->mask[cpu / bits] & one;
    for (size_t i = 0; i < m->bytes / sizeof any; i++) any |= m->part[i];
    return any && pplconv_move_to(thread, m->part, m->bytes);
}

/* Give the thread its mask back, unless somebody else has given it another one. */
static inline void pplconv_end_move(const pplconv_moved *m) {
    unsigned long now[PPLCONV_CPU_WORDS];
    if (syscall(SYS_sched_getaffinity, m->thread, sizeof now, now) != (long)m->bytes ||
        memcmp(now, m->part, m->bytes) != 0)
        return;
    for (int tries = 0; tries < 3 && !pplconv_move_to(m->thread, m->mask, m->bytes); tries++) {
    }
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

typedef int pplconv_moved;

static inline int pplconv_begin_move(pplconv_moved *m, int thread, int cpu, int away) {
    (void)m, (void)thread, (void)cpu, (void)away;
    return 0;
}

static inline void pplconv_end_move(const pplconv_moved *m) { (void)m; }

static inline int pplconv_thread(void) { return 0; }

static inline int pplconv_clock_here(clockid_t *clock) {
    (void)clock;
    return 0;
}
#endif

/* How long the thread of a clock has run (ns); below 0 if the system does not say. */
static inline int64_t pplconv_time_run(clockid_t clock) {
    struct timespec now;
    if (clock_gettime(clock, &now)) return -1;
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif

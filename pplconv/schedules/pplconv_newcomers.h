/* The start of a new worker: the CPUs it may run on, and the signals it blocks. */
#ifndef PPLCONV_NEWCOMERS_H
#define PPLCONV_NEWCOMERS_H

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* CPUs of workers, if they should not inherit the CPUs of their leader; see sched_setaffinity. */
enum { PPLCONV_CREW_WORDS = 8192 / (8 * sizeof(unsigned long)) };
static unsigned long pplconv_crew_cpus[PPLCONV_CREW_WORDS];
static int pplconv_crew_spreads;

/* The CPUs that the calling thread had before a pin bound it, a bit each; 0 if it has them now. */
typedef int (*pplconv_cpus_before)(unsigned long *cpus, size_t bytes);

/* Arguments of a new worker, which frees them. Each has its own: its leader may hire again
 * meanwhile. */
typedef struct {
    void *seat;
    int moves; /* to `cpus` */
    unsigned long cpus[PPLCONV_CREW_WORDS];
} pplconv_newcomer;

/* Add a CPU to those of workers that start from now on. */
static inline void pplconv_spread_to(int cpu) {
    const int bits = 8 * sizeof(unsigned long);
    if (cpu < 0 || cpu >= PPLCONV_CREW_WORDS * bits) return;
    __atomic_fetch_or(&pplconv_crew_cpus[cpu / bits], 1ul << cpu % bits, __ATOMIC_RELAXED);
    __atomic_store_n(&pplconv_crew_spreads, 1, __ATOMIC_RELEASE);
}

/* A worker does not inherit CPUs to which a pin or OpenMP has bound its leader. */
static pplconv_newcomer *pplconv_make_newcomer(void *seat, pplconv_cpus_before before) {
    pplconv_newcomer *newcomer = (pplconv_newcomer *)calloc(1, sizeof *newcomer);
    if (newcomer == NULL) return NULL;
    newcomer->seat = seat;
    newcomer->moves = __atomic_load_n(&pplconv_crew_spreads, __ATOMIC_ACQUIRE);
    if (newcomer->moves) memcpy(newcomer->cpus, pplconv_crew_cpus, sizeof pplconv_crew_cpus);
    else if (before) newcomer->moves = before(newcomer->cpus, sizeof newcomer->cpus);
    return newcomer;
}

/* Workers block all signals but those of faults, which stay with the thread that causes them. The
 * program's own threads handle the others. */
static void pplconv_block_signals(sigset_t *before) {
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, before);
}

#endif

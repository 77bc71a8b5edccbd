/* The number of threads that compute, over all calls of the process; and the number of threads that
 * OpenMP allows a thread for which nobody has set a limit. Only team.pyx includes this, so there is
 * one count. */
#ifndef PPLCONV_TEAM_H
#define PPLCONV_TEAM_H

#include <omp.h>
#include <pthread.h>
#include <stdint.h>

static int pplconv_team_used;

/* Count in up to `wanted` threads, so that no more than `most` are counted; at least one. Returns
 * how many it has counted in. */
static inline int pplconv_team_take(int wanted, int most) {
    int used = __atomic_load_n(&pplconv_team_used, __ATOMIC_RELAXED);
    int team;
    do {
        team = most - used;
        if (team > wanted) team = wanted;
        if (team < 1) team = 1;
    } while (!__atomic_compare_exchange_n(&pplconv_team_used, &used, used + team, 1,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return team;
}

static inline void pplconv_team_leave(int team) {
    (void)__atomic_fetch_sub(&pplconv_team_used, team, __ATOMIC_RELAXED);
}

static inline int pplconv_team_in_use(void) {
    return __atomic_load_n(&pplconv_team_used, __ATOMIC_RELAXED);
}

/* In a forked child: the parent's computing threads do not exist here. */
static inline void pplconv_team_forget(void) {
    __atomic_store_n(&pplconv_team_used, 0, __ATOMIC_RELAXED);
}

static void *pplconv_team_ask(void *answer) {
    *(int *)answer = omp_get_max_threads();
    return NULL;
}

/* omp_set_num_threads, and so threadpoolctl, sets a number for the thread that calls it; a new
 * thread has the number that OpenMP began with. Returns 0 if no thread can be started. */
static int pplconv_team_unlimited(void) {
    static int kept;
    int answer = __atomic_load_n(&kept, __ATOMIC_RELAXED);
    pthread_t thread;
    if (answer == 0 && pthread_create(&thread, NULL, pplconv_team_ask, &answer) == 0) {
        pthread_join(thread, NULL);
        __atomic_store_n(&kept, answer, __ATOMIC_RELAXED);
    }
    return answer;
}

#endif

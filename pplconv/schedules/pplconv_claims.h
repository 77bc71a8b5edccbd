/* Which thread takes which task of a phase. Each thread begins with a range of its own, the same
 * one in every call, so that its last results are still in its own caches. When that range is done,
 * it takes tasks from the ranges of others, so that slower cores do less.
 *
 * A thread may come late and expect a phase that others have finished. So a claim depends on
 * nothing that the thread has read before. A range's word holds the number of tasks left and the
 * number of threads that may take them. A thread that lowers it by one owns a task of the phase
 * that is open at that moment. That phase stays open until the task is reported as done; the thread
 * may read the description of the phase only after its claim. */
#ifndef PPLCONV_CLAIMS_H
#define PPLCONV_CLAIMS_H

#include <stdint.h>

/* Ranges of a phase; larger teams share them. Words are 128 bytes apart, as prefetchers fetch cache
 * lines in pairs. */
enum { PPLCONV_RANGES = 64, PPLCONV_APART = 128 };

typedef struct {
    struct {
        /* The size of the team in the upper half, the tasks that are left in the lower one. */
        _Alignas(PPLCONV_APART) uint64_t left;
    } range[PPLCONV_RANGES];
} pplconv_claims;

/* A task that a thread has taken: the `left`-th from the end of a range. */
typedef struct {
    int range;
    int64_t left;
} pplconv_claimed;

static inline int pplconv_ranges(int team) { return team < PPLCONV_RANGES ? team : PPLCONV_RANGES; }

/* Offer `tasks` to the threads of a team. No task of the previous offer may be left. */
static inline void pplconv_offer(pplconv_claims *c, int team, int64_t tasks) {
    const int ranges = pplconv_ranges(team);
    for (int at = 0; at < ranges; at++) {
        const int64_t length = tasks * (at + 1) / ranges - tasks * at / ranges;
        const uint64_t left = (uint64_t)team << 32 | (uint64_t)length;
        __atomic_store_n(&c->range[at].left, left, __ATOMIC_RELEASE);
    }
}

static inline int pplconv_claim_at(pplconv_claims *c, int member, int at,
                                   pplconv_claimed *claimed) {
    uint64_t *word = &c->range[at].left;
    /* A plain load first: it does not take the cache line away from threads that claim tasks. */
    uint64_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    while ((uint32_t)seen != 0 && (uint64_t)member < seen >> 32) {
        if (__atomic_compare_exchange_n(word, &seen, seen - 1, 1, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED)) {
            *claimed = (pplconv_claimed){at, (int64_t)(uint32_t)seen};
            return 1;
        }
    }
    return 0;
}

/* Take a task that nobody has taken, of `ranges`; 0 if there is none. */
static inline int pplconv_claim(pplconv_claims *c, int member, int ranges,
                                pplconv_claimed *claimed) {
    const int own = member % ranges;
    if (pplconv_claim_at(c, member, own, claimed)) return 1;
#ifndef __SANITIZE_THREAD__
    for (int i = 1; i < ranges; i++)
        if (pplconv_claim_at(c, member, own + i < ranges ? own + i : own + i - ranges, claimed))
            return 1;
#endif
    return 0;
}

/* The number of a task, of `tasks` in the phase. */
static inline int64_t pplconv_number(pplconv_claimed claimed, int ranges, int64_t tasks,
                                     uint64_t drawn) {
    const int64_t number = tasks * (claimed.range + 1) / ranges - claimed.left;
#ifdef __SANITIZE_THREAD__
    /* For ThreadSanitizer, tasks are dealt to threads anew in each phase, pseudo-randomly, and no
     * thread takes tasks of another. Then two tasks that touch the same byte are reported, whatever
     * the timing. Any order of the tasks is correct. */
    uint64_t mixed = (drawn + 1) * 0x9e3779b97f4a7c15u, a, b;
    int64_t step;
    mixed = (mixed ^ mixed >> 33) * 0xc4ceb9fe1a85ec53u;
    for (step = (int64_t)((mixed >> 33) % (uint64_t)tasks);; step = step % tasks + 1) {
        for (a = (uint64_t)step, b = (uint64_t)tasks; a != 0;) {
            const uint64_t rest = b % a;
            b = a, a = rest;
        }
        if (b == 1) break;
    }
    return (int64_t)(((uint64_t)number * (uint64_t)step + (mixed & 0xffff)) % (uint64_t)tasks);
#else
    (void)drawn;
    return number;
#endif
}

#endif

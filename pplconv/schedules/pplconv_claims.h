/* Who takes which task of a phase. Each thread begins with a range of its own, the same one in
 * every call, so that what it wrote the last time lies in its own caches; when that is done it
 * takes from the ranges of others, so that slower cores do less. */
#ifndef PPLCONV_CLAIMS_H
#define PPLCONV_CLAIMS_H

#include <stdint.h>

/* Ranges of a phase; larger teams share them. Fetched ahead, lines come in pairs. */
enum { PPLCONV_RANGES = 64, PPLCONV_APART = 128 };

/* Tasks that have been taken from the ranges of two phases in turn: while the threads are in one,
 * they clear what belongs to the next. */
struct pplconv_claims {
    struct {
        _Alignas(PPLCONV_APART) int64_t taken;
    } range[2][PPLCONV_RANGES];
    uint64_t drawn; /* of this team, for a tool that looks for races */
};

/* What belongs to a phase, by a thread that is in the one before. */
static inline void pplconv_open_claims(struct pplconv_claims *c, int turn, int range) {
    __atomic_store_n(&c->range[turn & 1][range].taken, 0, __ATOMIC_RELAXED);
}

/* What belongs to the first phase, before there is a team of `threads`, or fewer. */
static inline void pplconv_begin_claims(struct pplconv_claims *c, int threads) {
#ifdef __SANITIZE_THREAD__
    static uint64_t teams;
    c->drawn = __atomic_fetch_add(&teams, 1, __ATOMIC_RELAXED);
#endif
    for (int range = 0; range < threads && range < PPLCONV_RANGES; range++)
        pplconv_open_claims(c, 0, range);
}

/* A task that nobody has taken, or -1 if there is none. `own` is the thread's range, of `ranges`
 * that divide `tasks`. */
static inline int64_t pplconv_claim(struct pplconv_claims *c, int turn, int own, int ranges,
                                    int64_t tasks) {
#ifdef __SANITIZE_THREAD__
    /* Whose a task is is drawn anew for each team, and nobody takes what is another's: tasks that
     * touch the same byte race, whoever comes first. Any mixture of the bits will do. */
    for (;;) {
        const int64_t task =
            __atomic_fetch_add(&c->range[turn & 1][own].taken, 1, __ATOMIC_RELAXED);
        uint64_t mixed =
            ((uint64_t)task + 1) * 0x9e3779b97f4a7c15u ^ c->drawn * 0xff51afd7ed558ccdu;
        mixed = (mixed ^ mixed >> 33) * 0xc4ceb9fe1a85ec53u;
        if (task >= tasks) return -1;
        if ((int)((mixed >> 33) % (uint64_t)ranges) == own) return task;
    }
#else
    for (int i = 0; i < ranges; i++) {
        const int at = own + i < ranges ? own + i : own + i - ranges;
        const int64_t begin = tasks * at / ranges, length = tasks * (at + 1) / ranges - begin;
        int64_t *taken = &c->range[turn & 1][at].taken;
        /* A look leaves the line with those who take. */
        if (__atomic_load_n(taken, __ATOMIC_RELAXED) >= length) continue;
        const int64_t task = __atomic_fetch_add(taken, 1, __ATOMIC_RELAXED);
        if (task < length) return begin + task;
    }
    return -1;
#endif
}

#endif

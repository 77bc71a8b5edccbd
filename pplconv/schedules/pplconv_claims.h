/* Who takes which task of a phase. Each thread begins with a range of its own, the same one in every
 * call, so that what it wrote the last time lies in its own caches; when that is done it takes from
 * the ranges of others, so that slower cores do less. */
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
};

static inline void pplconv_open_claims(struct pplconv_claims *c, int turn, int range) {
    __atomic_store_n(&c->range[turn & 1][range].taken, 0, __ATOMIC_RELAXED);
}

/* The range that a search begins with. A tool that looks for races sees most of them if tasks that
 * touch the same byte are seldom one thread's. */
static inline int pplconv_first_range(int own, int ranges) {
#ifdef __SANITIZE_THREAD__
    static _Thread_local uint32_t drawn;
    drawn = drawn * 1664525u + 1013904223u + (uint32_t)own;
    return (int)((drawn >> 8) % (uint32_t)ranges);
#else
    (void)ranges;
    return own;
#endif
}

/* A task that nobody has taken, or -1 if there is none. `own` is the thread's range, of `ranges`
 * that divide `tasks`. */
static inline int64_t pplconv_claim(struct pplconv_claims *c, int turn, int own, int ranges,
                                    int64_t tasks) {
    const int first = pplconv_first_range(own, ranges);
    for (int i = 0; i < ranges; i++) {
        const int at = first + i < ranges ? first + i : first + i - ranges;
        const int64_t begin = tasks * at / ranges, length = tasks * (at + 1) / ranges - begin;
        int64_t *taken = &c->range[turn & 1][at].taken;
        /* A look leaves the line with those who take. */
        if (__atomic_load_n(taken, __ATOMIC_RELAXED) >= length) continue;
        const int64_t task = __atomic_fetch_add(taken, 1, __ATOMIC_RELAXED);
        if (task < length) return begin + task;
    }
    return -1;
}

#endif

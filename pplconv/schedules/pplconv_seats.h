/* The members of a team: the crew, a seat for each member, and each thread's own record. */
#ifndef PPLCONV_SEATS_H
#define PPLCONV_SEATS_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "pplconv_claims.h"
#include "pplconv_newcomers.h"
#include "pplconv_phases.h"

enum { PPLCONV_MOST_MEMBERS = 1024 };

/* The places of a team under a pin; `binding` is NULL without a pin. */
typedef struct {
    void *binding;
    uint64_t serial, leader;
    int first;
} pplconv_station;

typedef struct {
    /* Have the calling thread take its place. */
    void (*take)(const pplconv_station *station, int member);
    pplconv_cpus_before before;
} pplconv_places;

struct pplconv_crew;

typedef struct {
    _Alignas(PPLCONV_APART / 2) struct pplconv_crew *crew;
    uint64_t stations;
    int number;
    int asleep; /* or about to be */
    int cpu;    /* where it was seen last; -1 while it sleeps */
    int busy;   /* with tasks */
    int thread; /* 0 if the time it runs is unknown */
    clockid_t clock;
    int64_t ran;   /* how long, when its leader last saw it busy; else below 0 */
    int64_t stays; /* until when it stays at its leader's CPU (ns of the monotonic clock) */
    int64_t aside; /* until when its leader wakes it elsewhere */
} pplconv_seat;

typedef struct pplconv_crew {
    /* Raised whenever there is something new to see; threads sleep on it. */
    _Alignas(PPLCONV_APART) uint32_t epoch;
    int over; /* the call's last task is done */
    int ranges, team;
    /* Read by threads that have a task of it; written by the thread that opens it. */
    pplconv_phase phase;
    _Alignas(PPLCONV_APART) int64_t done;
    /* The rest of the call, for the thread that opens the next phase. */
    _Alignas(PPLCONV_APART) const pplconv_phase *phases;
    int64_t rounds, again;
    int count, next;
    char *scratch;
    int64_t thread_scratch;
    const pplconv_hooks *hooks;
    uint64_t opened;
    /* Places under a pin. If they are new, all take them before a call begins. */
    pplconv_station station;
    const pplconv_places *places;
    uint64_t stations; /* upper half: how often places were new; lower: that team's size */
    int placed;
    int workers, holders, dismissed;
    pplconv_claims claims;
    pplconv_seat seat[PPLCONV_MOST_MEMBERS];
} pplconv_crew;

/* A thread in a team. */
typedef struct {
    pplconv_crew *crew;
    int number;
    uint64_t stations;
    const pplconv_hooks *hooks;
    uint64_t entered;
    int leads; /* a call that has begun */
} pplconv_member;

static inline uint32_t pplconv_bit(int member) {
    return member == 0 ? 1u : 2u << ((member - 1) % 31);
}

static void pplconv_use_hooks(pplconv_member *me, const pplconv_hooks *hooks) {
    if (me->hooks == hooks) return;
    if (me->hooks) me->hooks->leave(me->entered);
    me->hooks = hooks;
    if (hooks) me->entered = hooks->enter();
}

#endif

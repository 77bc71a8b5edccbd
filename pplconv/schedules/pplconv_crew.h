/* Teams: a thread that calls, and workers of its own that help it.
 *
 * Phases end when all their tasks are done, not when all threads have come: whoever finishes the
 * last task opens the next phase. So nobody waits for a thread that the system has not let run,
 * unless it was stopped inside a task, or before it has told of its last one. A worker that comes
 * late joins the phase that is open, of this call or of a later one; what it reads before it has a
 * task lies in the crew, which lives as long as the worker.
 *
 * Who finds no task looks for a while and then sleeps. It sleeps at once if another thread of the
 * team was last seen on its own CPU: that thread may be waiting for it.
 *
 * Beside other programs the system may wake a worker on the CPU of its leader, where it helps
 * nobody: it goes on at another one. And it may stop a worker in the middle of a task for some
 * milliseconds: the leader, who has nothing else to do, then gives it its own CPU. */
#ifndef PPLCONV_CREW_H
#define PPLCONV_CREW_H

#include <stdlib.h>
#include <string.h>

#include "pplconv_claims.h"
#include "pplconv_moves.h"
#include "pplconv_newcomers.h"
#include "pplconv_phases.h"
#include "pplconv_rest.h"
#include "pplconv_schedules.h"

enum {
    PPLCONV_MOST_MEMBERS = 1024,
    /* A wake-up takes tens of microseconds: looking for longer than that costs more than it
     * saves. */
    PPLCONV_LOOK_NS = 100000,
    PPLCONV_LOOKS = 16, /* between two looks at the clock */
    /* How often a leader checks whether the workers that it waits for run, awake and asleep; how
     * many workers at a time; and the least part of that time which they should have run. */
    PPLCONV_CHECK_NS = 20000,
    PPLCONV_SLOW_CHECK_NS = 250000,
    PPLCONV_CHECKED = 32,
    PPLCONV_RUN_PART = 4,
    /* How long a worker then stays with its leader: about as long as the system runs others before
     * it is its turn again. */
    PPLCONV_STAY_NS = 4000000
};

/* Where a team belongs by a pin; `binding` is NULL where nothing was asked for. */
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
    int moving; /* somebody moves it to another CPU */
    int thread; /* 0 if the time it runs is unknown */
    clockid_t clock;
    int64_t ran;   /* how long, when its leader last saw it busy; else below 0 */
    int64_t stays; /* until when it stays at its leader's CPU */
} pplconv_seat;

typedef struct pplconv_crew {
    /* Raised whenever there is something new to see; threads sleep on it. */
    _Alignas(PPLCONV_APART) uint32_t epoch;
    int over; /* the call's last task is done */
    int ranges, team;
    /* Of who has a task of it; written by who opens it. */
    pplconv_phase phase;
    _Alignas(PPLCONV_APART) int64_t done;
    /* What is left of the call, for who opens the next phase. */
    _Alignas(PPLCONV_APART) const pplconv_phase *phases;
    int64_t rounds, again;
    int count, next;
    char *scratch;
    int64_t thread_scratch;
    const pplconv_hooks *hooks;
    uint64_t opened;
    /* Places under a pin: taken by all before a call begins, where they are new. */
    pplconv_station station;
    const pplconv_places *places;
    uint64_t stations; /* how many there were, and for a team of which size the last was */
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
    int checks; /* whether those that it waits for are run */
} pplconv_member;

static pthread_once_t pplconv_crew_once = PTHREAD_ONCE_INIT;
static pthread_key_t pplconv_crew_key;
static int pplconv_crew_error;
static __thread pplconv_crew *pplconv_own_crew;

static inline uint32_t pplconv_bit(int member) {
    return member == 0 ? 1u : 2u << ((member - 1) % 31);
}

static void pplconv_use_hooks(pplconv_member *me, const pplconv_hooks *hooks) {
    if (me->hooks == hooks) return;
    if (me->hooks) me->hooks->leave(me->entered);
    me->hooks = hooks;
    if (hooks) me->entered = hooks->enter();
}

/* Say that there is something new, and wake at most `most` workers. */
static void pplconv_announce(pplconv_crew *crew, int team, int64_t most) {
    uint32_t who = 0;
#ifdef __SANITIZE_THREAD__
    most = INT64_MAX; /* nobody takes the tasks of others */
#endif
    __atomic_add_fetch(&crew->epoch, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < team; i++)
        if (!__atomic_load_n(&crew->seat[i].asleep, __ATOMIC_SEQ_CST)) most--;
    for (int i = 0; i < team && most > 0; i++) {
        if (!__atomic_load_n(&crew->seat[i].asleep, __ATOMIC_SEQ_CST)) continue;
        who |= pplconv_bit(i);
        most--;
    }
    if (who) pplconv_wake(&crew->epoch, who);
}

/* Tell the caller that all is done. */
static void pplconv_finish(pplconv_crew *crew, const pplconv_member *me) {
    __atomic_store_n(&crew->over, 1, __ATOMIC_RELEASE);
    if (me->number == 0) return;
    __atomic_add_fetch(&crew->epoch, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&crew->seat[0].asleep, __ATOMIC_SEQ_CST))
        pplconv_wake(&crew->epoch, pplconv_bit(0));
}

/* Open the next phase; all tasks of the one before are done. */
static void pplconv_open_next(pplconv_crew *crew, const pplconv_member *me) {
    char *scratch = crew->scratch + me->number * crew->thread_scratch;
    for (;;) {
        if (crew->next == crew->count) {
            crew->next = 0;
            if (++crew->again >= crew->rounds) break;
        }
        pplconv_phase phase = crew->phases[crew->next++];
        phase.first += crew->again * phase.tasks;
        if (phase.tasks == 1) phase.run(phase.job, phase.first, scratch);
        if (phase.tasks <= 1) continue;
        crew->phase = phase;
        crew->opened++;
        __atomic_store_n(&crew->done, 0, __ATOMIC_RELAXED);
        /* Others may have begun another call once all is offered. */
        const int team = crew->team;
        pplconv_offer(&crew->claims, team, phase.tasks);
        pplconv_announce(crew, team, phase.tasks);
        return;
    }
    pplconv_finish(crew, me);
}

/* Do what there is to do; 0 if there was nothing. */
static int pplconv_take_part(pplconv_crew *crew, pplconv_member *me) {
    pplconv_seat *seat = &crew->seat[me->number];
    pplconv_claimed claimed;
    int worked = 0;
    while (pplconv_claim(&crew->claims, me->number,
                         __atomic_load_n(&crew->ranges, __ATOMIC_RELAXED), &claimed)) {
        /* The phase stays open until these tasks are counted as done. */
        const pplconv_phase phase = crew->phase;
        const uint64_t drawn = crew->opened;
        const int ranges = pplconv_ranges(crew->team), cpu = pplconv_cpu();
        char *scratch = crew->scratch + me->number * crew->thread_scratch;
        int64_t done = 0;
        if (!worked) __atomic_store_n(&seat->busy, 1, __ATOMIC_RELEASE);
        worked = 1;
        pplconv_use_hooks(me, crew->hooks);
        if (seat->cpu != cpu) __atomic_store_n(&seat->cpu, cpu, __ATOMIC_RELAXED);
        do {
            const int64_t task = pplconv_number(claimed, ranges, phase.tasks, drawn);
            phase.run(phase.job, phase.first + task, scratch);
            done++;
        } while (pplconv_claim(&crew->claims, me->number, ranges, &claimed));
        if (__atomic_add_fetch(&crew->done, done, __ATOMIC_RELEASE) < phase.tasks) break;
        (void)__atomic_load_n(&crew->done, __ATOMIC_ACQUIRE);
        pplconv_open_next(crew, me);
    }
    if (worked) __atomic_store_n(&seat->busy, 0, __ATOMIC_RELAXED);
    return worked;
}

/* Whether another thread of the team was last seen on the CPU of this one. */
static int pplconv_is_crowded(pplconv_crew *crew, int member, int team) {
    const int cpu = pplconv_cpu();
    if (cpu < 0) return 0;
    if (crew->seat[member].cpu != cpu)
        __atomic_store_n(&crew->seat[member].cpu, cpu, __ATOMIC_RELAXED);
    for (int i = 0; i < team; i++)
        if (i != member && __atomic_load_n(&crew->seat[i].cpu, __ATOMIC_RELAXED) == cpu) return 1;
    return 0;
}

/* Move a worker to the CPU, or away from it. A thread has one mask: whoever changes it is alone. */
static void pplconv_move_worker(pplconv_seat *seat, int thread, int cpu, int away) {
    if (__atomic_exchange_n(&seat->moving, 1, __ATOMIC_ACQUIRE)) return;
    pplconv_move(thread, cpu, away);
    __atomic_store_n(&seat->moving, 0, __ATOMIC_RELEASE);
}

/* Have a worker that was woken on its leader's CPU go on at another one. */
static void pplconv_step_aside(pplconv_crew *crew, const pplconv_member *me) {
    pplconv_seat *seat = &crew->seat[me->number];
    const int cpu = pplconv_cpu();
    if (me->number == 0 || cpu < 0) return;
    if (__atomic_load_n(&crew->seat[0].cpu, __ATOMIC_RELAXED) != cpu) return;
    if (pplconv_clock() < __atomic_load_n(&seat->stays, __ATOMIC_RELAXED)) return;
    pplconv_move_worker(seat, 0, cpu, 1);
}

/* Have a worker that has tasks, but was not run in the time since the last check (ns), go on at the
 * leader's CPU; gives 1 if there was one. */
static int pplconv_make_way(pplconv_crew *crew, int team, int64_t since) {
    int checked = 0;
    for (int i = 1; i < team && checked < PPLCONV_CHECKED; i++) {
        pplconv_seat *seat = &crew->seat[i];
        const int64_t before = seat->ran;
        seat->ran = -1;
        if (!__atomic_load_n(&seat->busy, __ATOMIC_ACQUIRE) || !seat->thread) continue;
        seat->ran = pplconv_time_run(seat->clock);
        checked++;
        if (before < 0 || seat->ran - before >= since / PPLCONV_RUN_PART) continue;
        __atomic_store_n(&seat->stays, pplconv_clock() + PPLCONV_STAY_NS, __ATOMIC_RELAXED);
        pplconv_move_worker(seat, seat->thread, pplconv_cpu(), 0);
        return 1;
    }
    return 0;
}

/* Sleep until there is something new since `epoch`, or for no reason. */
static void pplconv_doze(pplconv_crew *crew, const pplconv_member *me, uint32_t epoch, int team) {
    const uint32_t bit = pplconv_bit(me->number);
    int64_t last = pplconv_clock();
    if (!me->checks) {
        pplconv_sleep(&crew->epoch, epoch, bit);
        return;
    }
    while (!pplconv_sleep_until(&crew->epoch, epoch, bit, last + PPLCONV_SLOW_CHECK_NS)) {
        const int64_t now = pplconv_clock();
        (void)pplconv_make_way(crew, team, now - last);
        last = now;
    }
}

/* Wait until there is something new since `epoch`, or for no reason. */
static void pplconv_await(pplconv_crew *crew, pplconv_member *me, uint32_t epoch) {
    pplconv_seat *seat = &crew->seat[me->number];
    const int team = __atomic_load_n(&crew->team, __ATOMIC_ACQUIRE);
    int64_t now = pplconv_clock(), checked = now;
    const int64_t until = now + PPLCONV_LOOK_NS;
    int checks = 0;
    if (me->number < team) {
        while (!pplconv_is_crowded(crew, me->number, team) && now < until) {
            for (int i = 0; i < PPLCONV_LOOKS; i++) {
                pplconv_pause();
                if (__atomic_load_n(&crew->epoch, __ATOMIC_ACQUIRE) != epoch) return;
            }
            now = pplconv_clock();
            if (!me->checks || now < checked + PPLCONV_CHECK_NS) continue;
            if (pplconv_make_way(crew, team, checks++ ? now - checked : 0)) break;
            checked = now;
        }
    }
    if (me->number) pplconv_use_hooks(me, NULL);
    __atomic_store_n(&seat->cpu, -1, __ATOMIC_RELAXED);
    __atomic_store_n(&seat->asleep, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&crew->epoch, __ATOMIC_SEQ_CST) == epoch)
        pplconv_doze(crew, me, epoch, team);
    __atomic_store_n(&seat->asleep, 0, __ATOMIC_SEQ_CST);
    pplconv_step_aside(crew, me);
}

static void pplconv_let_go(pplconv_crew *crew) {
    if (__atomic_sub_fetch(&crew->holders, 1, __ATOMIC_ACQ_REL) == 0) free(crew);
}

/* Take the place that the caller waits for, if there is a new one. */
static void pplconv_follow(pplconv_crew *crew, pplconv_member *me) {
    const uint64_t stations = __atomic_load_n(&crew->stations, __ATOMIC_ACQUIRE);
    if (me->stations == stations) return;
    me->stations = stations;
    if ((uint64_t)me->number >= (stations & UINT32_MAX)) return;
    crew->places->take(&crew->station, me->number);
    if (__atomic_sub_fetch(&crew->placed, 1, __ATOMIC_ACQ_REL) == 0) {
        __atomic_add_fetch(&crew->epoch, 1, __ATOMIC_SEQ_CST);
        pplconv_wake(&crew->epoch, pplconv_bit(0));
    }
}

static void *pplconv_worker(void *pointer) {
    pplconv_newcomer *newcomer = (pplconv_newcomer *)pointer;
    pplconv_seat *seat = (pplconv_seat *)newcomer->seat;
    pplconv_crew *crew = seat->crew;
    pplconv_member me = {crew, seat->number, seat->stations, NULL, 0, 0};
    /* A pin may end before a new thread can be bound by it, which then keeps what it has. */
    if (newcomer->moves) pplconv_move_to(0, newcomer->cpus, sizeof newcomer->cpus);
    free(newcomer);
    if (pplconv_clock_here(&seat->clock)) seat->thread = pplconv_thread();
    for (;;) {
        const uint32_t epoch = __atomic_load_n(&crew->epoch, __ATOMIC_ACQUIRE);
        if (__atomic_load_n(&crew->dismissed, __ATOMIC_ACQUIRE)) break;
        pplconv_follow(crew, &me);
        if (!pplconv_take_part(crew, &me)) pplconv_await(crew, &me, epoch);
    }
    pplconv_use_hooks(&me, NULL);
    pplconv_let_go(crew);
    return NULL;
}

/* Start workers for a team of this size; gives the size that there is. */
static int pplconv_hire(pplconv_crew *crew, int team, const pplconv_places *places) {
    pthread_attr_t detached;
    sigset_t before;
    if (crew->workers + 1 >= team) return team;
    if (pthread_attr_init(&detached)) return crew->workers + 1;
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pplconv_block_signals(&before);
    while (crew->workers + 1 < team) {
        pplconv_seat *seat = &crew->seat[crew->workers + 1];
        pplconv_newcomer *newcomer = pplconv_make_newcomer(seat, places ? places->before : NULL);
        pthread_t thread;
        if (newcomer == NULL) break;
        *seat = (pplconv_seat){
            .crew = crew, .stations = crew->stations, .number = crew->workers + 1, .cpu = -1};
        __atomic_add_fetch(&crew->holders, 1, __ATOMIC_RELAXED);
        if (pthread_create(&thread, &detached, pplconv_worker, newcomer)) {
            __atomic_sub_fetch(&crew->holders, 1, __ATOMIC_RELAXED);
            free(newcomer);
            break;
        }
        crew->workers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    return crew->workers + 1;
}

/* The thread that leads the crew ends. */
static void pplconv_dismiss(void *pointer) {
    pplconv_crew *crew = (pplconv_crew *)pointer;
    pplconv_own_crew = NULL;
    __atomic_store_n(&crew->dismissed, 1, __ATOMIC_RELEASE);
    __atomic_add_fetch(&crew->epoch, 1, __ATOMIC_SEQ_CST);
    pplconv_wake(&crew->epoch, UINT32_MAX);
    pplconv_let_go(crew);
}

/* A child of fork has none of the workers, and hires others. */
static void pplconv_forget_crew(void) {
    pplconv_own_crew = NULL;
    pplconv_make_bed();
    (void)pthread_setspecific(pplconv_crew_key, NULL);
}

static void pplconv_set_up_crews(void) {
    pplconv_crew_error = pthread_key_create(&pplconv_crew_key, pplconv_dismiss);
    if (pplconv_crew_error == 0)
        pplconv_crew_error = pthread_atfork(NULL, NULL, pplconv_forget_crew);
}

/* The calling thread's crew; NULL if there is no memory for it. */
static pplconv_crew *pplconv_crew_here(void) {
    void *memory = NULL;
    pplconv_crew *crew = pplconv_own_crew;
    if (crew) return crew;
    if (pthread_once(&pplconv_crew_once, pplconv_set_up_crews) || pplconv_crew_error) return NULL;
    if (posix_memalign(&memory, PPLCONV_APART, sizeof *crew)) return NULL;
    memset(memory, 0, offsetof(pplconv_crew, seat));
    crew = (pplconv_crew *)memory;
    crew->holders = crew->ranges = 1;
    crew->seat[0] = (pplconv_seat){.crew = crew, .cpu = -1};
    if (pthread_setspecific(pplconv_crew_key, crew)) {
        free(crew);
        return NULL;
    }
    pplconv_own_crew = crew;
    return crew;
}

/* Have each worker take its place, and wait for them: where places are new, which is once a pin. */
static void pplconv_take_places(pplconv_crew *crew, pplconv_member *me, int team,
                                const pplconv_station *station, const pplconv_places *places) {
    const pplconv_station *had = &crew->station;
    places->take(station, 0);
    if (had->binding == station->binding && had->serial == station->serial &&
        had->leader == station->leader && had->first == station->first &&
        (crew->stations & UINT32_MAX) >= (uint64_t)team)
        return;
    crew->station = *station;
    crew->places = places;
    __atomic_store_n(&crew->placed, team - 1, __ATOMIC_RELAXED);
    __atomic_store_n(&crew->stations, ((crew->stations >> 32) + 1) << 32 | (uint64_t)team,
                     __ATOMIC_RELEASE);
    __atomic_add_fetch(&crew->epoch, 1, __ATOMIC_SEQ_CST);
    pplconv_wake(&crew->epoch, UINT32_MAX);
    for (;;) {
        const uint32_t epoch = __atomic_load_n(&crew->epoch, __ATOMIC_ACQUIRE);
        if (__atomic_load_n(&crew->placed, __ATOMIC_ACQUIRE) == 0) break;
        pplconv_await(crew, me, epoch);
    }
}

static void pplconv_run_alone(const pplconv_phase *phases, int count, int64_t rounds,
                              char *scratch) {
    for (int64_t again = 0; again < rounds; again++)
        for (int p = 0; p < count; p++)
            for (int64_t task = 0; task < phases[p].tasks; task++)
                phases[p].run(phases[p].job, phases[p].first + again * phases[p].tasks + task,
                              scratch);
}

static void pplconv_run_together(pplconv_crew *crew, pplconv_member *me, int team) {
    /* Who reads it may look at the seats of the team. */
    __atomic_store_n(&crew->team, team, __ATOMIC_RELEASE);
    __atomic_store_n(&crew->ranges, pplconv_ranges(team), __ATOMIC_RELAXED);
    crew->next = 0, crew->again = 0;
    __atomic_store_n(&crew->over, 0, __ATOMIC_RELAXED);
    /* Workers that wake here are to know. */
    __atomic_store_n(&crew->seat[0].cpu, pplconv_cpu(), __ATOMIC_RELAXED);
    pplconv_open_next(crew, me);
    for (;;) {
        const uint32_t epoch = __atomic_load_n(&crew->epoch, __ATOMIC_ACQUIRE);
        if (__atomic_load_n(&crew->over, __ATOMIC_ACQUIRE)) break;
        if (!pplconv_take_part(crew, me)) pplconv_await(crew, me, epoch);
    }
}

/* Run all phases `rounds` times, on `team` threads or as many as there can be. */
static void pplconv_run(const pplconv_phase *phases, int count, int64_t rounds,
                        const pplconv_hooks *hooks, char *scratch, int64_t thread_scratch, int team,
                        const pplconv_station *station, const pplconv_places *places) {
    pplconv_crew *crew = team > 1 ? pplconv_crew_here() : NULL;
    pplconv_member me = {crew, 0, 0, NULL, 0, 0};
    if (count < 1 || rounds < 1) return;
    if (team > PPLCONV_MOST_MEMBERS) team = PPLCONV_MOST_MEMBERS;
    if (crew) team = pplconv_hire(crew, team, places);
    if (crew == NULL || team == 1) {
        pplconv_use_hooks(&me, hooks);
        pplconv_run_alone(phases, count, rounds, scratch);
        pplconv_use_hooks(&me, NULL);
        return;
    }
    if (station->binding) pplconv_take_places(crew, &me, team, station, places);
    else crew->station.binding = NULL;
    /* Not before: who takes its place changes its mask, too. */
    me.checks = 1;
    pplconv_use_hooks(&me, hooks);
    crew->phases = phases, crew->count = count, crew->rounds = rounds;
    crew->scratch = scratch, crew->thread_scratch = thread_scratch, crew->hooks = hooks;
    pplconv_run_together(crew, &me, team);
    pplconv_use_hooks(&me, NULL);
}

#endif

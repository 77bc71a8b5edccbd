/* Teams: a thread that calls, and workers of its own that help it.
 *
 * A phase ends when all its tasks are done, not when all threads have arrived: the thread that
 * finishes the last task opens the next phase. So no thread waits for one that the system has not
 * scheduled, unless that thread was stopped inside a task or before it has reported its last one. A
 * worker that comes late joins the phase that is open, of this call or of a later one. Before it
 * has a task, it reads only the crew, which lives as long as the worker. pplconv_waiting.h has how
 * threads wait for each other. */
#ifndef PPLCONV_CREW_H
#define PPLCONV_CREW_H

#include <stdlib.h>
#include <string.h>

#include "pplconv_waiting.h"

static pthread_once_t pplconv_crew_once = PTHREAD_ONCE_INIT;
static pthread_key_t pplconv_crew_key;
static int pplconv_crew_error;
static __thread pplconv_crew *pplconv_own_crew;

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
        /* Read before the offer: after it, others may finish this call, and the next may begin. */
        const int team = crew->team;
        pplconv_offer(&crew->claims, team, phase.tasks);
        pplconv_announce(crew, me, team, phase.tasks);
        return;
    }
    pplconv_finish(crew, me);
}

/* Run tasks as long as there are any; returns 0 if there were none. */
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

static void pplconv_let_go(pplconv_crew *crew) {
    if (__atomic_sub_fetch(&crew->holders, 1, __ATOMIC_ACQ_REL) == 0) free(crew);
}

/* Take this worker's place under a new pin, if there is one; the caller waits for that. */
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
    /* Undo inherited CPUs first: a pin may end before the new thread takes a place under it. */
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

/* Start workers for a team of this size; returns the size that the team can have. */
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

/* A forked child has none of the workers, and hires its own. */
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

/* The leader takes its place. If places are new, which happens once a pin, it has each worker take
 * its place, and waits until all have. */
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
    /* Release: a thread that reads `team` may then read the seats of the team. */
    __atomic_store_n(&crew->team, team, __ATOMIC_RELEASE);
    __atomic_store_n(&crew->ranges, pplconv_ranges(team), __ATOMIC_RELAXED);
    crew->next = 0, crew->again = 0;
    __atomic_store_n(&crew->over, 0, __ATOMIC_RELAXED);
    /* A worker that wakes on the leader's CPU has to notice that. */
    __atomic_store_n(&crew->seat[0].cpu, pplconv_cpu(), __ATOMIC_RELAXED);
    pplconv_open_next(crew, me);
    for (;;) {
        const uint32_t epoch = __atomic_load_n(&crew->epoch, __ATOMIC_ACQUIRE);
        if (__atomic_load_n(&crew->over, __ATOMIC_ACQUIRE)) break;
        if (!pplconv_take_part(crew, me)) pplconv_await(crew, me, epoch);
    }
}

/* Run all phases `rounds` times, on `team` threads or on as many as can be started. */
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
    /* Set only now: a worker that takes its place changes its own mask of CPUs. */
    me.leads = 1;
    pplconv_use_hooks(&me, hooks);
    crew->phases = phases, crew->count = count, crew->rounds = rounds;
    crew->scratch = scratch, crew->thread_scratch = thread_scratch, crew->hooks = hooks;
    pplconv_run_together(crew, &me, team);
    pplconv_use_hooks(&me, NULL);
}

#endif

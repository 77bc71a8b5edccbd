/* How the threads of a team wait for each other, and wake each other, beside other programs too.
 *
 * A thread that finds no task looks for a while and then sleeps. It sleeps at once if another
 * thread of the team was last seen on its CPU: that thread may be waiting for the CPU.
 *
 * If other programs run too, the system may wake a worker on the CPU of its leader, where it helps
 * nobody; for some time the leader then wakes it on another CPU. The system may also stop a worker
 * in the middle of a task for some milliseconds; an idle leader then moves the worker to its own
 * CPU. The leader restores a worker's mask of CPUs before its call ends. Pins change masks as well:
 * a worker that has taken its place under a pin is not moved. */
#ifndef PPLCONV_WAITING_H
#define PPLCONV_WAITING_H

#include "pplconv_moves.h"
#include "pplconv_rest.h"
#include "pplconv_schedules.h"
#include "pplconv_seats.h"

enum {
    /* A wake-up takes tens of microseconds: looking for longer than that costs more than it
     * saves. */
    PPLCONV_LOOK_NS = 100000,
    PPLCONV_LOOKS = 16, /* between two looks at the clock */
    /* How often a leader checks whether the workers that it waits for are running, while it is
     * awake (CHECK) and asleep (SLOW_CHECK); and how many workers at a time. A worker counts as
     * running if it ran for a RUN_PART-th of the time since the last check. */
    PPLCONV_CHECK_NS = 20000,
    PPLCONV_CHECKED = 4,
    PPLCONV_SLOW_CHECK_NS = 250000,
    PPLCONV_SLOWLY_CHECKED = 32,
    PPLCONV_RUN_PART = 4,
    /* How long a worker is woken elsewhere after it woke on its leader's CPU. */
    PPLCONV_ASIDE_NS = 10000000,
    /* How long a worker that was brought to its leader's CPU stays there: about as long as the
     * system runs others before it is the worker's turn again. */
    PPLCONV_STAY_NS = 4000000
};

/* Wake a worker on another CPU than the calling leader's, if it recently woke on the leader's;
 * returns 1 if it was woken. */
static int pplconv_wake_aside(pplconv_crew *crew, pplconv_seat *seat) {
    const int64_t aside = __atomic_load_n(&seat->aside, __ATOMIC_RELAXED);
    pplconv_moved moved;
    if (aside == 0) return 0;
    const int64_t now = pplconv_clock();
    if (now >= aside || now < seat->stays) return 0;
    if (!pplconv_begin_move(&moved, seat->thread, pplconv_cpu(), 1)) return 0;
    pplconv_wake(&crew->epoch, pplconv_bit(seat->number));
    pplconv_end_move(&moved);
    return 1;
}

/* Raise the epoch, and wake sleeping threads until `most` are awake. */
static void pplconv_announce(pplconv_crew *crew, const pplconv_member *me, int team, int64_t most) {
    uint32_t who = 0;
#ifdef __SANITIZE_THREAD__
    most = INT64_MAX; /* nobody takes the tasks of others */
#endif
    __atomic_add_fetch(&crew->epoch, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < team; i++)
        if (!__atomic_load_n(&crew->seat[i].asleep, __ATOMIC_SEQ_CST)) most--;
    for (int i = 0; i < team && most > 0; i++) {
        if (!__atomic_load_n(&crew->seat[i].asleep, __ATOMIC_SEQ_CST)) continue;
        if (!me->leads || !pplconv_wake_aside(crew, &crew->seat[i])) who |= pplconv_bit(i);
        most--;
    }
    if (who) pplconv_wake(&crew->epoch, who);
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

/* Move a worker to the leader's CPU if it has tasks but hardly ran since the last check, `since` ns
 * ago (0: there was none). Returns 1 if there was such a worker. Looks at `most` busy workers. */
static int pplconv_make_way(pplconv_crew *crew, int team, int64_t since, int most) {
    for (int i = 1; i < team && most > 0; i++) {
        pplconv_seat *seat = &crew->seat[i];
        const int64_t before = seat->ran;
        pplconv_moved moved;
        seat->ran = -1;
        if (!__atomic_load_n(&seat->busy, __ATOMIC_ACQUIRE) || !seat->thread) continue;
        seat->ran = pplconv_time_run(seat->clock);
        most--;
        if (since == 0 || before < 0 || seat->ran < 0) continue;
        if (seat->ran - before >= since / PPLCONV_RUN_PART) continue;
        if (!pplconv_begin_move(&moved, seat->thread, pplconv_cpu(), 0)) continue;
        pplconv_end_move(&moved);
        seat->stays = pplconv_clock() + PPLCONV_STAY_NS;
        return 1;
    }
    return 0;
}

/* Sleep until the epoch is no longer `epoch`; may wake without a reason. The leader's last check
 * was at `checked`, 0 if there was none. */
static void pplconv_doze(pplconv_crew *crew, const pplconv_member *me, uint32_t epoch, int team,
                         int64_t checked) {
    const uint32_t bit = pplconv_bit(me->number);
    int64_t now = pplconv_clock();
    if (!me->leads) {
        pplconv_sleep(&crew->epoch, epoch, bit);
        return;
    }
    while (!pplconv_sleep_until(&crew->epoch, epoch, bit, now + PPLCONV_SLOW_CHECK_NS)) {
        now = pplconv_clock();
        (void)pplconv_make_way(crew, team, checked ? now - checked : 0, PPLCONV_SLOWLY_CHECKED);
        checked = now;
    }
}

/* A worker that woke on the leader's CPU asks to be woken elsewhere for some time. */
static void pplconv_note_place(pplconv_crew *crew, pplconv_seat *seat) {
    const int cpu = pplconv_cpu();
    if (cpu < 0 || __atomic_load_n(&crew->seat[0].cpu, __ATOMIC_RELAXED) != cpu) return;
    __atomic_store_n(&seat->aside, pplconv_clock() + PPLCONV_ASIDE_NS, __ATOMIC_RELAXED);
}

/* Wait until the epoch is no longer `epoch`; may return without a reason. */
static void pplconv_await(pplconv_crew *crew, pplconv_member *me, uint32_t epoch) {
    pplconv_seat *seat = &crew->seat[me->number];
    const int team = __atomic_load_n(&crew->team, __ATOMIC_ACQUIRE);
    const int64_t begun = pplconv_clock();
    int64_t now = begun, checked = 0;
    if (me->number < team) {
        while (!pplconv_is_crowded(crew, me->number, team) && now < begun + PPLCONV_LOOK_NS) {
            for (int i = 0; i < PPLCONV_LOOKS; i++) {
                pplconv_pause();
                if (__atomic_load_n(&crew->epoch, __ATOMIC_ACQUIRE) != epoch) return;
            }
            now = pplconv_clock();
            if (!me->leads || now < (checked ? checked : begun) + PPLCONV_CHECK_NS) continue;
            if (pplconv_make_way(crew, team, checked ? now - checked : 0, PPLCONV_CHECKED)) break;
            checked = now;
        }
    }
    if (me->number) pplconv_use_hooks(me, NULL);
    __atomic_store_n(&seat->cpu, -1, __ATOMIC_RELAXED);
    __atomic_store_n(&seat->asleep, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&crew->epoch, __ATOMIC_SEQ_CST) == epoch)
        pplconv_doze(crew, me, epoch, team, checked);
    __atomic_store_n(&seat->asleep, 0, __ATOMIC_SEQ_CST);
    if (me->number) pplconv_note_place(crew, seat);
}

#endif

"""Threads of teams are moved to other CPUs, and get their previous affinity back."""

from __future__ import annotations

import os
import sys

import pytest

from tests.sanitizers.test_crews import run

pytestmark = [
    pytest.mark.unsanitized("builds programs of its own"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere none is moved"),
]

# A busy thread is sent to each CPU, and away from the last one; then to CPUs that it may not use.
# Its affinity mask is restored each time, unless another mask was set meanwhile.
MOVED = """
#include <stdio.h>
#include "pplconv_crew.h"
enum { TRIES = 200, WORDS = PPLCONV_CPU_WORDS };
static int thread, ended, place = -1;
static void *spin(void *nothing) {
    __atomic_store_n(&thread, pplconv_thread(), __ATOMIC_RELEASE);
    while (!__atomic_load_n(&ended, __ATOMIC_RELAXED))
        __atomic_store_n(&place, pplconv_cpu(), __ATOMIC_RELAXED);
    return nothing;
}
static unsigned long before[WORDS], after[WORDS];
static int is_same(void) {
    syscall(SYS_sched_getaffinity, thread, sizeof after, after);
    return !memcmp(before, after, sizeof before);
}
static int comes(int cpu, int away) {
    for (int i = 0; i < TRIES; i++) {
        if ((__atomic_load_n(&place, __ATOMIC_RELAXED) == cpu) != away) return 1;
        usleep(1000);
    }
    return 0;
}
static int send(int cpu, int away) {
    pplconv_moved moved;
    int came = 0;
    for (int i = 0; i < 5 && !came; i++) {
        if (!pplconv_begin_move(&moved, thread, cpu, away)) return -1;
        came = comes(cpu, away);
        pplconv_end_move(&moved);
    }
    return came;
}
int main(void) {
    pplconv_moved moved;
    pthread_t other;
    int came = 1, refused, last = 0, same, cpus = 0;
    pthread_create(&other, NULL, spin, NULL);
    while (!__atomic_load_n(&thread, __ATOMIC_ACQUIRE)) sched_yield();
    syscall(SYS_sched_getaffinity, thread, sizeof before, before);
    for (int cpu = 0; cpu < 8 * (int)sizeof before; cpu++) {
        if (!(before[cpu / (8 * sizeof(long))] >> cpu % (8 * sizeof(long)) & 1)) continue;
        if (send(cpu, 0) != 1) came = 0;
        last = cpu, cpus++;
    }
    same = is_same();
    printf("%d %d ", came, send(last, 1));
    refused = !pplconv_begin_move(&moved, thread, 8 * (int)sizeof before - 1, 0);
    refused &= !pplconv_begin_move(&moved, thread, -1, 0);
    refused &= !pplconv_begin_move(&moved, thread, 1 << 30, 1);
    same &= is_same();
    /* Another mask that was given meanwhile stays. */
    if (pplconv_begin_move(&moved, thread, last, 0)) {
        moved.part[0] ^= 1;
        pplconv_end_move(&moved);
        same &= !is_same() || cpus == 1;
    }
    __atomic_store_n(&ended, 1, __ATOMIC_RELAXED);
    pthread_join(other, NULL);
    printf("%d %d\\n", refused, same);
    return 0;
}
"""
# The run time of a thread grows while it runs, and hardly while it sleeps.
TIMED = """
#include <stdio.h>
#include "pplconv_crew.h"
int main(void) {
    clockid_t clock;
    const int is_known = pplconv_clock_here(&clock);
    const int64_t begin = pplconv_time_run(clock);
    while (pplconv_time_run(clock) < begin + 5000000) pplconv_pause();
    const int64_t slept = pplconv_time_run(clock);
    usleep(50000);
    printf("%d %d\\n", is_known, pplconv_time_run(clock) < slept + 25000000);
    return 0;
}
"""
# The worker's task sleeps, as if the system did not run it. The leader notices, while it polls or
# sleeps, and moves the worker. Runs of each task are counted.
STOPPED = """
#include <stdio.h>
#include "pplconv_crew.h"
static int done[64], stopped;
static pthread_t leader;
static void work(const void *job, int64_t task, char *scratch) {
    (void)job, (void)scratch;
    if (!pthread_equal(pthread_self(), leader) &&
        !__atomic_exchange_n(&stopped, 1, __ATOMIC_RELAXED))
        usleep(100000);
    /* Until the worker has come. */
    while (!__atomic_load_n(&stopped, __ATOMIC_RELAXED)) sched_yield();
    __atomic_fetch_add(&done[task % 64], 1, __ATOMIC_RELAXED);
}
int main(void) {
    const pplconv_phase phase = {work, NULL, 64, 0};
    const pplconv_station nowhere = {NULL, 0, 0, 0};
    int wrong = 0;
    leader = pthread_self();
    for (int again = 0; again < 100; again++) {
        /* The machine itself may have stood still. */
        if (again < 20 && again && !pplconv_own_crew->seat[1].stays) stopped = 0;
        pplconv_run(&phase, 1, 2, NULL, NULL, 0, 2, &nowhere, NULL);
    }
    for (int task = 0; task < 64; task++) wrong += done[task] != 200;
    printf("%d %d\\n", wrong, pplconv_own_crew->seat[1].stays != 0);
    return 0;
}
"""


def test_a_thread_is_moved_with_its_mask_as_it_was(tmp_path):
    leaves = "1" if len(os.sched_getaffinity(0)) > 1 else "-1"
    assert run(tmp_path, MOVED).stdout.split() == ["1", leaves, "1", "1"]


def test_the_time_that_a_thread_runs_is_told_from_that_it_sleeps(tmp_path):
    assert run(tmp_path, TIMED).stdout.split() == ["1", "1"]


@pytest.mark.parametrize("sanitize", [[], ["-fsanitize=thread"]], ids=["plain", "tsan"])
def test_a_worker_that_is_not_run_is_brought_by_its_leader(tmp_path, sanitize):
    done = run(tmp_path, STOPPED, sanitize)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 1\n", "")

"""Threads of teams moved to other CPUs: they get there, and may go wherever they might before."""

from __future__ import annotations

import os
import sys

import pytest
from test_crews import run

pytestmark = [
    pytest.mark.unsanitized("builds programs of its own"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere none is moved"),
]

# Whether the thread ever left its CPU, and came to one that was named; the masks are as they were.
MOVED = """
#include <stdio.h>
#include "pplconv_crew.h"
enum { TRIES = 1000, WORDS = 128 };
static int thread, ended, seen_there, wanted = -1;
static void *spin(void *nothing) {
    __atomic_store_n(&thread, pplconv_thread(), __ATOMIC_RELEASE);
    while (!__atomic_load_n(&ended, __ATOMIC_RELAXED)) {
        const int cpu = pplconv_cpu();
        if (cpu == __atomic_load_n(&wanted, __ATOMIC_RELAXED))
            __atomic_store_n(&seen_there, 1, __ATOMIC_RELAXED);
    }
    return nothing;
}
static long mask_of(int of, unsigned long *mask) {
    return syscall(SYS_sched_getaffinity, of, sizeof(unsigned long[WORDS]), mask);
}
int main(void) {
    unsigned long before[2][WORDS] = {{0}}, after[2][WORDS] = {{0}};
    int left = 0, cpu = pplconv_cpu();
    pthread_t other;
    mask_of(0, before[0]);
    for (int i = 0; i < TRIES && !left; i++) {
        cpu = pplconv_cpu();
        pplconv_move(0, cpu, 1);
        left = pplconv_cpu() != cpu;
    }
    mask_of(0, after[0]);
    pthread_create(&other, NULL, spin, NULL);
    while (!__atomic_load_n(&thread, __ATOMIC_ACQUIRE)) sched_yield();
    mask_of(thread, before[1]);
    for (int i = 0; i < TRIES && !__atomic_load_n(&seen_there, __ATOMIC_RELAXED); i++) {
        cpu = pplconv_cpu();
        __atomic_store_n(&wanted, cpu, __ATOMIC_RELAXED);
        pplconv_move(thread, cpu, 0);
        usleep(1000);
    }
    mask_of(thread, after[1]);
    /* To CPUs that are not its own it does not go. */
    pplconv_move(thread, 8 * (int)sizeof before[0] - 1, 0);
    pplconv_move(thread, -1, 0);
    pplconv_move(thread, 1 << 30, 1);
    __atomic_store_n(&ended, 1, __ATOMIC_RELAXED);
    pthread_join(other, NULL);
    printf("%d %d %d %d\\n", left, seen_there, !memcmp(before[0], after[0], sizeof before[0]),
           !memcmp(before[1], after[1], sizeof before[1]));
    return 0;
}
"""
# Time that a thread has run grows while it runs, and hardly while it sleeps.
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
# The last task of each round takes longer than a leader looks for it. How often each one is run is
# counted.
WAITED_FOR = """
#include <stdio.h>
#include "pplconv_crew.h"
static int done[64];
static void work(const void *job, int64_t task, char *scratch) {
    const int64_t end = pplconv_clock() + (task % 64 == 63 ? 3000000 : 1000);
    (void)job, (void)scratch;
    while (pplconv_clock() < end) pplconv_pause();
    __atomic_fetch_add(&done[task % 64], 1, __ATOMIC_RELAXED);
}
int main(void) {
    const pplconv_phase phase = {work, NULL, 64, 0};
    const pplconv_station nowhere = {NULL, 0, 0, 0};
    int wrong = 0;
    for (int again = 0; again < 100; again++)
        pplconv_run(&phase, 1, 2, NULL, NULL, 0, 3, &nowhere, NULL);
    for (int task = 0; task < 64; task++) wrong += done[task] != 200;
    printf("%d\\n", wrong);
    return 0;
}
"""


def test_a_thread_leaves_a_cpu_and_comes_to_one_with_its_mask_as_it_was(tmp_path):
    several = len(os.sched_getaffinity(0)) > 1
    assert run(tmp_path, MOVED).stdout.split() == [str(int(several)), "1", "1", "1"]


def test_the_time_that_a_thread_runs_is_told_from_that_it_sleeps(tmp_path):
    assert run(tmp_path, TIMED).stdout.split() == ["1", "1"]


@pytest.mark.parametrize("sanitize", [[], ["-fsanitize=thread"]], ids=["plain", "tsan"])
def test_a_leader_that_checks_its_workers_runs_every_task_once(tmp_path, sanitize):
    done = run(tmp_path, WAITED_FOR, sanitize)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")

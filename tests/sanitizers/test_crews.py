"""Teams in C, with and without ThreadSanitizer, distribute work correctly and hide no race."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.patience import PATIENCE

LOOPS = Path(__file__).resolve().parents[2] / "pplconv" / "schedules"
FLAGS = ("-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-I{LOOPS}")

pytestmark = pytest.mark.unsanitized("builds programs with a sanitizer of its own")

# Several leaders at once, with teams of changing sizes; runs of each task are counted.
SHARED_OUT = """
#include <stdio.h>
#include "pplconv_crew.h"
enum { PHASES = 6, ROUNDS = 2, MOST = 1000, LEADERS = 3, TEAMS = 6 };
static const int64_t tasks[PHASES] = {MOST, 7, 1, 0, 2, 64};
typedef struct { int done[PHASES][ROUNDS * MOST], wrong, strangers; } counts;
typedef struct { counts *all; int phase; } job;
static void run(const void *pointer, int64_t task, char *scratch) {
    const job *j = pointer;
    counts *c = j->all;
    __atomic_fetch_add(&c->done[j->phase][task], 1, __ATOMIC_RELAXED);
    /* Scratch belongs to one thread: nobody else counts here meanwhile. */
    ++*(int *)scratch;
    /* What the phase before has written is there. */
    if (j->phase == 1 && c->done[0][task / 7 * MOST] != 1) c->wrong++;
}
static void *lead(void *pointer) {
    counts *c = pointer;
    const pplconv_station nowhere = {NULL, 0, 0, 0};
    for (int again = 0; again < 20; again++) {
        const int team = 1 + again % TEAMS;
        int scratch[TEAMS] = {0}, sum = 0, expected = 0;
        pplconv_phase phases[PHASES];
        job jobs[PHASES];
        memset(c, 0, sizeof *c);
        for (int p = 0; p < PHASES; p++) {
            jobs[p] = (job){c, p};
            phases[p] = (pplconv_phase){run, &jobs[p], tasks[p], 0};
            expected += ROUNDS * (int)tasks[p];
        }
        pplconv_run(phases, PHASES, ROUNDS, NULL, (char *)scratch, sizeof(int), team, &nowhere,
                    NULL);
        for (int i = 0; i < TEAMS; i++) sum += scratch[i], c->strangers += i >= team && scratch[i];
        if (sum != expected || c->wrong || c->strangers) return c;
        for (int p = 0; p < PHASES; p++)
            for (int i = 0; i < ROUNDS * MOST; i++)
                if (c->done[p][i] != (i < ROUNDS * tasks[p])) return c;
    }
    return NULL;
}
int main(void) {
    static counts all[LEADERS];
    pthread_t threads[LEADERS];
    void *failed;
    int failures = 0;
    for (int i = 0; i < LEADERS; i++) pthread_create(&threads[i], NULL, lead, &all[i]);
    for (int i = 0; i < LEADERS; i++) pthread_join(threads[i], &failed), failures += failed != NULL;
    printf("%d\\n", failures);
    return 0;
}
"""
# Each task adds to its own sum, or all tasks to one.
ADDING = """
#include <stdio.h>
#include "pplconv_crew.h"
static long sums[64];
static int together;
static void add(const void *job, int64_t task, char *scratch) {
    (void)job, (void)scratch;
    sums[together ? 0 : task] += (long)task;
}
int main(int argc, char **argv) {
    const pplconv_phase phase = {add, NULL, 64, 0};
    const pplconv_station nowhere = {NULL, 0, 0, 0};
    long total = 0;
    (void)argv;
    together = argc > 1;
    pplconv_run(&phase, 1, 1, NULL, NULL, 0, 3, &nowhere, NULL);
    for (int task = 0; task < 64; task++) total += sums[task];
    printf("%ld\\n", total);
    return 0;
}
"""
# A thread that has finished its own range takes tasks from the others, nearest first. A thread
# outside the team gets none; a new offer does not depend on tasks left from the previous one.
ORDER = """
#include <stdio.h>
#include "pplconv_claims.h"
int main(void) {
    static pplconv_claims claims;
    pplconv_claimed claimed;
    for (int again = 0; again < 2; again++) {
        pplconv_offer(&claims, 3, 8);
        if (pplconv_claim(&claims, 3, 3, &claimed) || pplconv_claim(&claims, 9, 7, &claimed))
            return 1;
        while (pplconv_claim(&claims, 1, 3, &claimed))
            printf("%d ", (int)pplconv_number(claimed, 3, 8, 0));
    }
    return 0;
}
"""
# After fork, the child has the caller, but none of its workers.
FORKED = """
#include <stdio.h>
#include <sys/wait.h>
#include "pplconv_crew.h"
static int done[64];
static void mark(const void *job, int64_t task, char *scratch) {
    (void)job, (void)scratch;
    done[task]++;
}
static int marks(void) {
    const pplconv_phase phase = {mark, NULL, 64, 0};
    const pplconv_station nowhere = {NULL, 0, 0, 0};
    int sum = 0;
    memset(done, 0, sizeof done);
    pplconv_run(&phase, 1, 1, NULL, NULL, 0, 3, &nowhere, NULL);
    for (int task = 0; task < 64; task++) sum += done[task] == 1;
    return sum;
}
int main(void) {
    int status = -1;
    const int before = marks();
    const pid_t child = fork();
    if (child == 0) _exit(marks());
    waitpid(child, &status, 0);
    printf("%d %d %d\\n", before, WEXITSTATUS(status), marks());
    return 0;
}
"""


def run(
    folder: Path, text: str, sanitize: Sequence[str] = (), *arguments: str
) -> subprocess.CompletedProcess[str]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "the tests need a C compiler named cc or gcc"
    source, program = folder / "program.c", folder / "program"
    source.write_text("#define _GNU_SOURCE\n" + text)
    subprocess.run(
        [compiler, *FLAGS, "-Wno-unused-function", *sanitize, "-o", program, source, "-lpthread"],
        check=True,
    )
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
    )


TSAN = ["-fsanitize=thread"]
# Let threads take one another's tasks, as without a sanitizer.
STEALING = [*TSAN, "-U__SANITIZE_THREAD__"]


@pytest.mark.parametrize("sanitize", [[], TSAN, STEALING], ids=["plain", "tsan", "stealing"])
def test_every_task_is_run_once(tmp_path, sanitize):
    done = run(tmp_path, SHARED_OUT, sanitize)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_a_thread_begins_with_its_own_tasks(tmp_path):
    """Threads get the same tasks in every call, whose data their caches still hold."""
    expected = ["2", "3", "4", "5", "6", "7", "0", "1"] * 2
    done = run(tmp_path, ORDER)
    assert (done.returncode, done.stdout.split()) == (0, expected)


def test_a_forked_child_has_workers_of_its_own(tmp_path):
    assert run(tmp_path, FORKED).stdout.split() == ["64", "64", "64"]


def test_tasks_of_their_own_are_no_race(tmp_path):
    done = run(tmp_path, ADDING, TSAN)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2016\n", "")


def test_a_race_is_reported(tmp_path):
    """The race is reported although tasks seldom run at the same moment."""
    done = run(tmp_path, ADDING, TSAN, "together")
    assert done.returncode == 66
    assert "data race" in done.stderr

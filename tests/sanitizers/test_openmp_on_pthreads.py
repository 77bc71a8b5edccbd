"""What stands for OpenMP under ThreadSanitizer: it shares work out right, and hides no race."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.unsanitized("preloads a library of its own")

SHIM = Path(__file__).resolve().parent / "native" / "openmp_on_pthreads.c"
LOOPS = Path(__file__).resolve().parents[2] / "pplconv" / "schedules"
FLAGS = ("-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-I{LOOPS}")

# Phases of tasks as the package's teams have them, and what else it asks OpenMP for.
SHARED_OUT = """
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include "pplconv_claims.h"
static int turns[3][1000];
static int check(long tasks, int team, int ranges) {
    struct pplconv_claims claims;
    int wrong = 0;
    memset(turns, 0, sizeof turns);
    memset(&claims, 1, sizeof claims);
    pplconv_begin_claims(&claims, team);
    #pragma omp parallel num_threads(team)
    for (int phase = 0; phase < 3; phase++) {
        const int own = omp_get_thread_num() % ranges;
        pplconv_open_claims(&claims, phase + 1, own);
        for (long task; (task = pplconv_claim(&claims, phase, own, ranges, tasks)) >= 0;)
            __atomic_fetch_add(&turns[phase][task], 1, __ATOMIC_RELAXED);
        #pragma omp barrier
    }
    for (int phase = 0; phase < 3; phase++)
        for (long i = 0; i < 1000; i++) wrong += turns[phase][i] != (i < tasks);
    return wrong;
}
int main(void) {
    int wrong = 0, inner = 0, sum = 0;
    for (int team = 1; team < 6; team++)
        for (int ranges = 1; ranges <= team; ranges++)
            wrong += check(1000, team, ranges) + check(7, team, ranges) + check(2, team, ranges) +
                     check(0, team, ranges);
    #pragma omp parallel num_threads(3) reduction(+ : sum)
    {
        #pragma omp parallel num_threads(4)
        __atomic_fetch_add(&inner, omp_get_num_threads(), __ATOMIC_RELAXED);
        #pragma omp for schedule(static)
        for (int i = 0; i < 100; i++) sum += i;
    }
    printf("%d %d %d %d\\n", wrong, inner, sum, omp_get_num_threads());
    return 0;
}
"""
# Each task adds to a sum of its own, or all of them to one.
ADDING = """
#include <omp.h>
#include <stdio.h>
#include "pplconv_claims.h"
int main(int argc, char **argv) {
    static long sums[64];
    static struct pplconv_claims claims;
    long total = 0;
    (void)argv;
    #pragma omp parallel num_threads(3)
    for (long task; (task = pplconv_claim(&claims, 0, omp_get_thread_num(), 3, 64)) >= 0;)
        sums[argc > 1 ? 0 : task] += task;
    for (int task = 0; task < 64; task++) total += sums[task];
    printf("%ld\\n", total);
    return 0;
}
"""
# A thread that has done its own range takes from the others, nearest first.
ORDER = """
#include <stdio.h>
#include "pplconv_claims.h"
int main(void) {
    static struct pplconv_claims claims;
    for (long task; (task = pplconv_claim(&claims, 0, 1, 3, 8)) >= 0;) printf("%ld ", task);
    return 0;
}
"""


def compile_with(folder: Path, name: str, source: Path, *flags: str) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "the tests need a C compiler named cc or gcc"
    subprocess.run([compiler, *FLAGS, *flags, "-o", folder / name, source, "-lpthread"], check=True)
    return folder / name


def run(
    folder: Path, text: str, sanitize: Sequence[str] = (), *arguments: str
) -> subprocess.CompletedProcess[str]:
    source = folder / "program.c"
    source.write_text(text)
    shim = compile_with(folder, "shim.so", SHIM, "-fPIC", "-shared", *sanitize)
    program = compile_with(folder, "program", source, "-fopenmp", *sanitize)
    return subprocess.run(
        [program, *arguments],
        env=os.environ | {"LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("sanitize", [[], ["-fsanitize=thread"]], ids=["plain", "tsan"])
def test_every_task_is_run_once(tmp_path, sanitize):
    done = run(tmp_path, SHARED_OUT, sanitize)
    # Nothing wrong, three inner teams of one, the sum, and no team outside of a region.
    assert (done.returncode, done.stdout.split()) == (0, ["0", "3", "4950", "1"]), done.stderr


def test_a_thread_begins_with_its_own_tasks(tmp_path):
    """The same ones in every call: what they wrote the last time lies in its caches."""
    assert run(tmp_path, ORDER).stdout.split() == ["2", "3", "4", "5", "6", "7", "0", "1"]


def test_tasks_of_their_own_are_no_race(tmp_path):
    done = run(tmp_path, ADDING, ["-fsanitize=thread"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "2016\n", "")


def test_a_race_is_reported(tmp_path):
    """Although the tasks seldom run at the same moment."""
    done = run(tmp_path, ADDING, ["-fsanitize=thread"], "together")
    assert done.returncode == 66
    assert "data race" in done.stderr

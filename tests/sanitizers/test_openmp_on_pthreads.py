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
FLAGS = ("-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror")

SHARED_OUT = """
#include <omp.h>
#include <stdio.h>
#include <string.h>
static int turns[1000], threads[3];
static int check(long first, long past, long step, int chunk, int team) {
    memset(turns, 0, sizeof turns);
    const long up = step > 0 ? past : first, down = step > 0 ? first : past;
    #pragma omp parallel num_threads(team)
    {
        #pragma omp for schedule(nonmonotonic: dynamic, chunk) nowait
        for (long i = first; i < up; i += step) __atomic_fetch_add(&turns[i], 1, __ATOMIC_RELAXED);
        #pragma omp for schedule(nonmonotonic: dynamic, chunk) nowait
        for (long i = first; i > down; i -= -step)
            __atomic_fetch_add(&turns[i], 1, __ATOMIC_RELAXED);
        #pragma omp for schedule(nonmonotonic: dynamic, 1)
        for (long i = 0; i < 3; i++)
            if (omp_get_num_threads() == team) threads[i] = omp_get_thread_num() < team;
    }
    int wrong = threads[0] + threads[1] + threads[2] != 3;
    for (long i = 0; i < 1000; i++) {
        long d = step > 0 ? i - first : first - i, s = step > 0 ? step : -step;
        int in = d >= 0 && d % s == 0 && (step > 0 ? i < past : i > past);
        wrong += turns[i] != in;
    }
    return wrong;
}
int main(void) {
    int wrong = 0, inner = 0, sum = 0;
    for (int team = 1; team < 6; team++)
        for (int chunk = 1; chunk < 9; chunk += 3)
            wrong += check(0, 1000, 1, chunk, team) + check(3, 998, 7, chunk, team) +
                     check(999, -1, -3, chunk, team) + check(5, 5, 1, chunk, team);
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
#include <stdio.h>
int main(int argc, char **argv) {
    static long sums[64];
    long total = 0;
    (void)argv;
    #pragma omp parallel for num_threads(3) schedule(nonmonotonic: dynamic, 1)
    for (int task = 0; task < 64; task++) sums[argc > 1 ? 0 : task] += task;
    for (int task = 0; task < 64; task++) total += sums[task];
    printf("%ld\\n", total);
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


def test_every_turn_is_made_once(tmp_path):
    done = run(tmp_path, SHARED_OUT)
    # Nothing wrong, three inner teams of one, the sum, and no team outside of a region.
    assert (done.returncode, done.stdout.split()) == (0, ["0", "3", "4950", "1"]), done.stderr


def test_tasks_of_their_own_are_no_race(tmp_path):
    done = run(tmp_path, ADDING, ["-fsanitize=thread"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "2016\n", "")


def test_a_race_is_reported(tmp_path):
    """Although the tasks seldom run at the same moment."""
    done = run(tmp_path, ADDING, ["-fsanitize=thread"], "together")
    assert done.returncode == 66
    assert "data race" in done.stderr

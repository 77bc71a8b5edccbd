"""Forked children of a process that used OpenMP.

The marks belong to a whole process, so every case runs in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pplconv
from pplconv.runtime import fork

pytestmark = pytest.mark.unemulated(
    "every case starts an emulated process that forks: seconds each, and Linux's part alone"
)

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

PREAMBLE = """
import os, sys, warnings
from pplconv.runtime import forked_after_openmp, note_openmp_used, safe_team

def in_child(body):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            body()
            sys.stdout.flush()
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

def teams(*sizes):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = [safe_team(size) for size in sizes]
    kinds = [w.category.__name__ for w in caught]
    print(forked_after_openmp(), got, kinds)
"""


def run(body: str) -> list[str]:
    # Not through PYTHONPATH: the package is found where this process found it.
    source = str(Path(pplconv.__file__).parents[1])
    code = f"import sys\nsys.path.insert(0, {source!r})\n{PREAMBLE}\n{body}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@needs_fork
def test_child_of_a_user_runs_serially_and_says_so_once() -> None:
    lines = run("note_openmp_used()\nin_child(lambda: teams(1, 4, 2, 1, 8))\nteams(4)")
    assert lines == ["True [1, 1, 1, 1, 1] ['RuntimeWarning']", "False [4] []"]


@needs_fork
def test_child_of_a_process_that_did_not_use_it() -> None:
    lines = run("in_child(lambda: teams(1, 4))\nnote_openmp_used()\nteams(4)")
    assert lines == ["False [1, 4] []", "False [4] []"]


@needs_fork
def test_teams_of_one_do_not_warn() -> None:
    assert run("note_openmp_used()\nin_child(lambda: teams(1, 1))") == ["True [1, 1] []"]


@needs_fork
def test_grandchild_is_marked_and_warns_for_itself() -> None:
    body = "note_openmp_used()\ndef child():\n  teams(2)\n  in_child(lambda: teams(2))\n"
    lines = run(body + "in_child(child)")
    assert lines == ["True [1] ['RuntimeWarning']"] * 2


@needs_fork
def test_warning_names_the_reason_and_the_way_out() -> None:
    body = (
        "note_openmp_used()\n"
        "def child():\n"
        "  with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    safe_team(2)\n"
        "  print(caught[0].message)\n"
        "in_child(child)"
    )
    (text,) = run(body)
    assert "forked after its parent had used OpenMP" in text
    assert '"spawn"' in text


def test_spawned_child_is_not_marked() -> None:
    """A process that was started afresh inherits no team."""
    code = (
        "note_openmp_used()\nimport subprocess\nprint(subprocess.run([sys.executable, '-c', "
        "'import sys; sys.path[:] = ' + repr(sys.path) + '; from pplconv.runtime import "
        "forked_after_openmp as f; print(f())'], capture_output=True, text=True).stdout.strip())"
    )
    assert run(code) == ["False"]


def test_this_process_keeps_its_teams() -> None:
    if fork.forked_after_openmp():
        pytest.skip("the test runner itself was forked after OpenMP was used")
    assert [fork.safe_team(size) for size in (1, 2, 7)] == [1, 2, 7]


@needs_fork
def test_convolution_in_a_forked_child_ends_and_is_right() -> None:
    """The real thing: the parent's team is gone, and the child must not wait for it."""
    body = (
        "import signal\n"
        "import numpy, pplconv\n"
        "random = numpy.random.default_rng(1)\n"
        "x = random.standard_normal((2, 16, 28, 28), dtype=numpy.float32)\n"
        "w = random.standard_normal((32, 16, 3, 3), dtype=numpy.float32)\n"
        "expected = pplconv.conv2d(x, w, threads=2)\n"
        "prepared = pplconv.Conv2d(w, threads=2)\n"
        "prepared(x)\n"
        "def child():\n"
        "  signal.alarm(20)\n"  # a child that waits for ever dies of it
        "  with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    for got in (pplconv.conv2d(x, w, threads=2), prepared(x)):\n"
        "      print(forked_after_openmp(), numpy.array_equal(got, expected))\n"
        "  print([w.category.__name__ for w in caught])\n"
        "in_child(child)\n"
        "print(numpy.array_equal(pplconv.conv2d(x, w, threads=2), expected))"
    )
    assert run(body) == ["True True", "True True", "['RuntimeWarning']", "True"]


@needs_fork
def test_changes_of_layout_in_a_forked_child_end_and_are_right() -> None:
    body = (
        "import os, signal\n"
        "os.environ['PPLCONV_NUM_THREADS'] = '2'\n"
        "import numpy, pplconv\n"
        "x = numpy.arange(64 * 128 * 128, dtype=numpy.float32).reshape(1, 64, 128, 128)\n"
        "expected = pplconv.to_blocked(x, 16)\n"
        "def child():\n"
        "  signal.alarm(20)\n"
        "  with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    got = pplconv.to_blocked(x, 16)\n"
        "    print(forked_after_openmp(), numpy.array_equal(got, expected),\n"
        "          numpy.array_equal(pplconv.from_blocked(got), x))\n"
        "  print([w.category.__name__ for w in caught])\n"
        "in_child(child)"
    )
    assert run(body) == ["True True True", "['RuntimeWarning']"]

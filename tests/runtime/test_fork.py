"""Forked children have teams of their own, as the parent's workers are not there."""

from __future__ import annotations

import os
import sys

import pytest

from tests.runtime.processes import run

pytestmark = [
    pytest.mark.unemulated(
        "every case starts an emulated process that forks: seconds each, and Linux's part alone"
    ),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
]

# A process that has computed on two threads keeps one more thread.
COUNTED = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads in /proc")


@COUNTED
def test_a_child_and_its_child_compute_on_teams_of_their_own() -> None:
    assert run(
        "expected = pplconv.Conv2d(w, threads=1)(x)\n"
        "conv = pplconv.Conv2d(w, threads=2)\n"
        "def compute(who):\n"
        "  before = os_threads()\n"
        "  for got in conv(x), pplconv.conv2d(x, w, threads=2), conv(x):\n"
        "    assert np.array_equal(got, expected)\n"
        "  print(who, os_threads() - before, team.largest_team(2), flush=True)\n"
        "def child():\n"
        "  warnings.simplefilter('error', RuntimeWarning)\n"
        "  compute('child')\n"
        "  assert forked(lambda: compute('grandchild')) == 0\n"
        "  assert forked(lambda: None) == 0\n"
        "  compute('child')\n"
        "warm = conv(x)\n"
        "compute('parent')\n"
        "print(forked(child))\n"
        "compute('parent')",
        PPLCONV_TEAM_START_US="1",
    ) == [
        "parent 0 2", "child 1 2", "grandchild 1 2", "child 0 2", "0", "parent 0 2",
    ]  # fmt: skip


@COUNTED
def test_a_thread_that_leads_a_team_forks_beside_others_that_do() -> None:
    """The child does not have the workers of the other threads either."""
    assert run(
        "conv = pplconv.Conv2d(w, threads=3)\n"
        "expected = pplconv.Conv2d(w, threads=1)(x)\n"
        "ready, done = threading.Barrier(3), threading.Event()\n"
        "def lead(forks):\n"
        "  conv(x)\n"
        "  ready.wait()\n"
        "  if forks: print(forked(child), flush=True); done.set()\n"
        "  done.wait()\n"
        "  assert np.array_equal(conv(x), expected)\n"
        "def child():\n"
        "  before = os_threads()\n"
        "  assert all(np.array_equal(conv(x), expected) for _ in range(20))\n"
        "  print(os_threads() - before, flush=True)\n"
        "threads = [threading.Thread(target=lead, args=(i == 1,)) for i in range(3)]\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()",
        PPLCONV_TEAM_START_US="1", PPLCONV_NUM_THREADS="16",
    ) == ["2", "0"]  # fmt: skip


def test_changes_of_layout_in_a_child_are_right() -> None:
    assert run(
        "x = np.arange(64 * 128 * 128, dtype=np.float32).reshape(1, 64, 128, 128)\n"
        "expected = pplconv.to_blocked(x, 16)\n"
        "def child():\n"
        "  got = pplconv.to_blocked(x, 16)\n"
        "  print(np.array_equal(got, expected), np.array_equal(pplconv.from_blocked(got), x))\n"
        "print(forked(child))",
        PPLCONV_NUM_THREADS="2",
    ) == ["True True", "0"]

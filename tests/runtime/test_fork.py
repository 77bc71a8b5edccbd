"""Forks as programs make them: children have teams and locks of their own, however made."""

from __future__ import annotations

import multiprocessing
import os
import sys

import numpy as np
import pytest

import pplconv
from pplconv.runtime import ForkableLock
from tests.patience import PATIENCE
from tests.programs import finding, output
from tests.runtime.processes import run

pytestmark = pytest.mark.unemulated(
    "every case starts an emulated process that forks: seconds each, and Linux's part alone"
)

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@needs_fork
def test_a_parent_computes_on_beside_its_children() -> None:
    """A web server that loads its model and tries it before it forks its workers."""
    assert run(
        "conv = pplconv.Conv2d(w, threads=2)\n"
        "expected = conv(x)\n"
        "def worker():\n"
        "  assert threading.active_count() == 1\n"
        "  for _ in range(5):\n"
        "    assert np.array_equal(conv(x), expected)\n"
        "    assert np.array_equal(pplconv.conv2d(x, w, threads=2), expected)\n"
        # Threads of the worker's own, and a shape that the parent never had.
        "  threads = [threading.Thread(target=conv, args=(x[:1],)) for _ in range(4)]\n"
        "  for t in threads: t.start()\n"
        "  for t in threads: t.join()\n"
        "  assert np.array_equal(conv(x[:1]), expected[:1])\n"
        "  assert team.threads_in_use() == 0\n"
        "pids = []\n"
        "sys.stdout.flush()\n"
        "for _ in range(3):\n"
        "  pid = os.fork()\n"
        "  if pid == 0:\n"
        "    status = 1\n"
        "    try:\n"
        "      signal.alarm(120)\n"
        "      warnings.simplefilter('error', RuntimeWarning)\n"
        "      worker()\n"
        "      status = 0\n"
        "    finally:\n"
        "      os._exit(status)\n"
        "  pids.append(pid)\n"
        "for _ in range(20): assert np.array_equal(conv(x), expected)\n"
        "print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids])\n"
        "assert np.array_equal(conv(x), expected)\n"
        # A worker that died is replaced, as the master does it.
        "print(forked(worker), team.largest_team(2))"
    ) == ["[0, 0, 0]", "0 2"]


PLANNED = (
    "convs = [pplconv.Conv2d(w, threads=2), pplconv.ConvTranspose2d(w, threads=2),\n"
    "         pplconv.Linear(random.standard_normal((256, 256), np.float32), threads=2),\n"
    "         pplconv.QConv2d(np.ones((32, 16, 3, 3), np.int8), x_scale=1.0, w_scale=1.0,\n"
    "                         out_dtype='float32', threads=2)]\n"
    "shapes = [(8, 16, 99, 99), (8, 32, 99, 99), (999, 256), (8, 16, 99, 99)]\n"
    "def planned():\n"
    "  return [c.plan_for(s).threads for c, s in zip(convs, shapes)]\n"
    "def parts(): return {p.threads for p in convs[1].plan_for(shapes[1]).parts}\n"
)


@needs_fork
def test_a_plan_says_how_many_threads_run_in_a_child() -> None:
    """Plans of the parent and those made in the child."""
    assert run(
        PLANNED + "threads = planned()\n"
        "pplconv.conv2d(x, w, threads=2)\n"
        "def child():\n"
        "  warnings.simplefilter('error', RuntimeWarning)\n"
        "  shapes[0] = shapes[3] = (8, 16, 100, 100)\n"
        "  print(planned(), parts())\n"
        "print(threads, parts())\n"
        "print(forked(child), planned())",
        PPLCONV_TEAM_START_US="1",
    ) == ["[2, 2, 2, 2] {2}", "[2, 2, 2, 2] {2}", "0 [2, 2, 2, 2]"]


def test_a_plan_says_how_many_threads_a_limit_leaves() -> None:
    """The bits, and so the rest of the plan, are the same."""
    assert run(
        PLANNED + "import dataclasses, threadpoolctl\n"
        "plan = convs[0].plan_for(shapes[0])\n"
        "with threadpoolctl.threadpool_limits(1):\n"
        "  print(planned(), parts())\n"
        "  print(convs[0].plan_for(shapes[0]) == dataclasses.replace(plan, threads=1))\n"
        "print(planned(), parts())",
        PPLCONV_TEAM_START_US="1",
    ) == ["[1, 1, 1, 1] {1}", "True", "[2, 2, 2, 2] {2}"]


@needs_fork
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(method: str, tmp_path) -> None:
    """Each way to start a process, from a parent that has led a team."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    script = tmp_path / "program.py"
    script.write_text(
        finding("import multiprocessing, warnings\n") + "import numpy as np, pplconv\n"
        "x = np.linspace(-1, 1, 2 * 16 * 28 * 28, dtype=np.float32).reshape(2, 16, 28, 28)\n"
        "w = np.linspace(-1, 1, 32 * 16 * 9, dtype=np.float32).reshape(32, 16, 3, 3)\n"
        "conv = pplconv.Conv2d(w, threads=2)\n"
        "def work(conv):\n"
        "    warnings.simplefilter('error', RuntimeWarning)\n"
        "    return conv(x).tobytes()\n"
        "if __name__ == '__main__':\n"
        "    expected = conv(x).tobytes()\n"
        f"    with multiprocessing.get_context({method!r}).Pool(2) as pool:\n"
        f"        answers = pool.map_async(work, [conv] * 4).get(timeout={PATIENCE / 2})\n"
        "    print(all(y == expected for y in answers))\n"
    )
    assert output(script) == "True\n"


@needs_fork
def test_a_fork_while_other_threads_plan_and_compute() -> None:
    """The child finds whole caches and no held lock, whatever the threads were doing."""
    assert run(
        "conv = pplconv.Conv2d(w, threads=2, padding=1)\n"
        "sides = range(5, 30)\n"
        "images = [random.standard_normal((1, 16, s, s), dtype=np.float32) for s in sides]\n"
        "expected = [pplconv.conv2d(i, w, padding=1, threads=1).tobytes() for i in images]\n"
        "stop = threading.Event()\n"
        "def work():\n"
        "  while not stop.is_set():\n"
        "    for i in images: conv(i); pplconv.conv2d(i, w, padding=1, threads=2)\n"
        "threads = [threading.Thread(target=work) for _ in range(3)]\n"
        "for t in threads: t.start()\n"
        "def child():\n"
        "  for i, y in zip(images, expected):\n"
        "    assert conv(i).tobytes() == y\n"
        "    assert pplconv.conv2d(i, w, padding=1, threads=2).tobytes() == y\n"
        "statuses = [forked(child) for _ in range(12)]\n"
        "stop.set()\n"
        "for t in threads: t.join()\n"
        "print(statuses == [0] * 12, team.threads_in_use())"
    ) == ["True 0"]


@needs_fork
def test_a_fork_while_another_thread_searches() -> None:
    """A search holds its convolution's lock for as long as it lasts."""
    assert run(
        "def child():\n"
        "  quick = pplconv.Conv2d(w)\n"
        "  assert np.array_equal(conv(x), quick(x))\n"
        # The search goes on when the child has ended, and not before.
        "from pplconv.planner import searching\n"
        "prepare = searching.Bench.prepare\n"
        "begun, go_on = threading.Event(), threading.Event()\n"
        "def slowly(*arguments):\n"
        "  if threading.current_thread() is thread:\n"
        "    begun.set()\n"
        "    go_on.wait()\n"
        "  return prepare(*arguments)\n"
        "searching.Bench.prepare = slowly\n"
        "conv = pplconv.Conv2d(w, threads=2, search='exhaustive', search_seconds=0.1)\n"
        "thread = threading.Thread(target=conv.plan_for, args=((4, 16, 28, 28),))\n"
        "thread.start()\n"
        "begun.wait()\n"
        "status = forked(child)\n"
        "searching = thread.is_alive()\n"
        "go_on.set()\n"
        "thread.join()\n"
        "print(searching, status)",
    ) == ["True 0"]


@needs_fork
def test_a_fork_while_another_thread_has_the_wisdom(tmp_path) -> None:
    """The store's own locks, held at the very moment of the fork."""
    assert run(
        "from pplconv.wisdom import api\n"
        "store = api._store()\n"
        "held, done = threading.Event(), threading.Event()\n"
        "def hold():\n"
        "  with store._writing, store._lock, api._guard:\n"
        "    held.set()\n"
        "    done.wait()\n"
        "thread = threading.Thread(target=hold)\n"
        "thread.start()\n"
        "held.wait()\n"
        "def child():\n"
        "  conv = pplconv.Conv2d(w, search='measure', search_seconds=0.05, threads=1)\n"
        "  conv(x)\n"
        "  assert len(pplconv.wisdom.export()['entries']) == 1\n"
        "status = forked(child)\n"
        "done.set()\n"
        "thread.join()\n"
        "print(status)",
        PPLCONV_WISDOM=str(tmp_path / "wisdom.json"),
    ) == ["0"]


@needs_fork
def test_a_lock_that_another_thread_held_is_open_in_the_child() -> None:
    assert run(
        "from pplconv.runtime import ForkableLock\n"
        "lock = ForkableLock()\n"
        "held, done = threading.Event(), threading.Event()\n"
        "def hold():\n"
        "  with lock:\n"
        "    held.set()\n"
        "    done.wait()\n"
        "thread = threading.Thread(target=hold)\n"
        "thread.start()\n"
        "held.wait()\n"
        "def grandchild():\n"
        "  with lock: print('grandchild', flush=True)\n"
        "def child():\n"
        "  with lock, lock: print('child', flush=True)\n"
        "  assert forked(grandchild) == 0\n"
        # It still is a lock: a second thread waits, which only a short wait shows.
        "  order, comes = [], threading.Event()\n"
        "  def second():\n"
        "    comes.set()\n"
        "    with lock: order.append(2)\n"
        "  with lock:\n"
        "    t = threading.Thread(target=second); t.start()\n"
        "    comes.wait(); t.join(0.05); order.append(1)\n"
        "  t.join(); print(order, flush=True)\n"
        "print(forked(child))\n"
        "done.set()\n"
        "thread.join()"
    ) == ["child", "grandchild", "[1, 2]", "0"]


@needs_fork
def test_a_lock_that_the_forking_thread_holds_stays_its_own() -> None:
    assert run(
        "from pplconv.runtime import ForkableLock\n"
        "lock = ForkableLock()\n"
        "def child():\n"
        "  with lock: pass\n"
        "  got, comes = [], threading.Event()\n"
        "  def other():\n"
        "    comes.set()\n"
        "    with lock: got.append(1)\n"
        "  t = threading.Thread(target=other, daemon=True)\n"
        # Only a wait shows that it does not get the lock.
        "  t.start(); comes.wait(); t.join(0.2)\n"
        "  print(got, flush=True)\n"
        "with lock: print(forked(child))"
    ) == ["[]", "0"]


def test_a_lock_lets_its_own_thread_pass_again() -> None:
    """A signal handler may run while its thread holds it."""
    lock = ForkableLock()
    with lock, lock:
        pass


@needs_fork
def test_a_child_counts_only_its_own_threads() -> None:
    assert run(
        "def child(): print(team.threads_in_use(), flush=True)\n"
        "with team.Taken(3, 8):\n"
        "  print(forked(child), team.threads_in_use())"
    ) == ["0", "0 3"]


@needs_fork
def test_scratch_of_the_parent_is_whole_in_the_child() -> None:
    """Buffers of the pool, one of them in another thread's hands during the fork."""
    x = np.ones((1, 8, 9, 9), np.float32)
    assert pplconv.conv2d(x, np.ones((8, 8, 3, 3), np.float32))[0, 0, 0, 0] == 72
    assert run(
        "ys = [pplconv.conv2d(x[:, :, :s, :s], w, threads=1) for s in range(5, 28)]\n"
        "def child():\n"
        "  for s, y in zip(range(5, 28), ys):\n"
        "    assert np.array_equal(pplconv.conv2d(x[:, :, :s, :s], w, threads=1), y)\n"
        "print([forked(child) for _ in range(3)])"
    ) == ["[0, 0, 0]"]


# A process that has computed on two threads keeps one more thread.
COUNTED = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads in /proc")


@needs_fork
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


@needs_fork
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


@needs_fork
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

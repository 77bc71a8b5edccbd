"""The forking process: when it may fork, what workers inherit, and what follows its end."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

import pplconv
from pplconv.instances import forking, process
from tests import children
from tests.children import ROOTS
from tests.instances import process_models as models
from tests.instances.process_case import lives, own_descriptors, workers
from tests.patience import PATIENCE, eventually
from tests.programs import output, ran

pytestmark = [
    pytest.mark.skipif(not forking.CAN_FORK, reason="Linux with pidfds"),
    pytest.mark.unemulated(
        "the emulator's own threads look like a library's, so nothing is forked"
    ),
]
# Starts OpenMP threads, as another library does.
OPENMP = (
    "import ctypes; c = ctypes.CDLL(None); "
    "lines = open('/proc/self/maps').read().splitlines(); "
    "gomp = ctypes.CDLL(next(line.split()[-1] for line in lines if 'gomp' in line)); "
    "gomp.GOMP_parallel(ctypes.cast(c.getpid, ctypes.c_void_p), None, 2, 0)"
)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_workers_have_one_parent_that_is_not_this_process():
    with workers(models.Servant, count=2) as make:
        one, two = make(0), make(1)
        server = parent_of(one.pid)
        assert server == parent_of(two.pid) != os.getpid() and parent_of(server) == os.getpid()
        for each in (one, two):
            each.close(PATIENCE)
            eventually(lambda pid=each.pid: not Path(f"/proc/{pid}").exists(), "the zombie's end")
    assert not lives(server)


def test_workers_outlive_the_process_that_forked_them():
    with workers(models.Servant, count=2) as make:
        one = make(0)
        server = parent_of(one.pid)
        os.kill(server, signal.SIGKILL)
        eventually(lambda: not lives(server), "the end of the forking process")
        assert one.run(("pid",), {}) == one.pid
        two = make(1)
        assert parent_of(two.pid) not in (server, parent_of(one.pid))
        assert two.run(("pid",), {}) == two.pid
        os.kill(one.pid, signal.SIGKILL)
        eventually(lambda: one.ended, "the end of the worker")
        one.close(1)
        two.close(1)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGHUP])
def test_signals_to_the_whole_group_are_for_the_pools_process(sent):
    """A terminal sends them to the whole group; only the pool's process may react."""
    with workers(models.Servant, count=2) as make:
        one = make(0)
        server = parent_of(one.pid)
        os.kill(server, sent)
        os.kill(one.pid, sent)
        assert one.run(("pid",), {}) == one.pid
        two = make(1)
        assert parent_of(two.pid) == server
        for each in (one, two):
            each.close(PATIENCE)


def test_children_that_a_program_does_not_wait_for():
    """A parent that ignores SIGCHLD passes that on; the forking process still waits for workers."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with workers(models.Servant, count=2) as make:
            one = make(0)
            server = parent_of(one.pid)
            os.kill(one.pid, signal.SIGKILL)
            eventually(lambda: not Path(f"/proc/{one.pid}").exists(), "the worker's end")
            two = make(1)
            assert parent_of(two.pid) == server
            for each in (one, two):
                each.close(PATIENCE)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_system_that_gives_no_descriptors_of_processes(monkeypatch):
    """An older kernel, or a sandbox: workers are spawned there."""
    assert forking._can_fork()

    def refused(*_):
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(os, "pidfd_open", refused)
        assert not forking._can_fork()
    with monkeypatch.context() as patch:
        patch.setattr(signal, "pidfd_send_signal", refused)
        assert not forking._can_fork()


def test_an_interrupt_leaves_no_stray_answer(monkeypatch):
    with workers(models.Servant, count=2) as make:
        one = make(0)
        with monkeypatch.context() as patch:

            def interrupted(self):
                raise KeyboardInterrupt

            patch.setattr(forking.ForkServer, "_answer", interrupted)
            with pytest.raises(KeyboardInterrupt):
                make(1)
        two = make(1)
        assert two.run(("pid",), {}) == two.pid != one.pid
        assert one.run(("pid",), {}) == one.pid
        one.close(PATIENCE)
        two.close(PATIENCE)


def test_a_worker_that_ends_while_it_takes_its_model_is_told():
    with workers(make_deadly) as make, pytest.raises(RuntimeError, match="ended while taking over"):
        make(0)


class Deadly:
    """A model that ends the process that unpickles it."""

    def __reduce__(self):
        return os._exit, (3,)

    def __call__(self):
        pass


def make_deadly():
    return Deadly()


def test_workers_can_be_spawned_instead(monkeypatch):
    monkeypatch.setattr(process, "CAN_FORK", False)
    with workers(models.Servant) as make:
        one = make(0)
        assert parent_of(one.pid) == os.getpid()
        assert one.run(("change", np.ones(3)), {}).tolist() == [2, 2, 2]
        os.kill(one.pid, signal.SIGKILL)
        eventually(lambda: one.ended, "the end of the worker")
        one.close(1)
        again = make(0)
        assert again.run(("pid",), {}) == again.pid
        again.close(PATIENCE)


def draw():
    """Random numbers of NumPy's global generator, which exists before the fork."""
    return np.random.random(4).tolist()


def make_draw():
    return draw


def test_workers_draw_numbers_of_their_own():
    with workers(make_draw, count=3) as make:
        made = [make(index) for index in range(3)]
        drawn = [tuple(one.run((), {})) for one in made]
        assert len(set(drawn)) == 3
        for one in made:
            one.close(PATIENCE)


MAIN = f"""
import sys, threading
sys.path[:0] = {ROOTS!r}
import os
import numpy as np
import pplconv
from pplconv.instances.worker_placement import Placement
from pplconv.instances.process import make_process_workers

DO

def inner():
    return os.getppid()

def factory():
    return inner

if __name__ == "__main__":
    make = make_process_workers(factory, [Placement(None, ())] * 2, 2)
    for index in (0, 1):
        print(make(index).run((), {{}}), os.getpid())
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "what",
    [
        "threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "pplconv.conv2d(np.ones((8, 16, 64, 64), 'f'), np.ones((16, 16, 3, 3), 'f'), threads=2)",
        OPENMP,
        "pass",
    ],
)
def test_a_program_with_threads_has_its_workers_spawned(what, tmp_path):
    """A forked child would lack the threads, and could inherit locks that they held."""
    path = tmp_path / "program.py"
    path.write_text(MAIN.replace("DO", what))
    done = ran(path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == 2
    for parent, own in lines:
        assert (parent == own) == (what != "pass")


FORKS = """
import glob, json, os, sys
import pplconv
from tests.instances.process_models import Servant

def main():
    with pplconv.InstancePool(Servant, mode="process", instances=1, threads=1) as pool:
        first = pool.submit("pid").result()
        threads = glob.glob("/proc/self/task/*/children")
        started = [pid for path in threads for pid in open(path).read().split()]
        if os.fork() == 0:
            sys.exit(0)
        os.wait()
        states = [open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] for pid in started]
        print(json.dumps([states, first == pool.submit("pid").result()]))

if __name__ == "__main__":
    main()
"""


def test_a_child_that_exits_ends_nothing_of_its_parent(tmp_path):
    """`multiprocessing` has a child of `os.fork` terminate what its parent started."""
    script = tmp_path / "forks.py"
    script.write_text(FORKS)
    states, same = json.loads(output(script, env=children.environment(), cwd=tmp_path))
    assert states and not {"Z", "X"} & set(states), "the process that forks was terminated"
    assert same


class Unfit:
    """A model that no worker can take over."""

    def __init__(self, ends: bool) -> None:
        self.ends = ends
        self.weights = np.zeros(1000)

    def __call__(self, x):
        return x

    def __setstate__(self, state):
        if state["ends"]:
            os._exit(3)
        raise RuntimeError("no")


@pytest.mark.parametrize("ends", [False, True])
def test_pools_that_cannot_be_made_keep_nothing(ends):
    """Not even while a kept exception holds the frames of its traceback."""
    kept, opened = [], []
    for _ in range(3):
        before = own_descriptors()
        with pytest.raises(RuntimeError) as caught:
            pplconv.InstancePool(lambda: Unfit(ends), mode="process", instances=2, threads=1)
        kept.append(caught)
        opened.append(own_descriptors() - before)
    # The first pool starts helpers that Python keeps. Those of earlier tests may still end here.
    assert opened[1:] == [set(), set()]

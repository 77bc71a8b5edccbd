"""Worker processes die, hang, fail and are interrupted; nothing is left of them."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading

import numpy as np
import pytest

from pplconv.instances.pool_errors import RemoteTraceback
from pplconv.instances.worker import WorkerDied
from tests.instances import process_models as models
from tests.instances.process_case import LINUX, lives, outcome, own_resources, worker, workers
from tests.patience import PATIENCE, eventually
from tests.programs import finding, started

pytestmark = pytest.mark.unemulated(
    "starts and kills dozens of processes, each seconds of emulation"
)

# Seconds of a wait that no test may sit out.
FOREVER = 10 * PATIENCE


# Errors ----------------------------------------------------------------------------------------


def test_exceptions_come_back_with_their_traceback(servant):
    with pytest.raises(KeyError, match="missing") as caught:
        servant.run(("fail", "missing"), {})
    assert caught.value.args == ("missing",)
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert "process_models.py" in str(caught.value.__cause__)
    assert "in fail" in str(caught.value.__cause__)


@pytest.mark.parametrize(
    ("name", "text"),
    [("lambda", "ValueError: not picklable"), ("demanding", "one and two"), ("exit", "SystemExit")],
)
def test_exceptions_that_cannot_come_are_told_of(name, text, servant):
    with pytest.raises(RuntimeError, match=text) as caught:
        servant.run(("fail", name), {})
    assert "in fail" in str(caught.value.__cause__)
    assert servant.run(("threads",), {}) == 1


def test_an_answer_that_cannot_be_sent_is_an_error_of_that_request(servant):
    with pytest.raises(TypeError, match="answer, a lock, cannot be sent"):
        servant.run(("lock",), {})
    assert servant.run(("threads",), {}) == 1


def test_failed_requests_leave_nothing(servant):
    large = np.zeros(100_000)
    for _ in range(3):
        with pytest.raises(TypeError):
            servant.run(("threads", large), {})
    before = servant.run(("resources",), {})
    for _ in range(30):
        with pytest.raises(TypeError):
            servant.run(("threads", large), {})
    assert servant.run(("resources",), {}) == before


@pytest.mark.parametrize("daemon", ["worker", "multiprocessing"])
def test_a_daemonic_process_has_pools_of_threads_only(daemon, servant, rng):
    """`multiprocessing` refuses children of daemonic processes: our workers, and its own pool's."""
    x = rng.standard_normal(100)
    if daemon == "worker":
        answers, refused = servant.run(("pools", x), {})
    else:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            answers, refused = pool.apply_async(models.pools, (x,)).get(PATIENCE)
    np.testing.assert_array_equal(answers, [x + x, x + x])
    assert refused.startswith("mode='process' needs child processes")
    assert "daemonic" in refused


# Death -----------------------------------------------------------------------------------------


def test_a_worker_that_is_killed_while_idle_is_replaced():
    with workers(models.Servant) as make:
        one = make(0)
        os.kill(one.pid, signal.SIGKILL)
        eventually(lambda: not lives(one.pid), "the end of the worker")
        for _ in range(2):
            with pytest.raises(WorkerDied, match=r"has ended"):
                outcome(lambda: one.run(("pid",), {}))
        outcome(lambda: one.close(FOREVER))
        again = make(0)
        assert again.run(("pid",), {}) == again.pid != one.pid
        again.close(PATIENCE)


@pytest.mark.parametrize("way", ["die", "fork_and_die"])
def test_a_worker_that_dies_in_a_request_is_replaced(way, tmp_path):
    """Also when a child of the worker lives on and holds its pipes and sockets."""
    if way == "fork_and_die" and not hasattr(os, "pidfd_open"):
        pytest.skip("no pidfd_open")
    child = tmp_path / "child"
    with workers(models.Servant) as make:
        one = make(0)
        with pytest.raises(WorkerDied):
            outcome(lambda: one.run((way, str(child)), {}))
        outcome(lambda: one.close(FOREVER))
        if way == "fork_and_die":
            pid = int(child.read_text())
            assert lives(pid), "nobody waited for its end"
            os.kill(pid, signal.SIGKILL)
        with worker(models.Servant) as again:
            assert again.run(("pid",), {}) == again.pid


def test_a_worker_that_is_killed_at_any_time_is_noticed(rng):
    """Also in the middle of a write: half an answer counts as none."""
    array = rng.standard_normal(1_000_000)
    with workers(models.Servant) as make:
        for delay in (0.0, 0.003, 0.011):
            one = make(0)
            one.run(("change", array), {})
            timer = threading.Timer(delay, os.kill, (one.pid, signal.SIGKILL))
            timer.start()
            with pytest.raises(WorkerDied):
                while True:
                    np.testing.assert_array_equal(one.run(("change", array), {}), array + 1)
            timer.join()
            one.close(PATIENCE)
            assert not lives(one.pid)


def test_close_waits_for_the_request_that_runs(tmp_path):
    begun, end = tmp_path / "begun", tmp_path / "end"
    with workers(models.Servant) as make:
        one = make(0)
        answers = []
        request = ("linger", str(begun), str(end))
        runs = threading.Thread(target=lambda: answers.append(one.run(request, {})))
        runs.start()
        eventually(begun.exists, "the request's begin")
        closes = threading.Thread(target=one.close, args=(PATIENCE,))
        closes.start()
        # Only a wait shows that it does nothing; too short a wait merely misses a fault.
        closes.join(0.1)
        assert closes.is_alive() and not answers
        end.touch()
        closes.join(PATIENCE)
        runs.join(PATIENCE)
        assert answers == ["lingered"]
        with pytest.raises(WorkerDied):
            one.run(("pid",), {})


@pytest.mark.parametrize("way", ["close", "abandon"])
def test_a_worker_that_hangs_is_killed(way, tmp_path):
    begun = tmp_path / "begun"
    with workers(models.Servant) as make:
        one = make(0)
        ended = []

        def run():
            try:
                ended.append(one.run(("sleep", FOREVER, str(begun)), {}))
            except WorkerDied as died:
                ended.append(died)

        runs = threading.Thread(target=run)
        runs.start()
        eventually(begun.exists, "the request's begin")
        outcome(lambda: one.close(0.3) if way == "close" else one.abandon())
        runs.join(PATIENCE)
        outcome(lambda: one.close(0.3))
        assert len(ended) == 1 and isinstance(ended[0], WorkerDied)
        assert not lives(one.pid)


def test_closing_is_for_good():
    with workers(models.Servant) as make:
        one = make(0)
        make.close()
        make.close()
        assert not lives(one.pid)
        with pytest.raises(RuntimeError, match="closed"):
            make(0)
        one.close(1)
        one.close(1)


def test_an_interrupt_in_the_parent_leaves_no_stray_answer(tmp_path):
    """The late answer of an interrupted request must not be taken for the next request's."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread alone")
    begun = tmp_path / "begun"

    def press():
        eventually(begun.exists, "the request's begin")
        os.kill(os.getpid(), signal.SIGINT)

    with workers(models.Servant) as make:
        one = make(0)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        presses = threading.Thread(target=press)
        try:
            presses.start()
            with pytest.raises(KeyboardInterrupt):
                one.run(("sleep", FOREVER, str(begun)), {})
        finally:
            presses.join()
            signal.signal(signal.SIGINT, before)
        with pytest.raises(WorkerDied):
            one.run(("pid",), {})
        one.close(1)


def test_workers_ignore_ctrl_c(servant):
    assert servant.run(("disposition",), {}) == (True, False)
    os.kill(servant.pid, signal.SIGINT)
    assert servant.run(("pid",), {}) == servant.pid


# What is left ----------------------------------------------------------------------------------


@pytest.mark.skipif(not LINUX, reason="/proc")
def test_nothing_leaks_over_many_requests(servant, rng):
    arrays = [rng.standard_normal(size) for size in (10, 30_000, 2_000_000)]
    for x in arrays:
        servant.run(("change", x), {})
    gc.collect()
    before = own_resources(), servant.run(("resources",), {})
    for i in range(200):
        servant.run(("change", arrays[i % 3]), {})
    gc.collect()
    assert (own_resources(), servant.run(("resources",), {})) == before


@pytest.mark.skipif(not LINUX, reason="/proc")
def test_nothing_leaks_over_many_workers():
    with worker(models.Servant):
        pass  # the first worker starts helpers that Python keeps
    gc.collect()
    before, shared = own_resources(), sorted(os.listdir("/dev/shm"))
    for kill in (True, False, True):
        with workers(models.Servant) as make:
            one = make(0)
            one.run(("change", np.zeros(100_000)), {})
            if kill:
                os.kill(one.pid, signal.SIGKILL)
            one.close(PATIENCE)
        assert not lives(one.pid)
        del one, make
    gc.collect()
    assert own_resources() == before
    assert not [name for name in set(os.listdir("/dev/shm")) - set(shared) if "pplconv" in name]


PREAMBLE = """
import os, signal, time
import numpy as np
from tests.instances import process_models as models
from pplconv.instances import process
from pplconv.instances.worker_placement import Placement
from pplconv.instances.process import make_process_workers
"""


def script(tmp_path, body):
    path = tmp_path / "program.py"
    path.write_text(finding(PREAMBLE + body))
    return started(path, cwd=tmp_path)


HANG = """
if __name__ == "__main__":
    if "spawned" in %r:
        process.CAN_FORK = False
    make = make_process_workers(models.Servant, [Placement(None, ())] * 2, 1)
    one, two = make(0), make(1)
    one.run(("change", np.zeros(100000)), {})
    child = os.fork() if "forked" in %r else os.getpid()
    if child == 0:
        sys.stdout.close(); os.close(1); os.close(2)
        signal.alarm(3600)  # whatever becomes of the test
        signal.pause()  # holds every socket and pipe of its parent, until it is killed
    print(one.pid, two.pid, child, flush=True)
    while "busy" in %r:
        one.run(("change", np.zeros(5)), {})
    one.run(("linger", "begun", "never"), {})
"""


@pytest.mark.sampled(2)
@pytest.mark.skipif(not LINUX, reason="/proc")
@pytest.mark.parametrize("state", ["alone", "forked", "busy", "spawned", "spawned, busy"])
def test_workers_end_with_their_parent(state, tmp_path):
    """Workers end whether busy or idle, and even if a child of the parent holds its pipes."""
    if state == "forked" and not hasattr(os, "pidfd_open"):
        pytest.skip("no pidfd_open")
    before = set(os.listdir("/dev/shm"))
    parent = script(tmp_path, HANG % (state, state, state))
    line = parent.stdout.readline()
    assert line, parent.stderr.read()
    *pids, child = map(int, line.split())
    assert len(pids) == 2 and all(map(lives, pids))
    parent.kill()
    parent.wait(PATIENCE)
    eventually(lambda: not any(map(lives, pids)), "the end of the workers")
    if state == "forked":
        assert lives(child), "nobody waited for its end"
        os.kill(child, signal.SIGKILL)
    parent.stdout.close()
    parent.stderr.close()
    assert not [name for name in set(os.listdir("/dev/shm")) - before if "pplconv" in name]


LEAVE = """
if __name__ == "__main__":
    make = make_process_workers(models.Servant, [Placement(None, ())], 1)
    one = make(0)
    print(one.pid, one.run(("change", np.zeros(5)), {}).sum(), flush=True)
"""


@pytest.mark.skipif(not LINUX, reason="/proc")
def test_a_program_may_end_without_closing(tmp_path):
    program = script(tmp_path, LEAVE)
    out, err = program.communicate(timeout=PATIENCE)
    assert (program.returncode, err) == (0, "")
    pid, total = out.split()
    assert total == "5.0" and not lives(int(pid))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_leaves_the_workers_alone(tmp_path):
    body = LEAVE + (
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        try:\n"
        "            one.run(('pid',), {})\n"
        "        except RuntimeError as error:\n"
        "            print(error, flush=True)\n"
        "        one.close(1)\n"
        "        make.close()\n"
        "        os._exit(0)\n"
        "    os.waitpid(pid, 0)\n"
        "    print(one.run(('pid',), {}) == one.pid)\n"
    )
    program = script(tmp_path, body)
    out, err = program.communicate(timeout=PATIENCE)
    assert (program.returncode, err) == (0, "")
    assert "belongs to the process" in out.splitlines()[1]
    assert out.splitlines()[2] == "True"


def test_a_script_without_a_guard_is_told(tmp_path):
    body = """
make = make_process_workers(models.Servant, [Placement(None, ())], 1)
make(0)
"""
    program = script(tmp_path, body)
    _, err = program.communicate(timeout=PATIENCE)
    assert program.returncode == 1
    last = err.strip().splitlines()[-1]
    assert "factory" in last and 'if __name__ == "__main__"' in last


def test_models_of_the_main_module_work_behind_a_guard(tmp_path):
    body = """
class Mine:
    def __call__(self, x):
        return x + 1

def factory():
    return Mine()

if __name__ == "__main__":
    make = make_process_workers(factory, [Placement(None, ())], 1)
    print(make(0).run((1,), {}))
"""
    program = script(tmp_path, body)
    out, err = program.communicate(timeout=PATIENCE)
    assert (out, err) == ("2\n", "")

"""Waiting means watching or sleeping; a worker may be killed at every step of a request."""

from __future__ import annotations

import functools
import os
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import pplconv
from pplconv.instances import process
from pplconv.instances.spare import SpareCores
from pplconv.instances.splitting import usable_cores
from pplconv.machine import current as current_machine
from tests.instances import doomed
from tests.instances import process_models as models
from tests.instances.process_case import LINUX, worker, workers
from tests.patience import PATIENCE, eventually

MANNERS = ("watching", "sleeping")
# Steps whose course depends on whether the reader watches or sleeps.
TELLING = ("announced", "segment sent", "posted")


@pytest.fixture(params=MANNERS)
def manner(request, monkeypatch):
    """Pretend that there are enough cores to watch, or only one."""
    cores = {"watching": 64.0, "sleeping": 1.0}[request.param]
    monkeypatch.setattr(process, "usable_cores", lambda machine: cores)
    monkeypatch.setattr(process, "process_threads", lambda settings, machine: 64)
    return request.param


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("step", "manner"),
    [(step, MANNERS[0]) for step in doomed.STEPS] + [(step, MANNERS[1]) for step in TELLING],
    indirect=["manner"],
)
def test_a_worker_may_be_killed_at_any_step(step, manner, tmp_path):
    token = tmp_path / "token"
    factory = functools.partial(doomed.make, step, str(token))
    x, answers = doomed.large(), []
    with pplconv.InstancePool(factory, instances=1, threads=1, mode="process", pin=False) as pool:
        token.touch()
        for turn in range(3):
            if turn and step == "naps":
                eventually(lambda: not token.exists(), "the end of a worker that went to sleep")
            future = pool.submit(x + turn)
            future.add_done_callback(lambda done: answers.append(done.result()))
            np.testing.assert_array_equal(future.result(PATIENCE), x + turn + 1)
        (statistics,) = pool.statistics()
        assert not token.exists(), "it was killed"
        assert (statistics.served, statistics.errors, statistics.replaced) == (3, 0, 1)
    assert len(answers) == 3, "one answer each"
    runs = len((tmp_path / "token.runs").read_text())
    assert runs == (3 if step in doomed.ANSWERED else 4), "none after its answer"


@contextmanager
def doomed_pool(step, tmp_path):
    """Make a pool whose worker dies once at this step, and that runs no request again."""
    factory = functools.partial(doomed.make, step, str(tmp_path / "token"))
    with pplconv.InstancePool(factory, 1, 1, mode="process", retries=0) as pool:
        (tmp_path / "token").touch()
        yield pool


def test_without_retries_no_request_is_run_twice(tmp_path):
    with doomed_pool("computed", tmp_path) as pool:
        with pytest.raises(pplconv.WorkerDied, match=r"not run again \(retries=0\)"):
            pool.submit(1).result(PATIENCE)
        assert pool.submit(2).result(PATIENCE) == 3
        (statistics,) = pool.statistics()
        assert (statistics.errors, statistics.replaced, statistics.retried) == (1, 1, 0)
    assert len((tmp_path / "token.runs").read_text()) == 2


def test_a_worker_that_died_idle_costs_no_request(tmp_path):
    with doomed_pool("naps", tmp_path) as pool:
        assert pool.submit(1).result(PATIENCE) == 2
        eventually(lambda: pool._dispatchers[0]._worker.ended, "the end of the worker")
        assert pool.submit(2).result(PATIENCE) == 3
        (statistics,) = pool.statistics()
        assert (statistics.errors, statistics.replaced, statistics.retried) == (0, 1, 0)


def test_requests_go_through_in_either_manner(manner, rng):
    with worker(models.Echo) as one:
        sent = [rng.standard_normal(size) for size in (3, 300_000, 20)]
        for x in sent * 20:
            assert one.run((x,), {}).tobytes() == x.tobytes()
        assert one.run((1, "two"), {"three": sent}) is not None
        eventually(one._channel._outbox.sleeper, "its sleep, whatever its manner")
        assert one.run((sent[0],), {}).tobytes() == sent[0].tobytes()


@pytest.mark.skipif(not LINUX, reason="/proc/<pid>/stat")
def test_idle_workers_use_no_cpu(manner):
    with workers(models.Servant, count=2) as make:
        pair = [make(0), make(1)]
        for one in pair * 20:
            one.run(("change", np.zeros(5)), {})
        for one in pair:
            eventually(one._channel._outbox.sleeper, "its sleep")
        before = [ticks(one.pid) for one in pair]
        # Only a wait shows idleness: watching would use fifty ticks.
        time.sleep(0.5)
        assert [ticks(one.pid) for one in pair] == before
        for one in pair:
            one.close(PATIENCE)


def ticks(pid):
    """CPU time of a process, in hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_nobody_watches_where_requests_keep_every_core_busy():
    spare = SpareCores(4, 1)
    assert [spare.begin() for _ in range(5)] == [True, True, True, False, False]
    for _ in range(3):
        spare.end()
    assert spare.begin()
    assert not SpareCores(1, 1).begin()
    assert not SpareCores(1.5, 1).begin()
    assert SpareCores(2, 1).begin()
    assert not SpareCores(4, 4).begin()


def test_requests_are_counted_until_they_are_answered(monkeypatch):
    with worker(models.Servant) as one:
        for args in (("pid",), ("fail", "missing"), ("lock",), (lambda: 1,)):
            try:
                one.run(args, {})
            except Exception:
                assert args != ("pid",)
            assert one._spare._running == 0


@pytest.mark.parametrize(("share", "left_over"), [("1", False), ("64", True)])
def test_nobody_watches_beyond_the_share_of_the_process(monkeypatch, share, left_over):
    monkeypatch.setattr("pplconv.instances.process.usable_cores", lambda machine: 4)
    monkeypatch.setenv("PPLCONV_NUM_THREADS", share)
    with workers(models.Servant) as make:
        assert make._spare.begin() is left_over


def test_cores_are_no_more_than_the_quota_pays_for():
    machine = current_machine()
    assert 1 <= usable_cores(machine) <= (os.cpu_count() or 1)

"""Workers that die: replaced, the request run again once, no request lost or answered twice."""

from __future__ import annotations

import threading

import pytest

import pplconv
from pplconv.instances import PoolClosed, WorkerDied
from pplconv.instances import pool as pool_module
from pplconv.instances.worker import Worker
from tests.instances.gates import Gate
from tests.patience import PATIENCE, eventually


class Mortal(Worker):
    """Dies of a request once for each item of the list that the request brings."""

    def __init__(self, index: int, log: list) -> None:
        self.index, self.log, self.dead = index, log, False
        log.append(("made", index))

    def run(self, args, kwargs):
        assert not self.dead, "asked for more than close"
        value, deaths = args
        self.log.append(("run", value))
        if deaths:
            deaths.pop()
            self.dead = True
            raise WorkerDied("gone")
        return value

    def close(self, timeout: float) -> None:
        assert timeout >= 0
        self.log.append(("closed", self.index))

    @property
    def node(self) -> int | None:
        return 3

    @property
    def cores(self) -> tuple[int, ...]:
        return (self.index,)


@pytest.fixture
def log():
    return []


@pytest.fixture
def pool_of(monkeypatch):
    def make(make_worker, **settings):
        monkeypatch.setattr(pool_module, "_maker", lambda mode: lambda *_: make_worker)
        settings.setdefault("instances", 1)
        return pplconv.InstancePool(lambda: None, threads=1, **settings)

    return make


def test_a_worker_that_died_is_replaced_and_the_request_runs_again(pool_of, log):
    with pool_of(lambda index: Mortal(index, log)) as pool:
        assert pool.submit("a", [1]).result(PATIENCE) == "a"
        (statistics,) = pool.statistics()
        assert (statistics.served, statistics.errors, statistics.replaced) == (1, 0, 1)
        assert statistics.retried == 1
        assert (statistics.node, statistics.cores) == (3, (0,))
        assert pool.submit("b", []).result(PATIENCE) == "b"
    assert log == [
        ("made", 0), ("run", "a"), ("closed", 0),
        ("made", 0), ("run", "a"), ("run", "b"), ("closed", 0),
    ]  # fmt: skip


def test_a_request_that_kills_twice_fails(pool_of, log):
    with pool_of(lambda index: Mortal(index, log)) as pool:
        bad, good = pool.submit("a", [1, 2, 3]), pool.submit("b", [])
        with pytest.raises(WorkerDied, match="so did the one that ran it again"):
            bad.result(PATIENCE)
        assert good.result(PATIENCE) == "b"
        (statistics,) = pool.statistics()
        assert (statistics.served, statistics.errors, statistics.replaced) == (1, 1, 2)
    assert log.count(("run", "a")) == 2
    assert log.count(("made", 0)) == log.count(("closed", 0)) == 3


def test_without_retries_no_request_runs_twice(pool_of, log):
    with pool_of(lambda index: Mortal(index, log), retries=0) as pool:
        bad, good = pool.submit("a", [1]), pool.submit("b", [])
        with pytest.raises(WorkerDied, match=r"died .* not run again \(retries=0\)"):
            bad.result(PATIENCE)
        assert good.result(PATIENCE) == "b"
        (statistics,) = pool.statistics()
        assert (statistics.errors, statistics.replaced, statistics.retried) == (1, 1, 0)
    assert [what for what in log if what[0] == "run"] == [("run", "a"), ("run", "b")]


@pytest.mark.parametrize("deaths", [2, 3, 4])
def test_a_request_runs_again_as_often_as_asked(pool_of, log, deaths):
    with pool_of(lambda index: Mortal(index, log), retries=3) as pool:
        future = pool.submit("a", [0] * deaths)
        if deaths > 3:
            with pytest.raises(WorkerDied, match="so did each of the 3 that ran it again"):
                future.result(PATIENCE)
        else:
            assert future.result(PATIENCE) == "a"
        (statistics,) = pool.statistics()
        assert statistics.retried == min(deaths, 3)
    assert log.count(("run", "a")) == 1 + min(deaths, 3)


def test_a_worker_that_died_before_a_request_is_replaced_without_a_retry(pool_of, log):
    class Watched(Mortal):
        @property
        def ended(self) -> bool:
            return self.dead

    workers = []

    def make_worker(index):
        workers.append(Watched(index, log))
        return workers[-1]

    with pool_of(make_worker, retries=0) as pool:
        workers[0].dead = True  # without a request
        assert pool.submit("a", []).result(PATIENCE) == "a"
        (statistics,) = pool.statistics()
        assert (statistics.served, statistics.replaced, statistics.retried) == (1, 1, 0)
    assert log.count(("run", "a")) == 1


def test_under_load_each_request_is_answered_once(pool_of, log):
    answered = []
    with pool_of(lambda index: Mortal(index, log), instances=3, queue_size=5) as pool:
        futures = []
        for i in range(400):
            future = pool.submit(i, [0] * (i % 7 == 0))
            future.add_done_callback(lambda f: answered.append(f.result()))
            futures.append(future)
        assert [f.result(PATIENCE) for f in futures] == list(range(400))
    assert sorted(answered) == list(range(400))
    runs = [value for what, value in log if what == "run"]
    assert all(runs.count(i) == 1 + (i % 7 == 0) for i in range(400))


def test_a_worker_that_dies_before_it_is_ready_costs_no_request(pool_of, log):
    failures = []

    def make_worker(index):
        if failures:
            raise failures.pop()
        return Mortal(index, log)

    with pool_of(make_worker) as pool:
        for count in (1, 2):
            failures[:] = [RuntimeError("killed while it started")] * count
            assert pool.submit("a", [1]).result(PATIENCE) == "a"
            assert not failures
        failures[:] = [RuntimeError("killed while it started")] * 3
        with pytest.raises(WorkerDied, match="there is no other: killed while"):
            pool.submit("a", [1]).result(PATIENCE)
        (statistics,) = pool.statistics()
        assert (statistics.served, statistics.errors) == (2, 1)


def test_without_another_worker_requests_fail_and_the_others_serve(pool_of, log):
    broken = threading.Event()

    def make_worker(index):
        if broken.is_set() and index == 0:
            raise OSError("no processes left")
        return Mortal(index, log)

    with pool_of(make_worker) as pool:
        assert pool.submit("a", []).result(PATIENCE) == "a"
        broken.set()
        with pytest.raises(WorkerDied, match="there is no other: no processes left"):
            pool.submit("b", [1]).result(PATIENCE)
        with pytest.raises(WorkerDied, match="no processes left") as caught:
            pool.submit("c", []).result(PATIENCE)
        assert isinstance(caught.value.__cause__, OSError)
        broken.clear()  # the pool recovers without a restart

        def served():
            try:
                return pool.submit("d", []).result(PATIENCE) == "d"
            except WorkerDied:
                return False

        eventually(served, "an answer")


def test_a_worker_that_cannot_be_made_fails_the_constructor(pool_of, log):
    def make_worker(index):
        if index == 1:
            raise OSError("no processes left")
        return Mortal(index, log)

    with pytest.raises(OSError, match="no processes left"):
        pool_of(make_worker, instances=3)
    assert log.count(("made", 0)) == log.count(("closed", 0)) == 1


def test_a_worker_that_cannot_be_closed_harms_nothing(pool_of, log, caplog):
    class Sticky(Mortal):
        def close(self, timeout: float) -> None:
            raise OSError("stuck")

    with pool_of(lambda index: Sticky(index, log)) as pool:
        assert pool.submit("a", [1]).result(PATIENCE) == "a"
    assert caplog.text.count("could not be closed") == 2


def test_a_worker_is_given_up_after_the_time_limit(pool_of, log):
    gate = Gate()

    class Stuck(Mortal):
        def run(self, args, kwargs):
            gate()
            raise WorkerDied("killed")

        def abandon(self):
            log.append(("abandoned", self.index))
            gate.opened.set()

    pool = pool_of(lambda index: Stuck(index, log))
    future = pool.submit()
    gate.wait_entered()
    with pytest.warns(RuntimeWarning, match="given up"):
        pool.close(0)
    assert isinstance(future.exception(0), PoolClosed)
    eventually(lambda: not pool._dispatchers[0].thread.is_alive(), "the end of the thread")
    assert log == [("made", 0), ("abandoned", 0), ("closed", 0)]

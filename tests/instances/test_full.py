"""A full queue blocks or raises, as the caller wants it."""

from __future__ import annotations

import math

import pytest

import pplconv
from pplconv.instances import PoolClosed
from tests.instances.gates import Gate
from tests.patience import PATIENCE, eventually
from tests.threads import begun, ended


@pytest.fixture
def gate():
    return Gate()


def filled(gate: Gate, full: str) -> tuple[pplconv.InstancePool, list]:
    """Return a full pool, in which one request runs and two wait, and their futures."""
    pool = pplconv.InstancePool(
        lambda: gate, instances=1, threads=1, queue_size=2, full=full, shutdown_timeout=PATIENCE
    )
    futures = [pool.submit(0)]
    gate.wait_entered()
    futures += [pool.submit(1), pool.submit(2)]
    return pool, futures


def test_raise(gate):
    pool, futures = filled(gate, "raise")
    with pool:
        with pytest.raises(pplconv.QueueFull, match="2 requests wait already"):
            pool.submit(3)
        gate.opened.set()
        assert [f.result(PATIENCE) for f in futures] == [0, 1, 2]
        assert pool.submit(3).result(PATIENCE) == 3
        assert pool.statistics()[0].served == 4


@pytest.mark.parametrize("full", ["raise", "block"])
def test_a_submit_may_wait_for_some_time(gate, full):
    pool, futures = filled(gate, full)
    with pool:
        for timeout in (0, 0.05):
            with pytest.raises(pplconv.QueueFull):
                pool.submit_within(timeout, 3)

        def open_once_it_waits():
            eventually(lambda: pool._queue._waiting == 1, "a submit that waits")
            gate.opened.set()

        # The gate opens once a submit waits; a submit that did not wait would be refused.
        opener = begun([open_once_it_waits])
        assert pool.submit_within(PATIENCE, 3).result(PATIENCE) == 3
        assert pool.submit_within(math.inf, 4).result(PATIENCE) == 4
        ended(opener)
        assert [f.result(PATIENCE) for f in futures] == [0, 1, 2]
        with pytest.raises(ValueError, match="timeout is -1: expected 0 or more seconds"):
            pool.submit_within(-1)
        with pytest.raises(ValueError, match="timeout is nan"):
            pool.submit_within(math.nan)


def test_block(gate):
    pool, futures = filled(gate, "block")
    answers = []
    with pool:
        threads = begun(
            lambda i=i: answers.append(pool.submit(i).result(PATIENCE)) for i in range(3, 9)
        )
        eventually(lambda: pool._queue._waiting == len(threads), "all to wait")
        assert answers == []
        gate.opened.set()
        ended(threads)
        assert sorted(answers) == list(range(3, 9))
        assert [f.result(PATIENCE) for f in futures] == [0, 1, 2]
        assert pool._queue._waiting == 0


def test_those_who_wait_for_room_learn_that_the_pool_is_closed(gate):
    pool, futures = filled(gate, "block")
    caught = []

    def submit():
        with pytest.raises(PoolClosed) as error:
            pool.submit(3)
        caught.append(error.value)

    threads = begun([submit] * 3)
    eventually(lambda: pool._queue._waiting == 3, "all to wait")
    closer = begun([pool.close])
    ended(threads)
    assert len(caught) == 3
    gate.opened.set()
    ended(closer)
    assert [f.result(0) for f in futures] == [0, 1, 2]


def test_an_instance_does_not_wait_for_room_that_only_it_can_make(gate):
    inside = []

    def callback(future):
        try:
            pool.submit(9)
        except pplconv.QueueFull as error:
            inside.append(error)

    pool, futures = filled(gate, "block")
    with pool:
        futures[0].add_done_callback(callback)
        waiting = begun([lambda: futures.append(pool.submit(3))])
        eventually(lambda: pool._queue._waiting == 1, "it to wait")
        gate.opened.set()
        ended(waiting)
        assert [f.result(PATIENCE) for f in futures] == [0, 1, 2, 3]
    assert len(inside) == 1
